//! `zico top`

mod history;
mod view;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::SIGTERM;
use zico_node::Observer;

use super::books::Books;
use super::{NodeError, place};
use crate::args::Top;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::stdout;
use history::History;
use view::View;

/// How long one who wants one picture is looked for.
const ONCE: Duration = Duration::from_secs(1);
/// The size of that picture.
const PICTURE: (u16, u16) = (80, 24);

/// Watches a broker's jobs.
pub(crate) fn run(args: &Top) -> Result<Exit, Failure> {
    let (socket, broker) = place::find(args.place.socket.as_deref())?;
    let interval = Duration::from_nanos(args.interval.value());
    let mut watch = Watch::new(socket, broker, interval)?;
    if args.once || !is_terminal() {
        let text = watch.picture()?;
        let mut out = stdout();
        write!(out, "{text}")?;
    } else {
        watch.live()?;
    }
    Ok(Exit::Fine)
}

#[expect(clippy::disallowed_methods, reason = "it is only asked what it is")]
fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// A broker that is watched.
struct Watch {
    socket: PathBuf,
    /// None while the broker has gone.
    broker: Option<Observer>,
    interval: Duration,
    started: Instant,
    books: Books,
    history: History,
}

impl Watch {
    fn new(socket: PathBuf, broker: Observer, interval: Duration) -> Result<Self, NodeError> {
        let books = Books::of(&broker)?;
        let mut history = History::default();
        history.add(Duration::ZERO, &books.pool);
        let (broker, started) = (Some(broker), Instant::now());
        Ok(Self { socket, broker, interval, started, books, history })
    }

    /// Asks for the books once more. A broker that has gone is looked for again.
    fn look(&mut self) {
        if self.broker.is_none() {
            self.broker = Observer::connect(&self.socket).ok();
            if self.broker.is_some() {
                // Another broker's jobs are others.
                self.history = History::default();
            }
        }
        match self.broker.as_ref().map(Books::of) {
            Some(Ok(books)) => {
                self.history.add(self.started.elapsed(), &books.pool);
                self.books = books;
            }
            Some(Err(_)) => self.broker = None,
            None => {}
        }
    }

    fn view(&self) -> View<'_> {
        let Self { socket, broker, books, history, .. } = self;
        View { socket, is_there: broker.is_some(), books, history }
    }

    /// One picture, as text.
    fn picture(&mut self) -> Result<String, NodeError> {
        while self.started.elapsed() < ONCE {
            std::thread::sleep(self.interval.min(ONCE));
            self.look();
        }
        if self.broker.is_none() {
            return Err(NodeError::Broker(zico_core::BrokerError::Unreachable));
        }
        picture(&self.view(), PICTURE)
    }

    /// Until somebody has seen enough.
    fn live(&mut self) -> Result<(), NodeError> {
        let ended = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, ended.clone())
            .map_err(|source| NodeError::Process { what: "signals", source })?;
        let mut terminal = ratatui::try_init().map_err(NodeError::Terminal)?;
        let done = self.draw(&mut terminal, &ended);
        let restored = ratatui::try_restore();
        done.and(restored).map_err(NodeError::Terminal)
    }

    fn draw(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        ended: &AtomicBool,
    ) -> std::io::Result<()> {
        while !ended.load(Ordering::Relaxed) {
            terminal.draw(|frame| self.view().draw(frame))?;
            let next = Instant::now() + self.interval;
            while event::poll(next.saturating_duration_since(Instant::now()))? {
                match event::read()? {
                    Event::Key(key) if is_end(key) => return Ok(()),
                    Event::Resize(..) => {
                        terminal.draw(|frame| self.view().draw(frame))?;
                    }
                    _ => {}
                }
            }
            self.look();
        }
        Ok(())
    }
}

fn is_end(key: KeyEvent) -> bool {
    let interrupted =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && (interrupted || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

/// A picture of this width and height as text, without the spaces at the ends of its lines.
fn picture(view: &View<'_>, (width, height): (u16, u16)) -> Result<String, NodeError> {
    let drawn = || {
        let mut terminal = Terminal::new(TestBackend::new(width, height))?;
        terminal.draw(|frame| view.draw(frame))?;
        Ok::<_, std::convert::Infallible>(lines(terminal.backend().buffer()))
    };
    match drawn() {
        Ok(text) => Ok(text),
        Err(never) => match never {},
    }
}

fn lines(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width).max(1)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text += line.trim_end();
        text.push('\n');
    }
    let len = text.trim_end().len();
    text.truncate(len);
    text + "\n"
}
