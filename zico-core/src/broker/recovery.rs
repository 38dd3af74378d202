//! A broker that takes the place of one that has ended: its clients go on with what they hold, and
//! tell it.
//!
//! Until all of them have done so, or are gone, nothing is leased and nothing starts: what is not
//! known to be somebody's might be.

use alloc::vec::Vec;

use super::clients::Client;
use super::message::{Offered, Reply, Usage};
use super::{Broker, Store, Violation};
use crate::ledger::{Ledger, Place, Use};
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::config::JobConfig;
use crate::types::units::Ticks;
use crate::types::zone::Zone;

impl<S: Store> Broker<S> {
    /// Jobs that join are numbered from here on, if none has joined yet. A job keeps its number at
    /// the broker that comes after this one, so no two brokers may give the same ones.
    pub fn number_jobs_from(&mut self, first: u64) {
        self.ledger.reserve_key(first);
    }

    /// There was a broker before this one, whose clients may still hold memory. To be called before
    /// any connects.
    pub fn await_clients(&mut self) {
        self.is_recovering = true;
    }

    /// The jobs that are [held](Self::hold) on the host, those included that have yet to come back
    /// to this broker. O(jobs).
    #[must_use]
    pub fn held(&self) -> Vec<JobId> {
        let before = self.held_before.iter().copied();
        before.chain(self.ledger.held_jobs()).map(JobId).collect()
    }

    /// These were held at the broker before this one. They are here, too, once they have told what
    /// they have, if they could be sure to come back.
    pub fn await_held(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        self.held_before.extend(jobs.into_iter().map(|JobId(job)| job));
    }

    /// All of them have told what they have, or are gone.
    pub fn has_recovered(&mut self) {
        if core::mem::take(&mut self.is_recovering) {
            // Only now it is known whether they could come back.
            for job in core::mem::take(&mut self.held_before) {
                let _ = self.ledger.hold(job, true);
            }
            self.ledger.notify();
            self.ledger.admit();
            self.pump();
        }
    }

    /// Whether clients of the broker before this one have yet to tell what they have.
    #[must_use]
    pub const fn is_recovering(&self) -> bool {
        self.is_recovering
    }

    /// Whether a client may hand in the memory of a region that it has from the broker before this
    /// one: not once nobody is waited for any more, since the region may have other memory by then,
    /// and not the memory of another user.
    #[must_use]
    pub fn may_hand_in(&self, client: Client, region: u32) -> bool {
        let state = self.clients.get(&client).filter(|state| state.is_heard());
        self.is_recovering
            && state.is_some_and(|state| self.ledger.may_have_memory(region as usize, state.user))
    }

    /// A client has handed in the memory of a region. If it [may](Self::may_hand_in), the region
    /// has that memory from now on, whether a job has the region or nobody: it counts as held. O(log
    /// n) in the regions that are handed in.
    pub fn took_in(&mut self, client: Client, region: u32) {
        if let Some(state) = self.clients.get(&client).filter(|_| self.may_hand_in(client, region))
            && self.ledger.adopt_memory(region as usize, state.user)
        {
            self.imports.entry(region).or_default().insert(client);
        }
    }

    pub(super) fn rejoin(
        &mut self,
        client: Client,
        JobId(job): JobId,
        config: JobConfig,
    ) -> Result<Reply, Violation> {
        if !self.is_recovering
            || self.ledger.knows(job)
            || self.seats.contains_key(&job)
            || !self.ledger.reserve_key(job)
        {
            return Err(Violation::NoSuchJob);
        }
        let reply = self.join_as(client, config, job, Ledger::rejoin)?;
        if let Some(seat) = self.seats.get_mut(&job) {
            seat.is_offering = true;
        }
        Ok(reply)
    }

    /// A job has told all that it has.
    pub(super) fn resume(&mut self, job: JobKey, runs: bool, claim: Option<u32>, now: Ticks) {
        let seat = self.seats.get_mut(&job);
        if seat.is_some_and(|seat| core::mem::take(&mut seat.is_offering)) {
            self.ledger.resume(job, runs, claim, now);
        }
    }

    /// Takes over what a job says it has. Whether all of it can be its own.
    pub(super) fn offer(
        &mut self,
        client: Client,
        job: JobKey,
        offered: &[Offered],
    ) -> Result<bool, Violation> {
        if self.seats.get(&job).is_none_or(|seat| !seat.is_offering) {
            return Err(Violation::NoSuchJob);
        }
        for &Offered { region, at, usage } in offered {
            let is_in = self.imports.get(&region).is_some_and(|by| by.contains(&client));
            if !is_in || at.is_some_and(|(_, page)| page >= self.pages) {
                return Err(Violation::BadPage);
            }
            let place = at.map(|(lifetime, page)| Place { job, zone: Zone::from(lifetime), page });
            let used = match (usage, place) {
                (Usage::Leased, Some(place)) => Use::Leased(place),
                (Usage::Leased, None) => return Err(Violation::BadPage),
                (Usage::Draining, _) => Use::Draining,
                (Usage::Idle, _) => Use::Idle,
                (Usage::Passing, Some(_)) => Use::Passing,
                (Usage::Passing, None) => return Err(Violation::BadPage),
            };
            if !self.ledger.adopt(job, region as usize, place, used) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
