//! A broker that dies, and another one that comes in its place: its clients tell it what they have.

use zico_core::broker::{Notice, Offers, Pulse, Reply, Request};
use zico_core::{BrokerError, Device, JobId, PoolConfig, PoolError};

use super::client::{Life, MockLink};
use super::{Connection, MockBroker, Regions, State};
use crate::device::{MockDevice, MockError, MockMemory};

impl State {
    /// Whether a message over a connection arrives. The broker may die of it.
    pub(super) fn hears(&mut self, over: Connection) -> bool {
        if !self.is_down && self.messages_left == Some(0) {
            self.die();
        }
        self.messages_left = self.messages_left.and_then(|left| left.checked_sub(1));
        self.is_current(over)
    }

    /// Whether a connection is one to the broker that there is.
    fn is_current(&self, over: Connection) -> bool {
        !self.is_down && self.number == over.broker
    }

    pub(super) fn connect(&mut self, user: u32) -> Connection {
        let client = self.broker.connect(user);
        self.users.insert(client, user);
        Connection { broker: self.number, client }
    }

    fn die(&mut self) {
        (self.is_down, self.messages_left) = (true, None);
        let Regions { device, memories, .. } = self.broker.store_mut();
        for (_, memory) in std::mem::take(memories) {
            // Those who have it mapped have handles of their own.
            let _ = device.destroy(memory);
        }
    }

    /// A process has told all it has, or is no more.
    fn no_longer_awaits(&mut self, process: u64) {
        if self.awaited.remove(&process) && self.awaited.is_empty() {
            self.broker.has_recovered();
        }
    }
}

impl MockBroker {
    /// Its process dies. All connections are broken, and those who ask hear that it cannot be
    /// reached until there is [another one](Self::restart).
    pub fn die(&self) {
        self.lock().die();
    }

    /// It dies before it has handled one more message than so many.
    pub fn die_after(&self, messages: u64) {
        self.lock().messages_left = Some(messages);
    }

    /// Whether it has died, and there is no other one yet.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.lock().is_down
    }

    /// How many have been started in the place of another one.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.lock().number
    }

    /// Starts another broker in the place of the one there was, which dies if it has not. It waits
    /// for all processes that have not been torn down: until they have told what they have, nobody
    /// gets anything.
    ///
    /// # Errors
    /// If the budget or the region size cannot be.
    pub fn restart(&self, config: PoolConfig) -> Result<(), PoolError<MockError>> {
        let caps = self.device.caps();
        let size = config.region_for(caps.granularity);
        let mut broker = config.broker(caps, Regions::new(&self.device, size))?;
        let mut state = self.lock();
        if !state.is_down {
            state.die();
        }
        state.number += 1;
        broker.number_jobs_from(state.number << 32);
        state.awaited = state.processes.clone();
        if !state.awaited.is_empty() {
            broker.await_clients();
            broker.await_held(state.broker.held());
        }
        (state.broker, state.is_down) = (broker, false);
        state.pulses.clear();
        state.users.clear();
        Ok(())
    }

    /// Whether a broker's time is over, and so a connection to it.
    pub(super) fn is_over(&self, over: Connection) -> bool {
        !self.lock().is_current(over)
    }

    /// What it says over a connection unasked.
    pub(super) fn notices(&self, over: Connection) -> Vec<Notice> {
        let mut state = self.lock();
        if state.is_current(over) { state.broker.take_notices(over.client) } else { Vec::new() }
    }

    /// A handle of a region's memory for a client.
    pub(super) fn share(
        &self,
        over: Connection,
        region: u32,
    ) -> Option<Result<MockMemory, MockError>> {
        let state = self.lock();
        let may = state.is_current(over) && state.broker.may_fetch(over.client, region);
        let memory = state.broker.store().memories.get(&region).filter(|_| may);
        memory.map(|memory| self.device.share(memory))
    }

    /// Where the broker sees how far jobs have come.
    pub(super) fn seat(
        &self,
        over: Connection,
        pulses: impl IntoIterator<Item = (JobId, &'static Pulse)>,
    ) {
        let mut state = self.lock();
        if state.is_current(over) {
            state.pulses.extend(pulses);
        }
    }

    /// A connection has ended.
    pub(super) fn cut_off(&self, over: Connection) {
        let now = self.device.now();
        let mut state = self.lock();
        if state.is_current(over) {
            state.broker.cut_off(over.client, now);
        }
    }

    /// A process has been torn down.
    pub(super) fn gone(&self, life: &Life) {
        let now = self.device.now();
        let mut state = self.lock();
        state.processes.remove(&life.process);
        for over in life.former.iter().chain([&life.over]) {
            if state.is_current(*over) {
                state.broker.gone(over.client, now);
            }
        }
        state.no_longer_awaits(life.process);
    }

    /// A client hands in a region's memory. Whether it is that region's.
    fn take_in(&self, over: Connection, region: u32, memory: &MockMemory) -> Option<bool> {
        let mut state = self.lock();
        if !state.hears(over) {
            return None;
        }
        if !state.broker.may_hand_in(over.client, region) {
            return Some(false);
        }
        let user = state.users.get(&over.client).copied().unwrap_or(0);
        let store = state.broker.store_mut();
        if let Some(own) = store.memories.get(&region) {
            if !own.is_same(memory) {
                return Some(false);
            }
        } else if let Ok(memory) = self.device.share(memory) {
            store.memories.insert(region, memory);
        }
        let before = store.users.insert(region, user);
        state.leaks += u64::from(before.is_some_and(|before| before != user));
        state.broker.took_in(over.client, region);
        Some(true)
    }
}

impl MockLink {
    /// Connects to the broker that there is, if the one this was connected to is no more.
    pub(super) fn connect_anew(
        &self,
        offer: &mut dyn FnMut(&mut dyn Offers<MockDevice>) -> Result<(), BrokerError>,
    ) -> bool {
        let over = {
            let mut life = self.life();
            let mut state = self.broker.lock();
            if life.is_dead || state.is_down {
                return false;
            }
            if state.is_current(life.over) {
                return true;
            }
            let over = state.connect(life.user);
            life.former.push(over);
            life.queue.clear();
            over
        };
        let told = offer(&mut Offering { link: self, over });
        let mut life = self.life();
        if told.is_err() || life.is_dead {
            drop(life);
            self.broker.cut_off(over);
            return false;
        }
        life.over = over;
        self.broker.seat(over, life.pulses.iter().map(|(&job, &pulse)| (job, pulse)));
        let mut state = self.broker.lock();
        if state.is_current(over) {
            state.no_longer_awaits(life.process);
        }
        true
    }
}

/// A new connection, which nobody else uses yet.
struct Offering<'a> {
    link: &'a MockLink,
    over: Connection,
}

impl Offers<MockDevice> for Offering<'_> {
    fn ask(&mut self, job: Option<JobId>, request: Request) -> Result<Reply, BrokerError> {
        let sent = self.link.sends();
        let reply = sent.then(|| self.link.broker.handle(self.over, job, request));
        reply.flatten().ok_or(BrokerError::Unreachable)
    }

    fn tell(&mut self, job: Option<JobId>, request: Request) {
        if self.link.sends() {
            self.link.broker.handle(self.over, job, request);
        }
    }

    fn hand_in(&mut self, region: u32, memory: &MockMemory) -> Result<(), BrokerError> {
        let is_in = self.link.sends().then(|| self.link.broker.take_in(self.over, region, memory));
        match is_in.flatten() {
            Some(true) => Ok(()),
            Some(false) => Err(BrokerError::Confused),
            None => Err(BrokerError::Unreachable),
        }
    }
}
