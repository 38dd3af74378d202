//! What can go wrong with a broker.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use zico_core::broker::NotSuspended;
use zico_core::{BrokerError, BudgetError};
use zico_cuda::CudaError;
use zico_node::host::HostError;
use zico_node::{ConnectError, ServerError};

/// Why a command around a broker stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The broker cannot serve.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The host's memory cannot be given out so.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The CUDA device cannot be served.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// There is no connection to a broker.
    #[error(transparent)]
    Connect(#[from] ConnectError<Infallible>),
    /// The broker does not answer.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The budget cannot be; the old one stays.
    #[error("the budget stays as it was: {0}")]
    Budget(BudgetError),
    /// There is no job of this name.
    #[error("no job is called {name:?}: there {}", said(.names))]
    NoJob {
        /// What was asked for.
        name: String,
        /// Those that there are.
        names: Vec<String>,
    },
    /// A job cannot be suspended or resumed.
    #[error("{name}: {why}")]
    Hold {
        /// The job.
        name: String,
        /// Why.
        why: NotSuspended,
    },
    /// A policy that only a replay can have.
    #[error(
        "{0} is for replays: a broker knows neither how long jobs go on nor what each is to have"
    )]
    Policy(&'static str),
    /// Only the host's capacity is a matter of choice.
    #[error("--capacity is for the host: a GPU has what it has")]
    Capacity,
    /// Other users cannot enter the folder of the usual socket.
    #[error(
        "--allow-user needs a --socket in a folder that other users can enter, such as \
         /run/zico/gpu0.sock: the usual place is for one user alone"
    )]
    NobodyCanEnter,
    /// The folder of the usual socket is not to be trusted.
    #[error(
        "{} {why}: somebody else could listen there in the broker's place. Remove it, or choose another \
         --socket", .folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The folder of the usual socket cannot be used.
    #[error("cannot use the folder {}", .folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody serves at the usual places.
    #[error(
        "no broker of this user: `zico serve` starts one, and --socket or ZICO_SOCKET says where another \
         listens (there is no socket in {})", .folder.display()
    )]
    NoBroker {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// There are several brokers to choose from.
    #[error("several brokers serve here, choose one by --socket: {0}")]
    Several(String),
    /// Metrics cannot be served.
    #[error("cannot serve metrics at {address}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Signals or threads of this process cannot be set up.
    #[error("cannot prepare {what}")]
    Process {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A broker that was to be started has ended.
    #[error("there is no broker, and none can be started: {0}")]
    NotStarted(String),
    /// A command could not be started.
    #[error("cannot run {command}")]
    Run {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The terminal cannot be drawn to.
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
}

/// The names of jobs.
fn said(names: &[String]) -> String {
    if names.is_empty() { "is none".to_owned() } else { format!("are {}", names.join(", ")) }
}
