//! A job's process: the way to the broker, and the thread that hears it.

mod connections;
mod link;
mod links;
mod pages;
mod service;
mod wire;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zico_core::broker::{NotSuspended, Reply, Request};
use zico_core::{
    BrokerError, BudgetError, BudgetStatus, Bytes, JobId, Pool, PoolError, Snapshot, Waiting,
};
use zico_cuda::Share;

use crate::wire::{Down, Rejection, Up, VERSION, Welcome};
use connections::Connections;
use link::NodeLink;
use wire::Wire;

/// How long another broker is looked for where one has hung up before it said anything.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// How often another broker is looked for in the place of one that has gone.
const AGAIN: Duration = Duration::from_millis(20);

/// There is no connection to a broker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError<E: std::error::Error + 'static> {
    /// Nobody serves at the socket.
    #[error(
        "no broker serves at {}: {}; `zico serve` starts one",
        socket.display(), std::io::Error::from(*.error)
    )]
    NoBroker {
        /// The socket.
        socket: PathBuf,
        /// What the kernel says.
        error: Errno,
    },
    /// The broker does not let this process in.
    #[error("the broker at {} does not let this process in: {rejection}", socket.display())]
    Rejected {
        /// The socket.
        socket: PathBuf,
        /// Why.
        rejection: Rejection,
    },
    /// The broker has hung up without a word, for two seconds, as it does where it is in a hurry:
    /// it serves as many as it may.
    #[error("the broker at {} has hung up: it may serve too many already", socket.display())]
    HungUp {
        /// The socket.
        socket: PathBuf,
    },
    /// What serves at the socket does not speak as a broker does.
    #[error("what serves at {} is no broker", socket.display())]
    Stranger {
        /// The socket.
        socket: PathBuf,
    },
    /// The kernel refuses what a connection takes.
    #[error("{call}: {}", std::io::Error::from(*.error))]
    Kernel {
        /// The call.
        call: &'static str,
        /// Why.
        error: Errno,
    },
    /// The device cannot be used under this broker.
    #[error("{0}")]
    Pool(PoolError<E>),
}

/// Connections of job processes to a broker.
pub struct Client;

