//! The clients: processes that have jobs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Broker, Notice, Store};
use crate::ledger::Done;
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::units::Ticks;

/// A client of a broker: a process that has jobs, a connection. No two of a broker ever have the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(u64);

impl Client {
    pub(super) const FIRST: Self = Self(1);

    const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What a client is to be told. Each thing once, however long it does not listen: it takes no more
/// memory than there are regions and jobs.
#[derive(Default)]
pub(super) struct State {
    pub(super) user: u32,
    changed: bool,
    pressure: Option<bool>,
    release: Vec<u32>,
    /// Jobs that are to give way, or no longer.
    called: BTreeMap<JobKey, bool>,
    /// It has been cut off, and may still run.
    is_cut_off: bool,
}

impl State {
    pub(super) const fn is_heard(&self) -> bool {
        !self.is_cut_off
    }

    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    pub(super) fn note_pressure(&mut self, pressure: bool) {
        self.pressure = Some(pressure);
    }

    pub(super) fn note_called(&mut self, job: JobKey, is_called: bool) {
        self.called.insert(job, is_called);
    }

    pub(super) fn note_release(&mut self, region: u32) {
        self.release.push(region);
    }
}

impl<S: Store> Broker<S> {
    /// A client of a user has come. It has no job yet.
    ///
    /// Users are told apart by number. Memory that has been leased to a job of one is given back to
    /// the device before a job of another gets any: what is in it stays among the processes of its
    /// user.
    pub fn connect(&mut self, user: u32) -> Client {
        self.has_users |= self.user.replace(user).is_some_and(|other| other != user);
        let client = self.next;
        self.next = client.next();
        let pressure = Some(self.pressure);
        self.clients.insert(client, State { user, pressure, ..State::default() });
        client
    }

    /// What a client is to be told since this was called last.
    pub fn take_notices(&mut self, client: Client) -> Vec<Notice> {
        let Some(state) = self.clients.get_mut(&client) else { return Vec::new() };
        let mut notices: Vec<Notice> = state.release.drain(..).map(Notice::Release).collect();
        let called = core::mem::take(&mut state.called);
        notices.extend(called.into_iter().map(|(job, gives)| Notice::GiveWay(JobId(job), gives)));
        notices.extend(state.pressure.take().map(Notice::Pressure));
        notices.extend(core::mem::take(&mut state.changed).then_some(Notice::Changed));
        notices
    }

    /// The jobs of a client that have not gone.
    #[must_use]
    pub fn jobs(&self, client: Client) -> Vec<JobId> {
        self.keys(client).into_iter().map(JobId).collect()
    }

    /// Whether something of the broker's is charged to a client, or mapped in it: while so, and as
    /// long as it is not [gone](Self::gone), it has to be known.
    #[must_use]
    pub fn holds(&self, client: Client) -> bool {
        self.seats.values().any(|seat| seat.client == client)
            || self.imports.values().any(|by| by.contains(&client))
    }

    fn keys(&self, client: Client) -> Vec<JobKey> {
        let own = self.seats.iter().filter(|(_, seat)| seat.client == client);
        own.map(|(&job, _)| job).collect()
    }

    /// A client has hung up, died, or is not listened to any more. Its jobs leave: nobody waits for
    /// them. What they held stays charged, and nobody gets it, until the client is
    /// [gone](Self::gone): something of it may still run.
    pub fn cut_off(&mut self, client: Client, now: Ticks) {
        let Some(state) = self.clients.get_mut(&client) else { return };
        if core::mem::replace(&mut state.is_cut_off, true) {
            return;
        }
        for job in self.keys(client) {
            // It may have done any part of it: what is mapped there counts as in use.
            let order = self.seats.get_mut(&job).and_then(|seat| seat.order.take());
            if let Some((zone, order)) = order {
                let (unmapped, mapped) = (order.unmap.len(), order.map.len());
                let done = Done { unmapped, created: order.create.len(), mapped };
                self.ledger.settle(job, zone, &order, &done, now);
            }
            self.leave(job, now);
            // The last fence, which completes when the client is gone.
            self.close(job, u64::MAX);
        }
        self.pump();
    }

    /// It is proven that nothing of a client runs or is mapped any more, neither on a processor nor
    /// on the device: what it held is free.
    pub fn gone(&mut self, client: Client, now: Ticks) {
        self.cut_off(client, now);
        for job in self.keys(client) {
            self.complete(job, u64::MAX, now);
            if let Some(seat) = self.seats.get_mut(&job) {
                seat.is_unmapped = true;
            }
        }
        self.clients.remove(&client);
        self.release_all(client);
        self.pump();
    }

    /// A job leaves: all it has drains.
    pub(super) fn leave(&mut self, job: JobKey, now: Ticks) {
        if !self.ledger.leave(job, now) {
            return;
        }
        let mut from = Some((0, 0));
        while let Some(next) = from {
            from = self.ledger.leave_pages(job, next);
        }
        self.ledger.left(job);
        self.ledger.admit();
    }

    /// What a job has given back so far is fenced under a number of its client's.
    pub(super) fn close(&mut self, job: JobKey, number: u64) {
        let Some(batch) = self.ledger.close_batch(job) else { return };
        if let Some(seat) = self.seats.get_mut(&job) {
            seat.fences.push_back((number, batch.number));
        }
        self.ledger.fenced(job, batch);
    }

    /// The device has completed a job's fences up to a number of its client's.
    pub(super) fn complete(&mut self, job: JobKey, number: u64, now: Ticks) {
        while let Some(seat) = self.seats.get_mut(&job)
            && let Some(&(_, batch)) = seat.fences.front().filter(|&&(first, _)| first <= number)
        {
            seat.fences.pop_front();
            while self.ledger.completed(job, batch, now) == Some(false) {}
        }
    }
}
