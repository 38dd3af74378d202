//! A broker and its clients in one process and in virtual time: what sockets and descriptors do
//! between processes is a call here.
//!
//! The clients' devices are one [`MockDevice`], so that its oracle sees the work of all of them. A
//! client may [die](MockClient::die) between any two of its messages, as a process that is killed
//! does; and so may the [broker](MockBroker::die), in whose place another one is
//! [started](MockBroker::restart).

mod client;
mod recovery;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zico_core::broker::{Broker, Client, NotSuspended, Pulse, Reply, Request, Store, Violation};
use zico_core::{BudgetError, Bytes, Device, JobId, PoolConfig, PoolError, Snapshot, Ticks};

use crate::device::{MockDevice, MockError, MockMemory};

pub use client::MockClient;

/// The physical memory of a [`MockBroker`].
struct Regions {
    device: MockDevice,
    size: Bytes,
    memories: BTreeMap<u32, MockMemory>,
    /// The user whose jobs have had a region's memory.
    users: BTreeMap<u32, u32>,
}

impl Regions {
    fn new(device: &MockDevice, size: Bytes) -> Self {
        let (memories, users) = (BTreeMap::new(), BTreeMap::new());
        Self { device: device.clone(), size, memories, users }
    }
}

impl Store for Regions {
    fn create(&mut self, region: u32) -> Result<(), Arc<str>> {
        if self.memories.contains_key(&region) {
            return Err("the region has memory".into());
        }
        let memory = self.device.create(self.size).map_err(|error| error.to_string())?;
        self.memories.insert(region, memory);
        Ok(())
    }

    fn destroy(&mut self, region: u32) -> Result<(), Arc<str>> {
        let Some(memory) = self.memories.remove(&region) else { return Ok(()) };
        self.users.remove(&region);
        self.device.destroy(memory).map_err(|refused| {
            self.memories.insert(region, refused.resource);
            refused.error.to_string().into()
        })
    }
}

/// A process's connection to one of the brokers that there have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Connection {
    broker: u64,
    client: Client,
}

struct State {
    broker: Broker<Regions>,
    /// Which one it is of those that there have been.
    number: u64,
    is_down: bool,
    /// It dies before the message after so many.
    messages_left: Option<u64>,
    /// Processes that have been connected and are not torn down.
    processes: BTreeSet<u64>,
    /// Those of them that the broker waits for, since they were another one's.
    awaited: BTreeSet<u64>,
    next_process: u64,
    pulses: BTreeMap<JobId, &'static Pulse>,
    /// Messages handled so far.
    messages: u64,
    violations: Vec<Violation>,
    users: BTreeMap<Client, u32>,
    /// Regions that have come to a job with what another user's job had written.
    leaks: u64,
}

/// A broker over a [`MockDevice`]. Clones are handles to the same.
#[derive(Clone)]
pub struct MockBroker {
    device: MockDevice,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for MockBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockBroker").finish_non_exhaustive()
    }
}

impl MockBroker {
    /// A broker with the books of such a pool.
    ///
    /// # Errors
    /// If the budget or the region size cannot be.
    pub fn new(device: MockDevice, config: PoolConfig) -> Result<Self, PoolError<MockError>> {
        let caps = device.caps();
        let size = config.region_for(caps.granularity);
        let store = Regions::new(&device, size);
        let broker = config.broker(caps, store)?;
        let state = State {
            broker,
            number: 0,
            is_down: false,
            messages_left: None,
            processes: BTreeSet::new(),
            awaited: BTreeSet::new(),
            next_process: 0,
            pulses: BTreeMap::new(),
            messages: 0,
            violations: Vec::new(),
            users: BTreeMap::new(),
            leaks: 0,
        };
        Ok(Self { device, state: Arc::new(Mutex::new(state)) })
    }

    /// The books as they stand.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.lock().broker.snapshot()
    }

    /// Looks at the jobs that others wait for, as a broker does now and then.
    pub fn look(&self) {
        let now = self.device.now();
        self.lock().broker.look(now);
    }

    /// Has a job go to the host and stay there, or no longer: [`Broker::hold`].
    ///
    /// # Errors
    /// If it cannot.
    pub fn hold(&self, job: JobId, held: bool) -> Result<(), NotSuspended> {
        self.lock().broker.hold(job, held)
    }

    /// When it is to look next if nothing else happens.
    #[must_use]
    pub fn look_at(&self) -> Option<Ticks> {
        self.lock().broker.look_at()
    }

    /// How many messages it has handled.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.lock().messages
    }

    /// What no correct client would have asked for.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// How many regions have come to a job with what another user's job had written. None, if the
    /// broker does what it promises.
    #[must_use]
    pub fn leaks(&self) -> u64 {
        self.lock().leaks
    }

    /// Changes the budget.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn set_budget(&self, budget: Bytes) -> Result<(), BudgetError> {
        self.lock().broker.set_budget(budget).map(drop)
    }

    /// Gives memory that is nobody's back until no more than so much is held, as clients release
    /// it.
    pub fn trim(&self, target: Bytes) {
        self.lock().broker.trim(target);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the broker answers to a message, if the connection still is one to it.
    fn handle(&self, over: Connection, job: Option<JobId>, request: Request) -> Option<Reply> {
        let now = self.device.now();
        let mut state = self.lock();
        if !state.hears(over) {
            return None;
        }
        let State { broker, pulses, messages, violations, users, leaks, .. } = &mut *state;
        *messages += 1;
        pulses.iter().for_each(|(&job, pulse)| broker.observe(job, pulse.read()));
        let reply = match broker.handle(over.client, job, request, now) {
            Ok(reply) => reply,
            Err(violation) => {
                violations.push(violation);
                broker.cut_off(over.client, now);
                None
            }
        };
        pulses.iter().for_each(|(&job, pulse)| pulse.watch(broker.watched(job)));
        if let (Some(Reply::Granted(order)), Some(&user)) = (&reply, users.get(&over.client)) {
            for &(_, region) in &order.map {
                let before = broker.store_mut().users.insert(region, user);
                *leaks += u64::from(before.is_some_and(|before| before != user));
            }
        }
        reply
    }
}
