//! The broker's process: one loop over all connections.
//!
//! It never waits for a client. What a client sends is handled in turns of a few messages, so that none
//! that floods keeps the others waiting; what it does not read is kept up to a limit, and then the
//! connection is cut. A client that hangs up, dies or breaks the protocol is cut off: its jobs leave, and
//! what they held stays charged until its process has ended and its work on the device is over ([`Teardown`]).

mod journal;
mod listen;
mod lock;
mod recovery;
mod session;
mod store;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use zico_core::broker::{Broker, Reply, Request};
use zico_core::{Bytes, Caps, PoolConfig, PoolError, Ticks};
use zico_cuda::Physical;

use crate::peer::Peer;
use crate::wire::{Down, Fault, Rejection, Up, VERSION, Welcome};
use journal::{Awaited, Journal};
use session::{End, Role, Session, Works};

pub use lock::DeviceLock;
pub use store::DeviceStore;

/// So many messages of one client are handled before it is another one's turn.
const TURN: usize = 64;
/// The most connections, of clients and of those who only look.
const MOST_SESSIONS: usize = 256;
/// The most connections of one process.
const MOST_OF_A_PROCESS: usize = 16;
/// How often jobs that others wait for, and processes that have ended, are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// When the device has nothing left of a process that has ended.
pub trait Teardown {
    /// Whether nothing of the process runs on the device any more, nor is mapped there. It ended so long ago.
    /// If in doubt: no.
    fn is_over(&mut self, process: u32, ended: Duration) -> bool;
}

/// A time after which a device has torn down what a process had. Nothing for host memory: its mappings have
/// gone with the process.
impl Teardown for Duration {
    fn is_over(&mut self, _: u32, ended: Duration) -> bool {
        ended >= *self
    }
}

/// How a [`Server`] is to be.
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
    /// The broker before this one has been killed, and its jobs hold memory in regions of another size, or more
    /// than this budget.
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

/// The milliseconds since 1970, and room for a thousand jobs in each: what no broker before had.
fn first_number() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0) << 10)
}

/// The broker of one device. See the crate's documentation.
pub struct Server<D: Physical> {
    listener: listen::Listener,
    device: String,
    users: Vec<u32>,
    broker: Broker<DeviceStore<D>>,
    teardown: Box<dyn Teardown + Send>,
    sessions: BTreeMap<u64, Session>,
    next: u64,
    started: Instant,
    looked: Instant,
    /// When each process that has ended was found to have.
    ended: BTreeMap<u64, Instant>,
    journal: Journal,
    /// Processes that have yet to tell what they have from the broker before this one.
    awaited: Vec<Awaited>,
}

impl<D: Physical> Server<D> {
    /// Listens at the socket. Creates no memory yet.
    ///
    /// # Errors
    /// If another broker does, or the socket or the budget cannot be.
    pub fn bind(
        config: ServerConfig,
        device: D,
        teardown: impl Teardown + Send + 'static,
    ) -> Result<Self, ServerError> {
        let ServerConfig { socket, pool, device: name, users } = config;
        let caps: Caps = device.caps();
        let region = pool.region_for(caps.granularity);
        let store = DeviceStore::new(device, region);
        let mut broker = pool.broker(caps, store).map_err(ServerError::Pool)?;
        broker.number_jobs_from(first_number());
        let listener = listen::Listener::bind(&socket, !users.is_empty())?;
        Self::check_descriptors(&broker)?;
        let now = Instant::now();
        let awaited = Self::awaited(&socket, &mut broker)?;
        let (region, budget) = (broker.region_size(), broker.budget());
        let journal = Journal::new(&socket, region, budget, &awaited);
        Ok(Self {
            journal,
            awaited,
            listener,
            device: name,
            users,
            broker,
            teardown: Box::new(teardown),
            sessions: BTreeMap::new(),
            next: 0,
            started: now,
            looked: now,
            ended: BTreeMap::new(),
        })
    }

