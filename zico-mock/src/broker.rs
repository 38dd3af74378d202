//! A broker and its clients in one process and in virtual time: what sockets and descriptors do
//! between processes is a call here.
//!
//! The clients' devices are one [`MockDevice`], so that its oracle sees the work of all of them. A
//! client may [die](MockClient::die) between any two of its messages, as a process that is killed
//! does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zico_core::broker::{
    Broker, Client, Fetch, Link, NotSuspended, Pulse, Reply, Request, Store, Violation,
};
use zico_core::{
    BrokerError, BudgetError, Bytes, Device, JobId, Pool, PoolConfig, PoolError, Snapshot, Ticks,
    WeakPool,
};

use crate::device::{MockDevice, MockError, MockMemory};

/// The physical memory of a [`MockBroker`].
struct Regions {
    device: MockDevice,
    size: Bytes,
    memories: BTreeMap<u32, MockMemory>,
    /// The user whose jobs have had a region's memory.
    users: BTreeMap<u32, u32>,
}

impl Store for Regions {
    fn create(&mut self, region: u32) -> Result<(), Arc<str>> {
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

struct State {
    broker: Broker<Regions>,
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
        let store = Regions {
            device: device.clone(),
            size,
            memories: BTreeMap::new(),
            users: BTreeMap::new(),
        };
        let broker = config.broker(caps, store)?;
        let state = State {
            broker,
            pulses: BTreeMap::new(),
            messages: 0,
            violations: Vec::new(),
            users: BTreeMap::new(),
            leaks: 0,
        };
        Ok(Self { device, state: Arc::new(Mutex::new(state)) })
    }

    /// A client, which is a process of its own, and its pool.
    ///
    /// # Errors
    /// If the device cannot have regions of the broker's size.
    pub fn connect(&self) -> Result<MockClient, PoolError<MockError>> {
        self.connect_as(0)
    }

    /// The same of a user, to whose processes alone goes what is in its memory.
    ///
    /// # Errors
    /// If the device cannot have regions of the broker's size.
    pub fn connect_as(&self, user: u32) -> Result<MockClient, PoolError<MockError>> {
        let client = {
            let mut state = self.lock();
            let client = state.broker.connect(user);
            state.users.insert(client, user);
            client
        };
        let life = Life { is_dead: false, messages_left: None, meanwhile: None };
        let life = Arc::new(Mutex::new(life));
        let link = MockLink { broker: self.clone(), client, life: life.clone() };
        let pool = Pool::connect(self.device.clone(), Box::new(link))?;
        Ok(MockClient { broker: self.clone(), client, life, pool })
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

    fn kill(&self, client: Client, life: &Mutex<Life>) {
        let mut life = life.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut life.is_dead, true) {
            let now = self.device.now();
            self.lock().broker.cut_off(client, now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, client: Client, job: Option<JobId>, request: Request) -> Option<Reply> {
        let now = self.device.now();
        let mut state = self.lock();
        let State { broker, pulses, messages, violations, users, leaks } = &mut *state;
        *messages += 1;
        pulses.iter().for_each(|(&job, pulse)| broker.observe(job, pulse.read()));
        let reply = match broker.handle(client, job, request, now) {
            Ok(reply) => reply,
            Err(violation) => {
                violations.push(violation);
                broker.cut_off(client, now);
                None
            }
        };
        pulses.iter().for_each(|(&job, pulse)| pulse.watch(broker.watched(job)));
        if let (Some(Reply::Granted(order)), Some(&user)) = (&reply, users.get(&client)) {
            for &(_, region) in &order.map {
                let before = broker.store_mut().users.insert(region, user);
                *leaks += u64::from(before.is_some_and(|before| before != user));
            }
        }
        reply
    }
}

/// Whether a client lives.
struct Life {
    is_dead: bool,
    /// It dies before the message after so many.
    messages_left: Option<u64>,
    /// Its pool, and when its other thread runs while an answer is on its way.
    meanwhile: Option<(WeakPool<MockDevice>, When)>,
}

type When = Box<dyn FnMut() -> bool + Send>;

/// A client of a [`MockBroker`].
pub struct MockClient {
    broker: MockBroker,
    client: Client,
    life: Arc<Mutex<Life>>,
    pool: Pool<MockDevice>,
}

impl fmt::Debug for MockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockClient").field("client", &self.client).finish_non_exhaustive()
    }
}

impl MockClient {
    /// The pool of this client's jobs.
    #[must_use]
    pub const fn pool(&self) -> &Pool<MockDevice> {
        &self.pool
    }

