//! The broker's process: one loop over all connections.
//!
//! It never waits for a client. What a client sends is handled in turns of a few messages, so that
//! none that floods keeps the others waiting; what it does not read is kept up to a limit, and then
//! the connection is cut. A client that hangs up, dies or breaks the protocol is cut off: its jobs
//! leave, and what they held stays charged until its process has ended and its work on the device
//! is over ([`Teardown`]).

mod config;
mod departures;
mod journal;
mod listen;
mod lock;
mod recovery;
mod requests;
mod session;
mod store;
mod used;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use zico_core::broker::Broker;
use zico_core::{Bytes, Caps, Ticks};
use zico_cuda::Physical;

use crate::peer::Peer;
use crate::wire::{Down, Rejection, Up};
use journal::{Awaited, Journal};
use session::{End, Session};

pub use config::{ServerConfig, ServerError, Teardown};
pub use lock::DeviceLock;
pub use store::DeviceStore;
pub use used::{Use, end_unused};

/// So many messages of one client are handled before it is another one's turn.
const TURN: usize = 64;
/// The most connections, of clients and of those who only look.
const MOST_SESSIONS: usize = 256;
/// Descriptors that are not for regions: a few for each session.
const OTHER_DESCRIPTORS: u64 = 8 * MOST_SESSIONS as u64;
/// The most connections of one process.
const MOST_OF_A_PROCESS: usize = 16;
/// How often jobs that others wait for, and processes that have ended, are looked at.
const LOOK: Duration = Duration::from_millis(50);

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
        let limit = crate::host::raise_descriptor_limit().unwrap_or(1024);
        let pool = pool.most_regions(limit.saturating_sub(OTHER_DESCRIPTORS));
        let region = pool.region_for(caps.granularity);
        let store = DeviceStore::new(device, region);
        let mut broker = pool.broker(caps, store).map_err(ServerError::Pool)?;
        broker.number_jobs_from(first_number());
        let listener = listen::Listener::bind(&socket, !users.is_empty())?;
        Self::check_descriptors(&broker, limit)?;
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
    fn check_descriptors(broker: &Broker<DeviceStore<D>>, limit: u64) -> Result<(), ServerError> {
        let (budget, region) = (broker.budget(), broker.region_size());
        let regions = budget.value() / region.value().max(1);
        let needed = regions.saturating_add(OTHER_DESCRIPTORS);
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
        // Whoever has changed them.
        self.journal.set_budget(self.broker.budget());
        self.journal.set_held(self.broker.held());
        self.pass_on();
        Ok(false)
    }

    fn now(&self) -> Ticks {
        Ticks::new(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits until something can be done: whether to stop, whether somebody connects, and which
    /// sessions.
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
        // One that has gone again, or for which there is no descriptor, is tried again or not at
        // all.
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
            // What it has sent by now is read, since an answer is lost where something is left
            // unread. No more than a turn of it: one that floods is not waited for.
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