impl Client {
    /// Connects to the broker that serves at a socket: a pool on this process's own device, whose
    /// jobs share the broker's budget with those of all other processes.
    ///
    /// A thread hears what the broker says unasked, and looks at the device's fences while somebody
    /// waits. It ends with the pool. A broker that hangs up before it has said anything may be about
    /// to end: for two seconds another one is looked for.
    ///
    /// # Errors
    /// If nobody serves there, this process is not let in, or the device cannot be used.
    pub fn connect<D: Share + Clone + 'static>(
        device: D,
        socket: &Path,
    ) -> Result<Pool<D>, ConnectError<D::Error>> {
        Self::open(device, socket, None)
    }

    /// The same, and calls `probe` with each message before it is sent, and its number: 1, 2, 3 and
    /// so on. For whoever counts what a job costs in messages, or tests what becomes of others when
    /// a process ends between two of them.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_probed<D: Share + Clone + 'static>(
        device: D,
        socket: &Path,
        probe: impl Fn(u64, &Up) + Send + Sync + 'static,
    ) -> Result<Pool<D>, ConnectError<D::Error>> {
        let probe: wire::Probe = Arc::new(probe);
        Self::open(device, socket, Some(&probe))
    }

    fn open<D: Share + Clone + 'static>(
        device: D,
        socket: &Path,
        probe: Option<&wire::Probe>,
    ) -> Result<Pool<D>, ConnectError<D::Error>> {
        let kernel = |call| move |error| ConnectError::Kernel { call, error };
        let page = pages::take().map_err(kernel("memfd_create"))?;
        let (wire, notices, welcome) = Self::greet(socket, probe, &page)?;
        let wire = Arc::new(wire);
        let connections = Arc::new(Connections::default());
        let link = NodeLink::new(
            wire.clone(),
            socket.to_owned(),
            connections.clone(),
            page,
            welcome,
            device.clone(),
        );
        let pool = Pool::connect(device, Box::new(link)).map_err(ConnectError::Pool)?;
        service::start(pool.downgrade(), wire, connections, notices).map_err(kernel("a thread"))?;
        Ok(pool)
    }

    /// Says who this is, to the broker that serves at a socket or to the one that comes in its place
    /// just now: the connection, what notices come on, and what the broker says of itself.
    fn greet<E: std::error::Error>(
        socket: &Path,
        probe: Option<&wire::Probe>,
        page: &pages::OwnPage,
    ) -> Result<(Wire, OwnedFd, Welcome), ConnectError<E>> {
        let until = Instant::now() + SHORT_WAIT;
        let mut hung_up = false;
        loop {
            let greeted = Self::try_to_greet(socket, probe, page);
            match greeted {
                Err(ConnectError::HungUp { .. }) if Instant::now() < until => hung_up = true,
                Err(ConnectError::NoBroker { .. }) if hung_up && Instant::now() < until => {}
                _ => return greeted,
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn try_to_greet<E: std::error::Error>(
        socket: &Path,
        probe: Option<&wire::Probe>,
        page: &pages::OwnPage,
    ) -> Result<(Wire, OwnedFd, Welcome), ConnectError<E>> {
        let wire = Wire::connect(socket, probe.cloned())
            .map_err(|error| ConnectError::NoBroker { socket: socket.to_owned(), error })?;
        let (notices, far) = crate::socket::pair()
            .map_err(|error| ConnectError::Kernel { call: "socketpair", error })?;
        let hello = Up::Hello { version: VERSION, only_looks: false, resumes: false };
        let answer = wire.ask_with(&hello, &[page.descriptor(), far.as_fd()], &mut |_| {});
        drop(far);
        let welcome = welcome(answer.map(|(down, _)| down), socket)?;
        Ok((wire, notices, welcome))
    }
}

/// A connection of somebody who has no jobs: looks at the broker's books, and changes its budget.
pub struct Observer {
    wire: Wire,
    welcome: Welcome,
}

impl Observer {
    /// Connects to the broker that serves at a socket.
    ///
    /// # Errors
    /// If nobody serves there, or this user is not let in.
    pub fn connect(socket: &Path) -> Result<Self, ConnectError<std::convert::Infallible>> {
        let wire = Wire::connect(socket, None)
            .map_err(|error| ConnectError::NoBroker { socket: socket.to_owned(), error })?;
        let hello = Up::Hello { version: VERSION, only_looks: true, resumes: false };
        let answer = wire.ask_with(&hello, &[], &mut |_| {});
        let welcome = welcome(answer.map(|(down, _)| down), socket)?;
        Ok(Self { wire, welcome })
    }

    /// Which device it is: "host", or the UUID of a GPU.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.welcome.device
    }

    /// Processes that, when this connected, had yet to tell what they hold from the broker before
    /// this one. As long as there are any, nobody gets anything.
    #[must_use]
    pub fn awaited_processes(&self) -> &[u32] {
        &self.welcome.awaits
    }

    /// The size of a region.
    #[must_use]
    pub const fn region_size(&self) -> Bytes {
        self.welcome.region
    }

    /// The books as they stand.
    ///
    /// # Errors
    /// If the broker has gone.
    pub fn snapshot(&self) -> Result<Snapshot, BrokerError> {
        match self.ask(Request::Pool)? {
            Reply::Pool(snapshot) => Ok(snapshot),
            _ => Err(BrokerError::Confused),
        }
    }

    /// The jobs that wait, and for whom.
    ///
    /// # Errors
    /// If the broker has gone.
    pub fn waits(&self) -> Result<Vec<Waiting>, BrokerError> {
        match self.ask(Request::Waits)? {
            Reply::Waits(waits) => Ok(waits),
            _ => Err(BrokerError::Confused),
        }
    }

    /// How far the budget is from what it is to be.
    ///
    /// # Errors
    /// If the broker has gone.
    pub fn budget(&self) -> Result<BudgetStatus, BrokerError> {
        match self.ask(Request::Budget)? {
            Reply::Budget(status) => Ok(status),
            _ => Err(BrokerError::Confused),
        }
    }

    /// Changes the budget, as [`Pool::set_budget`].
    ///
    /// # Errors
    /// If the broker has gone; within that, if the budget cannot be.
    pub fn set_budget(
        &self,
        budget: Bytes,
    ) -> Result<Result<BudgetStatus, BudgetError>, BrokerError> {
        match self.ask(Request::SetBudget(budget))? {
            Reply::Budget(status) => Ok(Ok(status)),
            Reply::NoBudget(error) => Ok(Err(error)),
            _ => Err(BrokerError::Confused),
        }
    }

    /// Has a job that takes turns go to the host and stay there, or no longer.
    ///
    /// # Errors
    /// If the broker has gone; within that, if the job cannot.
    pub fn hold(&self, job: JobId, held: bool) -> Result<Result<(), NotSuspended>, BrokerError> {
        match self.ask(Request::Hold { job, held })? {
            Reply::Suspended(done) => Ok(done),
            _ => Err(BrokerError::Confused),
        }
    }

    fn ask(&self, request: Request) -> Result<Reply, BrokerError> {
        match self.wire.ask(&Up::Request(None, request))? {
            Down::Reply(reply) => Ok(reply),
            _ => Err(BrokerError::Confused),
        }
    }
}

fn welcome<E: std::error::Error>(
    answer: Result<Down, BrokerError>,
    socket: &Path,
) -> Result<Welcome, ConnectError<E>> {
    let socket = socket.to_owned();
    match answer {
        Ok(Down::Welcome(welcome)) => Ok(welcome),
        Ok(Down::Refused(rejection)) => Err(ConnectError::Rejected { socket, rejection }),
        Err(BrokerError::Unreachable) => Err(ConnectError::HungUp { socket }),
        _ => Err(ConnectError::Stranger { socket }),
    }
}
