//! Leases: whether a growing arena may have its pages backed now, and what the device has to do for
//! it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::account::Account;
use super::banker::{can_finish, is_safe};
use super::placement::{Backing, Origin};
use super::region::{Place, State};
use super::{Ledger, Mapped};
use crate::types::JobKey;
use crate::types::error::{OutOfMemory, Shortage};
use crate::types::units::{Bytes, Ticks};
use crate::types::want::{Growth, Told, Want};
use crate::types::zone::Zone;

/// Why a lease was not granted.
pub(crate) enum Denied {
    /// Other jobs or the device have to go on first.
    Busy(Shortage),
    /// It can never be granted, or only by stopping every job.
    Never(Box<OutOfMemory>),
    /// The job may not hold that much.
    BeyondCap(Shortage, Bytes),
}

/// What the device has to do before the regions of a granted lease can be used. The pages in
/// question are pinned until the order is [settled](Ledger::settle).
#[derive(Default)]
pub(crate) struct WorkOrder {
    /// Mappings that have to go first, in the order of their places.
    pub(crate) unmap: Vec<Mapped>,
    /// Regions that have no memory yet.
    pub(crate) create: Vec<usize>,
    /// Regions that are to be mapped, and at which pages, in the order of pages.
    pub(crate) map: Vec<(u64, usize)>,
    backings: Vec<Backing>,
    pinned: Vec<Place>,
    /// It is for memory that comes back from the host.
    returns: bool,
}

impl WorkOrder {
    /// The same for memory that comes back from the host.
    pub(super) fn returning(self) -> Self {
        Self { returns: true, ..self }
    }

    /// What a broker's ledger has ordered: to be settled there.
    pub(crate) fn of_broker(unmap: Vec<Mapped>, map: Vec<(u64, usize)>) -> Self {
        Self { unmap, map, ..Self::default() }
    }

    /// Whether there is nothing to do, and so nothing to settle.
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

/// How far the device has come with a work order.
#[derive(Default)]
pub(crate) struct Done {
    /// So many of the mappings that were to go have gone.
    pub(crate) unmapped: usize,
    /// So many of the regions that had none have memory.
    pub(crate) created: usize,
    /// So many regions have been mapped.
    pub(crate) mapped: usize,
}

/// What is asked for of what a job gets.
fn of(asked: Option<(JobKey, Growth)>, job: JobKey) -> Growth {
    asked.filter(|&(who, _)| who == job).map_or_else(Growth::default, |(_, growth)| growth)
}

impl Ledger {
    /// Leases regions for the pages if budget and safety allow. The books say so from then on; what
    /// is not mapped yet the device still has to map, as the order says. Only the `last` try in a
    /// row may find that no waiting helps.
    pub(crate) fn lease(
        &mut self,
        job: JobKey,
        want: &Want,
        last: bool,
        now: Ticks,
    ) -> Result<WorkOrder, Denied> {
        // Growth that stays may be one that never fits although it would be safe now.
        if want.persists()
            && let Some(denied) = self.refusal(job, want)
        {
            return Err(denied);
        }
        if want.zone == Zone::Persistent
            && self.has_tickets()
            && let Some(denied) = self.breaks_ticket(job, want)
        {
            let passes = self.is_another_interrupted(job);
            return Err(if passes { self.deny(job, want, last, now) } else { denied });
        }
        if self.has_paces
            && let Some(rests) = self.rests(job, want, now)
        {
            return Err(Denied::Busy(rests));
        }
        self.note_first_wave(job, want);
        let mut backings = core::mem::take(&mut self.backings);
        let granted = self.choose(job, want, &mut backings) == 0
            && self.is_within_terms(job, &backings)
            && (self.may_have(job, want.growth())
                || last && self.is_all_that_is_left(job, want, now));
        let order = granted.then(|| self.grant(job, want, &mut backings, now));
        self.backings = backings;
        if let Some(order) = order {
            return Ok(order);
        }
        Err(self.refusal(job, want).unwrap_or_else(|| self.deny(job, want, last, now)))
    }

    /// A job that has run no iteration yet asks for something of which nothing is known: it may be
    /// one of a wave.
    fn note_first_wave(&mut self, job: JobKey, want: &Want) {
        if want.told != (Told::Guessed { wave: true }) {
            return;
        }
        if let Some(account) = self.accounts.get_mut(&job) {
            account.first_wave.grow(account.leased_total());
        }
    }

