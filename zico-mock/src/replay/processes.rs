//! The processes of a replay, one for each job, and the broker that has the books of all of them.

use std::collections::{BTreeSet, VecDeque};

use zico_core::policy::Policy;
use zico_core::{Pool, PoolError, Ticks};

use super::{ReplayConfig, ReplayError};
use crate::{MockBroker, MockClient, MockDevice, MockError};

/// The broker of a replay's processes dies, and another one with empty books comes in its place.
///
/// The processes go on with what they have. Each connects anew and tells the new one what it holds:
/// the first after the time [`apart`](Self::apart), the second after twice that, and so on. Nobody
/// gets any memory before all have. One that has asked the broker as it died may be sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restart {
    /// From when on it may die ...
    pub at: Ticks,
    /// ... which it does when it has handled so many messages more.
    pub messages: u64,
    /// How long it takes until the next process has connected anew.
    pub apart: Ticks,
}

/// How long a process waits that could not connect.
const AGAIN: Ticks = Ticks::millis(1);

/// The broker and the processes, in the order of their jobs.
pub(super) struct Processes {
    broker: MockBroker,
    /// None that has been torn down.
    clients: Vec<Option<MockClient>>,
    /// Of the pools of those the generations, and their number.
    gone: u32,
    /// What another broker decides by.
    config: ReplayConfig,
    /// Still to come, soonest first.
    restarts: VecDeque<Restart>,
    /// How long it takes for each process to connect to the next broker.
    apart: Ticks,
    /// When which process connects anew.
    returns: BTreeSet<(Ticks, usize)>,
}

impl Processes {
    pub(super) fn new(
        device: &MockDevice,
        policy: Box<dyn Policy>,
        jobs: usize,
        config: &ReplayConfig,
    ) -> Result<Self, PoolError<MockError>> {
        let broker = MockBroker::new(device.clone(), config.pool(Some(policy)))?;
        let clients = (0..jobs.max(1)).map(|_| broker.connect());
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        // A process has a thread that hears the broker while another one asks.
        for (client, every) in clients.iter().zip((3..=5).cycle()) {
            let mut asked = 0_u32;
            client.hear_while_asking(move || {
                asked = asked.wrapping_add(1);
                asked.is_multiple_of(every)
            });
        }
        let mut config = config.clone();
        let mut restarts = std::mem::take(&mut config.restarts);
        restarts.sort_unstable();
        Ok(Self {
            broker,
            clients: clients.into_iter().map(Some).collect(),
            gone: 0,
            config,
            restarts: restarts.into(),
            apart: Ticks::ZERO,
            returns: BTreeSet::new(),
        })
    }

    /// The pools of those that are there.
    pub(super) fn pools(&self) -> impl Iterator<Item = &Pool<MockDevice>> {
        self.there().map(MockClient::pool)
    }

    /// The pool of one, if it is there.
    pub(super) fn pool(&self, process: usize) -> Option<&Pool<MockDevice>> {
        self.clients[process].as_ref().map(MockClient::pool)
    }

    /// The generations of the pools of those that are not, and their number.
    pub(super) const fn gone(&self) -> u32 {
        self.gone
    }

    /// How many brokers have died.
    pub(super) fn restarts(&self) -> u64 {
        self.broker.restarts()
    }

    /// An error if one of them has asked for what no correct client would.
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        match self.broker.violations().first() {
            Some(violation) => Err(ReplayError::Client(format!("{violation:?}"))),
            None => Ok(()),
        }
    }

    /// Each process hears what the broker says.
    pub(super) fn serve(&self) {
        self.there().for_each(MockClient::serve);
    }

    /// A process dies.
    pub(super) fn kill(&self, process: usize) {
        self.clients[process].iter().for_each(MockClient::die);
    }

    /// The driver has torn down a process that has died and of which the device has nothing left to
    /// do.
    pub(super) fn bury(&mut self, process: usize) -> Result<(), ReplayError> {
        let Some(client) = self.clients[process].take() else { return Ok(()) };
        self.gone = self.gone.wrapping_add(client.pool().generation()).wrapping_add(1);
        Ok(client.bury()?)
    }

    fn there(&self) -> impl Iterator<Item = &MockClient> {
        self.clients.iter().flatten()
    }

    /// When something happens by the clock alone.
    pub(super) fn poll_at(&self) -> Option<Ticks> {
        // One that has died has its place taken at the next moment there is.
        let dead = self.broker.is_down().then_some(Ticks::ZERO);
        let dies = self.restarts.front().map(|restart| restart.at);
        let returns = self.returns.first().map(|&(at, _)| at);
        [self.broker.look_at(), dead, dies, returns].into_iter().flatten().min()
    }

    /// The broker looks at those that others wait for, dies, or is followed by another one; processes
    /// connect anew.
    pub(super) fn poll(&mut self, now: Ticks) -> Result<(), ReplayError> {
        while let Some(&restart) = self.restarts.front().filter(|restart| restart.at <= now) {
            self.restarts.pop_front();
            self.broker.die_after(restart.messages);
            self.apart = restart.apart;
        }
        if self.broker.is_down() {
            self.follow(now)?;
        }
        while let Some(&(at, process)) = self.returns.first().filter(|(at, _)| *at <= now) {
            self.returns.remove(&(at, process));
            let lives = |client: &&MockClient| !client.is_dead();
            let client = self.clients[process].as_ref().filter(lives);
            if client.is_some_and(|client| !client.reconnect()) {
                self.returns.insert((now.saturating_add(AGAIN), process));
            }
        }
        self.broker.look();
        Ok(())
    }

    /// Another broker comes in the place of the one that has died.
    fn follow(&mut self, now: Ticks) -> Result<(), ReplayError> {
        self.broker.restart(self.config.pool(self.config.policy.policy(self.config.iterations)))?;
        self.returns.clear();
        let mut at = now;
        for process in 0..self.clients.len() {
            at = at.saturating_add(self.apart);
            self.returns.insert((at, process));
        }
        Ok(())
    }
}
