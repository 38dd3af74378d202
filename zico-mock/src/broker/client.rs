//! Clients of a broker: processes, as far as it can tell.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zico_core::broker::{Fetch, Link, Offers, Pulse, Reply, Request};
use zico_core::{BrokerError, Bytes, JobId, Pool, PoolError, WeakPool};

use super::{Connection, MockBroker};
use crate::device::{MockDevice, MockError, MockMemory};

/// Whether a client lives, and to which broker it is connected.
pub(super) struct Life {
    pub(super) process: u64,
    pub(super) user: u32,
    pub(super) is_dead: bool,
    pub(super) over: Connection,
    /// Those that it had before, or has tried to have.
    pub(super) former: Vec<Connection>,
    pub(super) pulses: BTreeMap<JobId, &'static Pulse>,
    /// What has been told and not been sent.
    pub(super) queue: VecDeque<(Option<JobId>, Request)>,
    /// It dies before the message after so many.
    messages_left: Option<u64>,
    /// Its pool, and when its other thread runs while an answer is on its way.
    meanwhile: Option<(WeakPool<MockDevice>, When)>,
}

type When = Box<dyn FnMut() -> bool + Send>;

/// A client of a [`MockBroker`].
pub struct MockClient {
    broker: MockBroker,
    life: Arc<Mutex<Life>>,
    pool: Pool<MockDevice>,
}

impl fmt::Debug for MockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockClient").field("over", &self.life().over).finish_non_exhaustive()
    }
}

impl MockBroker {
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
        let (process, over) = {
            let mut state = self.lock();
            let process = state.next_process;
            state.next_process += 1;
            state.processes.insert(process);
            (process, state.connect(user))
        };
        let life = Life {
            process,
            user,
            is_dead: false,
            over,
            former: Vec::new(),
            pulses: BTreeMap::new(),
            queue: VecDeque::new(),
            messages_left: None,
            meanwhile: None,
        };
        let life = Arc::new(Mutex::new(life));
        let link = MockLink { broker: self.clone(), life: life.clone() };
        let pool = Pool::connect(self.device.clone(), Box::new(link))?;
        Ok(MockClient { broker: self.clone(), life, pool })
    }

    fn kill(&self, life: &Mutex<Life>) {
        let over = {
            let mut life = life.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::replace(&mut life.is_dead, true) {
                return;
            }
            life.over
        };
        self.cut_off(over);
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
        let over = {
            let life = self.life();
            if life.is_dead {
                return;
            }
            life.over
        };
        let notices = self.broker.notices(over);
        notices.into_iter().for_each(|notice| self.pool.notice(notice));
    }

    /// Connects to the broker that has come in the place of one that has died, and tells it what
    /// this process holds. Whether there is a connection.
    #[must_use]
    pub fn reconnect(&self) -> bool {
        self.pool.reconnect()
    }

    /// While an answer of the broker is on its way, the thread that hears what the broker says
    /// unasked runs, each time that `when` says so: it hears it, and polls; or, once the answer is
    /// there, it connects anew if the broker has died meanwhile.
    pub fn hear_while_asking(&self, when: impl FnMut() -> bool + Send + 'static) {
        self.life().meanwhile = Some((self.pool.downgrade(), Box::new(when)));
    }

    /// The process dies, or loses its connection: nothing that it says any more is heard. What it
    /// has enqueued still runs on the device.
    pub fn die(&self) {
        self.broker.kill(&self.life);
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
        let Self { broker, life, pool } = self;
        drop(pool);
        let life = life.lock().unwrap_or_else(PoisonError::into_inner);
        broker.gone(&life);
        Ok(())
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of a client to its broker.
pub(super) struct MockLink {
    pub(super) broker: MockBroker,
    life: Arc<Mutex<Life>>,
}

impl MockLink {
    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The other thread runs, if it is time for it.
    fn meanwhile(&self, runs: impl FnOnce(&Pool<MockDevice>)) {
        let mut meanwhile = {
            let mut life = self.life();
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
            runs(&pool);
        }
        self.life().meanwhile = meanwhile;
    }

    /// It hears what the broker says while an answer is on its way.
    fn hear(&self) {
        self.meanwhile(|pool| {
            let over = self.life().over;
            self.broker.notices(over).into_iter().for_each(|notice| pool.notice(notice));
            // What the device refuses is tried again.
            let _ = pool.poll();
        });
    }

    /// Sends what has been told.
    fn deliver(&self) {
        loop {
            let next = self.life().queue.pop_front();
            let Some((job, request)) = next else { return };
            if self.sends() {
                let over = self.life().over;
                self.broker.handle(over, job, request);
            }
        }
    }

    /// Whether a message is sent: not one of a process that has died.
    pub(super) fn sends(&self) -> bool {
        let mut life = self.life();
        let Some(left) = &mut life.messages_left else { return !life.is_dead };
        match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                !life.is_dead
            }
            None => {
                drop(life);
                self.broker.kill(&self.life);
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
        self.deliver();
        if !self.sends() {
            return Err(BrokerError::Unreachable);
        }
        let over = self.life().over;
        let reply = self.broker.handle(over, job, request);
        self.hear();
        let reply = reply.inspect(heard).ok_or(BrokerError::Unreachable);
        if self.broker.is_over(over) {
            // A process that has lost its broker goes on as if it had not.
            self.meanwhile(|pool| {
                let _ = pool.reconnect();
            });
        }
        reply
    }

    fn tell(&self, job: Option<JobId>, request: Request) {
        if let (Some(job), Request::Departed) = (job, &request) {
            self.life().pulses.remove(&job);
        }
        self.life().queue.push_back((job, request));
    }

    fn flush(&self) {
        self.deliver();
    }

    fn memory(&self, region: u32) -> Result<MockMemory, Fetch<MockError>> {
        let (is_dead, over) = {
            let life = self.life();
            (life.is_dead, life.over)
        };
        let unreachable = Fetch::Broker(BrokerError::Unreachable);
        if is_dead {
            return Err(unreachable);
        }
        let memory = self.broker.share(over, region).ok_or(unreachable)?.map_err(Fetch::Device);
        self.hear();
        if self.broker.is_over(over) {
            self.meanwhile(|pool| {
                let _ = pool.reconnect();
            });
        }
        memory
    }

    fn reconnect(
        &self,
        offer: &mut dyn FnMut(&mut dyn Offers<MockDevice>) -> Result<(), BrokerError>,
    ) -> bool {
        self.connect_anew(offer)
    }

    fn pulse(&self, job: JobId) -> &'static Pulse {
        let pulse: &'static Pulse = Box::leak(Box::default());
        let over = {
            let mut life = self.life();
            life.pulses.insert(job, pulse);
            life.over
        };
        self.broker.seat(over, [(job, pulse)]);
        pulse
    }

    fn region_size(&self) -> Bytes {
        self.broker.lock().broker.region_size()
    }

    fn capacity(&self) -> Bytes {
        self.broker.lock().broker.capacity()
    }
}