    /// Books the lease of these regions.
    pub(super) fn grant(
        &mut self,
        job: JobKey,
        want: &Want,
        backings: &mut Vec<Backing>,
        now: Ticks,
    ) -> WorkOrder {
        let mut order = self.order(job, want.zone, backings);
        self.book(job, want, backings, now);
        self.told = None;
        if self.looks_again {
            self.admit();
        }
        self.counts.leases += 1;
        self.counts.leased += backings.len() as u64;
        if !order.map.is_empty() {
            order.backings = core::mem::take(backings);
        }
        order
    }

    /// What the device has to do for a lease: pins the pages that are mapped for it, and those that
    /// have to be unmapped.
    fn order(&mut self, job: JobKey, zone: Zone, backings: &[Backing]) -> WorkOrder {
        let mut order = WorkOrder::default();
        for backing in backings.iter().filter(|backing| !backing.mapped) {
            let (place, region) = (Place { job, zone, page: backing.page }, backing.region);
            let first = order.unmap.len();
            order.unmap.extend(self.stale(place, region));
            let stale = order.unmap[first..].iter().map(|&(place, _)| place);
            self.pin(core::iter::once(place).chain(stale), &mut order.pinned);
            if !self.regions[region].created {
                self.regions.set_user(region, self.user(job));
                order.create.push(region);
            }
            order.map.push((backing.page, region));
        }
        order.map.sort_unstable();
        order.unmap.sort_unstable_by_key(|&(place, _)| place.in_order());
        order
    }

    /// The device has carried out a work order, so far; unless that was all of it the lease is
    /// taken back.
    pub(crate) fn settle(
        &mut self,
        job: JobKey,
        zone: Zone,
        order: &WorkOrder,
        done: &Done,
        now: Ticks,
    ) {
        for &(place, region) in &order.unmap[..done.unmapped] {
            self.unmapped(place, region);
        }
        for &region in &order.create[..done.created] {
            self.regions.set_created(region, true);
            self.counts.creates += 1;
        }
        for &(page, region) in &order.map[..done.mapped] {
            self.mapped(Place { job, zone, page }, region);
        }
        if done.mapped < order.map.len() {
            self.revoke(job, zone, &order.backings, now);
            if order.returns {
                self.not_returned(job, zone, order.backings.len());
            }
        }
        self.unpin(&order.pinned);
    }

    /// The banker's test with what `job` asks for granted to it. What is within the job's floor
    /// passes: it is kept free for it in every state. If some iteration cannot finish as things are
    /// (a job has left behind more than it ever had), a lease must keep nobody from finishing who
    /// can.
    pub(super) fn may_have(&mut self, job: JobKey, growth: Growth) -> bool {
        if self.is_safe_with(Some((job, growth)), 0) || self.is_within_floor(job, growth) {
            return true;
        }
        if self.is_safe_with(None, 0) || self.lay_claims(None, 0) > self.limit {
            return false;
        }
        let before = self.finishing(None);
        let after = self.finishing(Some((job, growth)));
        let has_claim = self.accounts.get(&job).is_some_and(Account::has_claim);
        before.iter().all(|one| after.contains(one)) && (!has_claim || after.contains(&job))
    }

    fn is_within_floor(&self, job: JobKey, growth: Growth) -> bool {
        self.accounts.get(&job).is_some_and(|account| {
            let held = account.leased_total().saturating_add(growth.regions);
            held <= account.terms.floor
        })
    }

    /// The jobs with claims that can finish in some order, if `asked` is granted.
    pub(super) fn finishing(&mut self, asked: Option<(JobKey, Growth)>) -> Vec<JobKey> {
        let free = self.limit.checked_sub(self.lay_claims(asked, 0));
        free.map_or_else(Vec::new, |free| can_finish(free, &mut self.claims).collect())
    }

    /// Whether every running iteration can finish in some order if what is asked for is granted,
    /// and `floor` regions are reserved for somebody else.
    pub(super) fn is_safe_with(&mut self, asked: Option<(JobKey, Growth)>, floor: u32) -> bool {
        // Alone, what a job may still take is never more than what is left beside what is reserved.
        if self.accounts.len() == 1
            && let Some((&key, account)) = self.accounts.first_key_value()
        {
            let reserved = account.reserved(of(asked, key));
            return reserved.saturating_add(floor) <= self.limit;
        }
        let reserved = self.lay_claims(asked, floor);
        self.limit.checked_sub(reserved).is_some_and(|free| is_safe(free, &mut self.claims))
    }