    /// Each region's memory takes a descriptor, and each client a few.
    fn check_descriptors(broker: &Broker<DeviceStore<D>>) -> Result<(), ServerError> {
        let limit = crate::host::raise_descriptor_limit().unwrap_or(1024);
        let (budget, region) = (broker.budget(), broker.region_size());
        let regions = budget.value() / region.value().max(1);
        let needed = regions.saturating_add(8 * MOST_SESSIONS as u64);
        if needed > limit {
            return Err(ServerError::Descriptors { budget, regions, region, limit });
        }
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.listener.path()
    }

    /// The budget: whole regions.
    #[must_use]
    pub fn budget(&self) -> Bytes {
        self.broker.budget()
    }

    /// The size of a region.
    #[must_use]
    pub fn region_size(&self) -> Bytes {
        self.broker.region_size()
    }

    /// The connections with jobs, and the jobs.
    #[must_use]
    pub fn jobs(&self) -> (usize, usize) {
        let clients = self.sessions.values().filter_map(Session::client);
        let jobs = self.broker.snapshot().jobs.len();
        (clients.count(), jobs)
    }

    /// Serves until `stop` can be read from. Jobs that run then go on with what they hold.
    ///
    /// # Errors
    /// If the kernel refuses to wait for messages.
    pub fn run(&mut self, stop: &OwnedFd) -> Result<(), ServerError> {
        while !self.turn(stop)? {}
        Ok(())
    }

    /// Waits for what comes next, and handles it. Whether it is to stop.
    fn turn(&mut self, stop: &OwnedFd) -> Result<bool, ServerError> {
        let (stops, accepts, ready) = self.wait(stop)?;
        if stops {
            return Ok(true);
        }
        if accepts {
            self.accept();
        }
        for key in ready {
            self.serve(key);
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let now = self.now();
            self.broker.look(now);
            self.bury();
            self.look_for_awaited();
        }
        // Whoever has changed it.
        self.journal.set_budget(self.broker.budget());
        self.pass_on();
        Ok(false)
    }