    /// Hears what the broker says unasked, as a thread of the process does.
    pub fn serve(&self) {
        let notices = self.broker.lock().broker.take_notices(self.client);
        if !self.is_dead() {
            notices.into_iter().for_each(|notice| self.pool.notice(notice));
        }
    }

    /// While an answer of the broker is on its way, the thread that hears what the broker says
    /// unasked runs, each time that `when` says so: it hears it, and polls.
    pub fn hear_while_asking(&self, when: impl FnMut() -> bool + Send + 'static) {
        self.life().meanwhile = Some((self.pool.downgrade(), Box::new(when)));
    }

    /// The process dies, or loses its connection: nothing that it says any more is heard. What it
    /// has enqueued still runs on the device.
    pub fn die(&self) {
        self.broker.kill(self.client, &self.life);
    }

    /// The process dies before it has sent one more message than so many.
    pub fn die_after(&self, messages: u64) {
        self.life().messages_left = Some(messages);
    }

    /// Whether it has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.life().is_dead
    }

    /// The driver has torn down what a dead process had: its work has ended and its mappings are
    /// gone. All its jobs have to be dropped before.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn bury(self) -> Result<(), MockError> {
        self.die();
        self.pool.poll()?;
        let Self { broker, client, pool, .. } = self;
        drop(pool);
        let now = broker.device.now();
        broker.lock().broker.gone(client, now);
        Ok(())
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of a client to its broker.
struct MockLink {
    broker: MockBroker,
    client: Client,
    life: Arc<Mutex<Life>>,
}

impl MockLink {
    /// What the other thread does while an answer is on its way.
    fn meanwhile(&self) {
        let mut meanwhile = {
            let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
            if life.is_dead {
                return;
            }
            // What it says itself is no such moment again.
            life.meanwhile.take()
        };
        if let Some((pool, when)) = &mut meanwhile
            && when()
            && let Some(pool) = pool.upgrade()
        {
            let notices = self.broker.lock().broker.take_notices(self.client);
            notices.into_iter().for_each(|notice| pool.notice(notice));
            // What the device refuses is tried again.
            let _ = pool.poll();
        }
        self.life.lock().unwrap_or_else(PoisonError::into_inner).meanwhile = meanwhile;
    }

    /// Whether a message arrives.
    fn arrives(&self) -> bool {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = &mut life.messages_left else { return !life.is_dead };
        match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                !life.is_dead
            }
            None => {
                drop(life);
                self.broker.kill(self.client, &self.life);
                false
            }
        }
    }
}

impl Link<MockDevice> for MockLink {
    fn ask_in_order(
        &self,
        job: Option<JobId>,
        request: Request,
        heard: &mut dyn FnMut(&Reply),
    ) -> Result<Reply, BrokerError> {
        if !self.arrives() {
            return Err(BrokerError::Unreachable);
        }
        let reply = self.broker.handle(self.client, job, request);
        self.meanwhile();
        reply.inspect(heard).ok_or(BrokerError::Unreachable)
    }

    fn tell(&self, job: Option<JobId>, request: Request) {
        if self.arrives() {
            self.broker.handle(self.client, job, request);
        }
    }

    fn flush(&self) {}

    fn memory(&self, region: u32) -> Result<MockMemory, Fetch<MockError>> {
        let state = self.broker.lock();
        let is_dead = self.life.lock().unwrap_or_else(PoisonError::into_inner).is_dead;
        let may = !is_dead && state.broker.may_fetch(self.client, region);
        let memory = state.broker.store().memories.get(&region).filter(|_| may);
        let memory = memory.ok_or(Fetch::Broker(BrokerError::Unreachable))?;
        self.broker.device.share(memory).map_err(Fetch::Device)
    }

    fn pulse(&self, job: JobId) -> &'static Pulse {
        let pulse: &'static Pulse = Box::leak(Box::default());
        self.broker.lock().pulses.insert(job, pulse);
        pulse
    }

    fn region_size(&self) -> Bytes {
        self.broker.lock().broker.region_size()
    }

    fn capacity(&self) -> Bytes {
        self.broker.lock().broker.capacity()
    }
}