    /// Fills the scratch with the claims of the running iterations, as if what is asked for were
    /// granted and `floor` regions reserved for somebody else. What nobody else can have then, of
    /// all jobs and of the floor.
    ///
    /// A claim is at most the limit less what other jobs keep. Persistent growth that is asked for
    /// is not subtracted for a running iteration: that growth waits for an iteration without a
    /// profile. For a first wave it is subtracted, since that may be no iteration at all.
    pub(super) fn lay_claims(&mut self, asked: Option<(JobKey, Growth)>, floor: u32) -> u32 {
        let (mut kept, mut surely, mut reserved) = (floor, floor, floor);
        self.stakes.clear();
        for (&key, account) in &self.accounts {
            let stake = account.stake(key, of(asked, key));
            kept = kept.saturating_add(stake.kept);
            surely = surely.saturating_add(stake.surely_kept);
            reserved = reserved.saturating_add(stake.reserved);
            if account.has_claim() {
                self.stakes.push(stake);
            }
        }
        let more = asked.filter(|(_, growth)| growth.persists).map_or(0, |(_, more)| more.regions);
        let limit = self.limit;
        self.claims.clear();
        for stake in &self.stakes {
            let beside = |all: u32, own: u32| {
                let others = all.saturating_sub(own);
                let more = if stake.is_running { 0 } else { more };
                limit.saturating_sub(others.saturating_add(more)).min(stake.cap)
            };
            let (there_is, most) = (beside(kept, stake.kept), beside(surely, stake.surely_kept));
            self.claims.push(stake.claim(there_is, most));
        }
        reserved
    }

    /// Charges the job for what it gets. Another of its threads may still wait for memory that it
    /// was denied.
    pub(super) fn book(&mut self, job: JobKey, want: &Want, backings: &[Backing], now: Ticks) {
        let zone = want.zone;
        for backing in backings {
            let place = Place { job, zone, page: backing.page };
            self.regions.set_state(backing.region, State::Leased(place));
        }
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let moment = account.moment();
        for backing in backings {
            account.draining -= u32::from(backing.from == Origin::Own);
            account.leased[zone.index()] += 1;
            account.taken += u64::from(backing.from != Origin::Own);
            account.pages[zone.index()].set(backing.page, |page| {
                page.usage.begin(moment);
                if !backing.mapped {
                    page.moves.note(moment);
                }
            });
        }
        if matches!(want.told, Told::Guessed { .. }) && zone == Zone::Persistent {
            account.first_wave.lease(want.growth().regions);
        }
        if want.told != Told::ByTheJob {
            account.predictor.note_learned();
        }
        account.resume(now);
        if want.persists() && want.told == Told::ByTheJob {
            let regions = want.growth().regions;
            account.run().into_iter().for_each(|run| run.told = run.told.saturating_add(regions));
        }
        account.note_excess();
        account.note(now);
        self.wake |= core::mem::take(&mut account.denied);
    }

    /// The device could not do its part: takes the lease back. No work uses the regions yet, but
    /// for those that were draining; they drain again.
    fn revoke(&mut self, job: JobKey, zone: Zone, backings: &[Backing], now: Ticks) {
        for backing in backings {
            let state = self.revoked(job, zone, backing);
            self.regions.set_state(backing.region, state);
        }
        if let Some(account) = self.accounts.get_mut(&job) {
            let leased = &mut account.leased[zone.index()];
            *leased = leased.saturating_sub(u32::try_from(backings.len()).unwrap_or(u32::MAX));
            account.note(now);
        }
        self.notify();
        self.tighten();
        self.admit();
    }

    /// What becomes of a region whose lease is taken back.
    fn revoked(&mut self, job: JobKey, zone: Zone, backing: &Backing) -> State {
        match backing.from {
            Origin::Nobody => State::Free,
            Origin::Own => {
                let Some(account) = self.accounts.get_mut(&job) else { return State::Free };
                // It drains under a later fence than before, and with it the page.
                let batch = account.batch;
                account.draining = account.draining.saturating_add(1);
                account.pending.push(backing.region);
                account.pages[zone.index()].set(backing.page, |page| page.last = batch);
                State::Draining { job, batch }
            }
        }
    }
}