    fn now(&self) -> Ticks {
        Ticks::new(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits until something can be done: whether to stop, whether somebody connects, and which sessions.
    fn wait(&self, stop: &OwnedFd) -> Result<(bool, bool, Vec<u64>), ServerError> {
        let mut polled = vec![
            PollFd::new(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.socket(), PollFlags::IN),
        ];
        let mut of = Vec::new();
        for (&key, session) in &self.sessions {
            if let Some(socket) = &session.socket {
                let out = if session.is_unread() { PollFlags::OUT } else { PollFlags::empty() };
                polled.push(PollFd::new(socket, PollFlags::IN | out));
                of.push(key);
            }
            if let Some(notices) = session.hears() {
                polled.push(PollFd::from_borrowed_fd(notices, PollFlags::OUT));
                of.push(key);
            }
            if !self.ended.contains_key(&key) {
                polled.push(PollFd::new(&session.peer.life, PollFlags::IN));
                of.push(key);
            }
        }
        let rest = LOOK.saturating_sub(self.looked.elapsed());
        let wakes = self.broker.has_waiting() || !self.ended.is_empty() || !self.awaited.is_empty();
        let timeout =
            wakes.then(|| Timespec { tv_sec: 0, tv_nsec: i64::from(rest.subsec_nanos()) });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(ServerError::Poll(error)),
        }
        let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
        let mut ready: Vec<u64> = polled[2..]
            .iter()
            .zip(of)
            .filter(|(polled, _)| is_ready(polled))
            .map(|(_, key)| key)
            .collect();
        ready.dedup();
        Ok((is_ready(&polled[0]), is_ready(&polled[1]), ready))
    }

    /// Lets in whoever connects.
    fn accept(&mut self) {
        // One that has gone again, or for which there is no descriptor, is tried again or not at all.
        let Ok(socket) = accept_with(self.listener.socket(), SocketFlags::CLOEXEC) else { return };
        let Ok(peer) = Peer::of(&socket) else { return };
        let owner = rustix::process::geteuid().as_raw();
        let rejection = if peer.user != owner && !self.users.contains(&peer.user) {
            Some(Rejection::User { user: peer.user, owner })
        } else {
            let own = self.sessions.values().filter(|other| other.peer.pid == peer.pid).count();
            let counts = [(own, MOST_OF_A_PROCESS), (self.sessions.len(), MOST_SESSIONS)];
            let full = counts.into_iter().find(|(count, most)| count >= most);
            full.map(|(_, most)| Rejection::TooMany { most })
        };
        let mut session = Session::new(socket, peer);
        if let Some(rejection) = rejection {
            // What it has sent by now is read, since an answer is lost where something is left unread.
            // No more than a turn of it: one that floods is not waited for.
            for _ in 0..TURN {
                let Ok(Some(_)) = session.next::<Up>() else { break };
            }
            let _ = session.answer(&Down::Refused(rejection), None);
            return;
        }
        self.sessions.insert(self.next, session);
        self.next += 1;
    }

    /// Handles what a connection has sent, a few messages of it.
    fn serve(&mut self, key: u64) {
        for _ in 0..TURN {
            let Some(session) = self.sessions.get_mut(&key) else { return };
            let end = match session.flush().and_then(|()| session.next()) {
                Ok(Some((up, descriptors))) => self.handle(key, up, descriptors).err(),
                Ok(None) => break,
                Err(end) => Some(end),
            };
            if let Some(end) = end {
                return self.end(key, end);
            }
        }
        // A process that has ended says nothing more.
        if self.sessions.get(&key).is_some_and(|session| session.peer.has_ended()) {
            self.end(key, End::HungUp);
            self.ended.entry(key).or_insert_with(Instant::now);
            self.bury();
        }
    }

    fn handle(&mut self, key: u64, up: Up, descriptors: Vec<OwnedFd>) -> Result<(), End> {
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        if let (Role::New, &Up::Hello { version, only_looks, resumes }) = (&session.role, &up) {
            let greeted = self.greet(key, version, only_looks, descriptors);
            if let (true, Some(session)) = (greeted.is_ok(), self.sessions.get(&key))
                && session.works().is_some()
            {
                self.note_connection(key, session.peer.pid, resumes);
            }
            return greeted.or_else(|rejection| self.reject(key, rejection));
        }
        if let (Role::Works(works), &Up::HandIn(region)) = (&session.role, &up) {
            let client = works.client;
            return self.take_in(key, client, region, &descriptors);
        }
        if !descriptors.is_empty() {
            let found = descriptors.len();
            return Err(End::Fault(Fault::Descriptors { found, expected: 0 }));
        }
        match (&mut session.role, up) {
            (Role::Looks, Up::Request(None, request)) => self.look(key, &request),
            (Role::Works(works), Up::Slot(job, slot)) => {
                let jobs = self.broker.jobs(works.client);
                works.seat(job, slot, &jobs).map_err(End::Fault)
            }
            (Role::Works(_), Up::Recovered(connections)) => {
                session.has_told = true;
                let pid = session.peer.pid;
                self.has_told(pid, connections);
                Ok(())
            }
            (Role::Works(works), Up::Fetch(region)) => {
                let may = self.broker.may_fetch(works.client, region);
                let descriptor = if may { self.broker.store().export(region) } else { None };
                session.answer(&Down::Memory(descriptor.is_some()), descriptor)
            }
            (Role::Works(works), Up::Request(job, request)) => {
                let (client, now) = (works.client, self.now());
                self.observe();
                let reply = self.broker.handle(client, job, request, now);
                self.watch();
                let reply = reply.map_err(End::Violation)?;
                let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
                reply.map_or(Ok(()), |reply| session.answer(&Down::Reply(reply), None))
            }
            _ => Err(End::Fault(Fault::Order)),
        }
    }

    /// Lets a client in, if it is one.
    fn greet(
        &mut self,
        key: u64,
        version: u32,
        only_looks: bool,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), Rejection> {
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        if version != VERSION {
            return Err(Rejection::Version { client: version, broker: VERSION });
        }
        let (found, expected) = (descriptors.len(), if only_looks { 0 } else { 2 });
        if found != expected {
            return Err(Rejection::Hello(Fault::Descriptors { found, expected }));
        }
        let mut descriptors = descriptors.into_iter();
        session.role = match (descriptors.next(), descriptors.next()) {
            (Some(page), Some(notices)) => {
                let client = self.broker.connect();
                match Works::new(client, &page, notices) {
                    Ok(works) => Role::Works(works),
                    Err(fault) => {
                        let now = self.now();
                        self.broker.gone(client, now);
                        return Err(Rejection::Hello(fault));
                    }
                }
            }
            _ => Role::Looks,
        };
        let welcome = Down::Welcome(Welcome {
            region: self.broker.region_size(),
            capacity: self.broker.capacity(),
            device: self.device.clone(),
            awaits: self.awaited.iter().map(|awaited| awaited.pid).collect(),
        });
        // One that has gone by now is found out at its next turn.
        let _ = session.answer(&welcome, None);
        Ok(())
    }

    fn reject(&mut self, key: u64, rejection: Rejection) -> Result<(), End> {
        if let Some(session) = self.sessions.get_mut(&key) {
            let _ = session.answer(&Down::Refused(rejection), None);
        }
        Err(End::HungUp)
    }

    /// What somebody asks who has no jobs.
    fn look(&mut self, key: u64, request: &Request) -> Result<(), End> {
        let reply = match request {
            Request::Pool => Reply::Pool(self.broker.snapshot()),
            Request::Waits => Reply::Waits(self.broker.waits()),
            Request::Budget => Reply::Budget(self.broker.budget_status()),
            &Request::SetBudget(budget) => match self.broker.set_budget(budget) {
                Ok(status) => Reply::Budget(status),
                Err(error) => Reply::NoBudget(error),
            },
            _ => return Err(End::Fault(Fault::Order)),
        };
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        session.answer(&Down::Reply(reply), None)
    }

    /// Takes over how far all jobs have come.
    fn observe(&mut self) {
        let works = self.sessions.values().filter_map(Session::works);
        for (job, pulse) in works.flat_map(Works::pulses) {
            self.broker.observe(job, pulse.read());
        }
    }

    /// Writes down how far each may come before it is to tell.
    fn watch(&self) {
        let works = self.sessions.values().filter_map(Session::works);
        for (job, pulse) in works.flat_map(Works::pulses) {
            pulse.watch(self.broker.watched(job));
        }
    }

    /// A connection ends. What its jobs held stays charged until its process has gone.
    fn end(&mut self, key: u64, _: End) {
        let now = self.now();
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.socket = None;
        let pid = session.peer.pid;
        match session.client() {
            Some(client) => {
                session.role = Role::CutOff(client);
                self.broker.cut_off(client, now);
                if !self.broker.holds(client) {
                    self.broker.gone(client, now);
                    self.sessions.remove(&key);
                    self.is_awaited_still(key, pid);
                }
            }
            None => drop(self.sessions.remove(&key)),
        }
    }

    /// What processes held that have ended, and whose work on the device is over, is free.
    fn bury(&mut self) {
        let now = self.now();
        let teardown = &mut self.teardown;
        let over: Vec<u64> = self
            .ended
            .iter()
            .filter(|&(key, since)| {
                let pid = self.sessions.get(key).map_or(0, |session| session.peer.pid);
                teardown.is_over(pid, since.elapsed())
            })
            .map(|(&key, _)| key)
            .collect();
        for key in over {
            self.ended.remove(&key);
            self.journal.remove(key);
            if let Some(client) = self.sessions.remove(&key).and_then(|session| session.client()) {
                self.broker.gone(client, now);
            }
        }
    }

    /// Tells the clients what they have to hear.
    fn pass_on(&mut self) {
        for session in self.sessions.values_mut() {
            session.tell(std::iter::empty());
            if let Some(client) = session.works().map(|works| works.client)
                && session.listens()
            {
                let notices = self.broker.take_notices(client);
                session.tell(notices.into_iter().map(Down::Notice));
            }
        }
    }
}
