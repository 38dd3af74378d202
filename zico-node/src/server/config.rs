//! How a broker is to serve, and why it cannot.

use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use zico_core::{Bytes, PoolConfig, PoolError};

/// When the device has nothing left of a process that has ended.
pub trait Teardown {
    /// Whether nothing of the process runs on the device any more, nor is mapped there. It ended so
    /// long ago. If in doubt: no.
    fn is_over(&mut self, process: u32, ended: Duration) -> bool;
}

/// A time after which a device has torn down what a process had. Nothing for host memory: its
/// mappings have gone with the process.
impl Teardown for Duration {
    fn is_over(&mut self, _: u32, ended: Duration) -> bool {
        ended >= *self
    }
}

/// How a [`Server`](crate::Server) is to be.
pub struct ServerConfig {
    /// Where it listens.
    pub socket: PathBuf,
    /// Its budget, regions, policy and patience.
    pub pool: PoolConfig,
    /// What the device is called.
    pub device: String,
    /// Other users that may connect, beside its own.
    pub users: Vec<u32>,
}

/// The broker cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Another broker serves at this socket.
    #[error("another broker serves at {}: stop it, or choose another --socket", socket.display())]
    Busy {
        /// The socket.
        socket: PathBuf,
    },
    /// Another broker serves this device, at whatever socket.
    #[error(
        "{device} has a broker already{}: two brokers would give out the same memory twice",
        .by.map_or_else(String::new, |pid| format!(", process {pid}"))
    )]
    Served {
        /// The device.
        device: String,
        /// The broker's process, if it could be asked.
        by: Option<u32>,
    },
    /// The socket's folder or file cannot be used.
    #[error("{}: {call}: {}", path.display(), std::io::Error::from(*.error))]
    Socket {
        /// The path.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// Why not.
        error: Errno,
    },
    /// The budget or the region size cannot be.
    #[error("{0}")]
    Pool(PoolError<std::convert::Infallible>),
    /// The process may not open as many descriptors as there may be regions.
    #[error(
        "a budget of {budget} is {regions} regions of {region}, each of which takes a descriptor, and \
         this process may have {limit} (ulimit -Hn): use larger regions (--region)"
    )]
    Descriptors {
        /// The budget.
        budget: Bytes,
        /// In regions.
        regions: u64,
        /// The size of a region.
        region: Bytes,
        /// The most descriptors.
        limit: u64,
    },
    /// The broker before this one has been killed, and its jobs hold memory in regions of another
    /// size, or more than this budget.
    #[error(
        "jobs of the broker before this one still run, with regions of {region} under a budget of \
         {budget}: start with these (`zico budget` changes the budget later), or end the jobs"
    )]
    Left {
        /// The size of its regions.
        region: Bytes,
        /// Its budget.
        budget: Bytes,
    },
    /// The kernel refuses to wait for messages.
    #[error("poll: {}", std::io::Error::from(*.0))]
    Poll(Errno),
}
