//! Jobs that go to the host and come back, as their clients tell it.
//!
//! The client makes the copies; the broker has the books of them. What a client says of its own
//! contents is its own affair. What it says of regions is checked: it comes back with no more than
//! it has taken away, and only when it may.

use alloc::vec::Vec;

use super::clients::Client;
use super::message::{Refusal, Reply};
use super::{Broker, Store, Violation};
use crate::types::JobKey;
use crate::types::error::NotSuspended;
use crate::types::lifetime::Lifetime;
use crate::types::units::{Bytes, Ticks};
use crate::types::want::{Told, Want};
use crate::types::zone::Zone;

impl<S: Store> Broker<S> {
    /// A job begins to go to the host.
    pub(super) fn suspend(&mut self, job: JobKey) -> Result<Result<(), NotSuspended>, Violation> {
        self.check_settled(job)?;
        if self.ledger.is_away(job) {
            return Err(Violation::BadWay);
        }
        if self.is_recovering {
            return Ok(Err(NotSuspended::Recovering));
        }
        Ok(self.ledger.suspend(job))
    }

    /// The contents of these pages are on the host. The job is on its way there, or turns round on
    /// its way back: one of which the broker before this one had let come has to be sure that it
    /// could anew.
    pub(super) fn send(
        &mut self,
        job: JobKey,
        lifetime: Lifetime,
        pages: Vec<u64>,
        now: Ticks,
    ) -> Result<(), Violation> {
        let may_go = self.ledger.is_going_out(job) || self.ledger.may_go_again(job);
        if !may_go || self.is_beyond(&pages) {
            return Err(Violation::BadWay);
        }
        self.ledger.send(job, Zone::from(lifetime), pages, now);
        Ok(())
    }

    /// A job on the host asks to come back. Whether it may.
    pub(super) fn ask_to_return(&mut self, job: JobKey) -> bool {
        !self.is_recovering && self.ledger.ask_to_return(job) == Ok(true)
    }

    /// Regions for pages of a job that may come back.
    pub(super) fn lease_back(
        &mut self,
        client: Client,
        job: JobKey,
        (lifetime, pages): (Lifetime, Vec<u64>),
        now: Ticks,
    ) -> Result<Reply, Violation> {
        self.check_settled(job)?;
        self.check_pages(job, lifetime, &pages)?;
        let zone = Zone::from(lifetime);
        // It may have been let come by the broker before.
        if !self.ledger.is_coming_back(job) {
            return Ok(Reply::Whether(false));
        }
        if pages.len() > self.ledger.away_of(job, zone) as usize {
            return Err(Violation::BadWay);
        }
        let (asked, told) = (Bytes::ZERO, Told::ByTheJob);
        let want = Want { zone, pages, planned: false, asked, told };
        self.make_way(job, &want, true);
        let Some(order) = self.ledger.lease_back(job, zone, &want.pages, now) else {
            return Ok(Reply::Whether(false));
        };
        if let Err(why) = self.create(job, zone, &order, now) {
            return Ok(Reply::Refused(Refusal::Device(why)));
        }
        Ok(Reply::Granted(self.hand_out(client, job, zone, order)))
    }

    /// What a job that goes on here has on the host.
    pub(super) fn adopt_away(
        &mut self,
        job: JobKey,
        regions: &[(Lifetime, u32)],
        goes: bool,
    ) -> Result<(), Violation> {
        if self.seats.get(&job).is_none_or(|seat| !seat.is_offering) {
            return Err(Violation::BadWay);
        }
        for &(lifetime, regions) in regions {
            self.ledger.adopt_away(job, Zone::from(lifetime), regions, goes);
        }
        Ok(())
    }

    /// Tells the clients which of their jobs are to give way.
    pub(super) fn call_upon(&mut self) {
        let (called, now) = (self.ledger.called(), self.ledger.now());
        for (job, seat) in &mut self.seats {
            let is_called = called.binary_search(job).is_ok();
            if is_called == seat.called.is_some() {
                continue;
            }
            seat.called = is_called.then_some(now);
            if let Some(client) = self.clients.get_mut(&seat.client) {
                client.note_called(*job, is_called);
            }
        }
    }

    /// When others lose patience with the next job that should have given way.
    pub(super) fn next_overdue(&self) -> Option<Ticks> {
        let since = self.seats.values().filter_map(|seat| seat.called).min()?;
        Some(since.saturating_add(self.ledger.patience()))
    }

    /// Others wait no longer for a job that should have given way and has not.
    pub(super) fn spare_overdue(&mut self, now: Ticks) {
        let patience = self.ledger.patience();
        for (&job, seat) in &mut self.seats {
            let is_overdue = |since: &Ticks| since.saturating_add(patience) <= now;
            if seat.called.as_ref().is_some_and(is_overdue) {
                seat.called = None;
                self.ledger.spare(job, now);
            }
        }
    }
}
