//! Metrics in Prometheus' text format, over HTTP.
//!
//! A thread of the broker's process, which asks the broker over its socket as anybody who looks
//! does: its loop knows nothing of this. One connection is served at a time and for two seconds at
//! most, so that no number of them takes threads or descriptors from the broker.

mod http;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zico_core::BrokerError;
use zico_node::Observer;

use super::NodeError;
use super::books::Books;
use http::Answer;

/// Where metrics are to be had.
pub(super) struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
}

impl Metrics {
    /// Listens, and does not answer yet.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, NodeError> {
        let failed = |source| NodeError::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        // Of a port that the system has chosen.
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Answers from now on, as long as the process is there. Where.
    pub(super) fn start(self, socket: &Path) -> Result<String, NodeError> {
        let Self { listener, address } = self;
        let mut source = Source { socket: socket.to_owned(), broker: None };
        let serve = move || {
            loop {
                match listener.accept() {
                    // One that does not ask, or not in time, is not answered.
                    Ok((stream, _)) => drop(http::serve(&stream, |path| source.answer(path))),
                    // No descriptors, say: not over and over without a pause.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        let thread = std::thread::Builder::new().name("zico-metrics".to_owned()).spawn(serve);
        let prepared = |source: io::Error| NodeError::Process { what: "a thread", source };
        thread.map(drop).map_err(prepared)?;
        Ok(format!("http://{address}/metrics"))
    }
}

/// What is answered.
struct Source {
    socket: PathBuf,
    /// None until it is asked for the first time, and after it has failed.
    broker: Option<Observer>,
}

impl Source {
    fn answer(&mut self, path: &str) -> Answer {
        match path {
            "/metrics" => match self.books() {
                Some(books) => Answer::Metrics(text::text(&books)),
                None => Answer::Unavailable,
            },
            "/" => Answer::Text("zico: metrics are at /metrics\n"),
            _ => Answer::NotFound,
        }
    }

    fn books(&mut self) -> Option<Books> {
        if self.broker.is_none() {
            self.broker = Observer::connect(&self.socket).ok();
        }
        let books: Result<Books, BrokerError> = Books::of(self.broker.as_ref()?);
        books.inspect_err(|_| self.broker = None).ok()
    }
}
