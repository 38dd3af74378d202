//! Leases: which regions back the pages of a growing arena, and whether it may have them now.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::account::{Account, Phase};
use crate::banker::is_safe;
use crate::choose::{Backing, From, Grant};
use crate::device::Device;
use crate::error::{OutOfMemory, Shortage};
use crate::ledger::Ledger;
use crate::lifetime::Lifetime;
use crate::region::{JobKey, Place, State};
use crate::units::{Bytes, Ticks};

/// Pages that an arena needs backed to place one more block.
pub(crate) struct Want {
    pub(crate) lifetime: Lifetime,
    pub(crate) pages: Vec<u64>,
    /// What the block asks for, for people to read.
    pub(crate) asked: Bytes,
}

pub(crate) enum Denied {
    /// Other jobs or the device have to go on first.
    Busy(Shortage),
    /// It can never be granted, or only by stopping every job.
    Never(Box<OutOfMemory>),
}

impl<D: Device> Ledger<D> {
    /// Leases regions for the pages if budget and safety allow. The books say so from then on; what
    /// is not mapped yet the device still has to map.
    pub(crate) fn lease(
        &mut self,
        job: JobKey,
        want: &Want,
        now: Ticks,
    ) -> Result<Grant<D::Event>, Denied> {
        if let Some(missing) = self.never_fits(job, want) {
            return Err(Denied::Never(self.out_of_memory(job, want, missing)));
        }
        match self.choose(job, want) {
            Some(backings) if self.may_have(job, backings.len()) => {
                let after = self.dependencies(&backings);
                self.book(job, want.lifetime, &backings, now);
                self.counts.leases += 1;
                self.counts.leased += backings.len() as u64;
                self.counts.orders += after.len() as u64;
                Ok(Grant { backings, after })
            }
            _ => Err(self.deny(job, want, now)),
        }
    }

    /// By how many regions the budget is too small ever to hold `want` beside what all keep: with the
    /// job's own growth, or, where it is growth that stays, with any other job's known peak.
    fn never_fits(&self, job: JobKey, want: &Want) -> Option<u64> {
        let stays = want.lifetime == Lifetime::Persistent && self.policy.hands_over();
        let beside = |(&key, account): (&JobKey, &Account<D>)| match &account.profile {
            _ if key == job => account.ephemeral(),
            Some(profile) if stays => profile.claim().value(),
            _ => 0,
        };
        let kept: u64 = self.accounts.values().map(|account| u64::from(account.persistent())).sum();
        let beside = self.accounts.iter().map(beside).max().unwrap_or(0);
        let needed = kept + u64::from(beside) + want.pages.len() as u64;
        let budget = if stays { self.target } else { self.limit };
        needed.checked_sub(u64::from(budget)).filter(|&missing| missing > 0)
    }

    /// The banker's test with `extra` regions granted to `job`.
    fn may_have(&mut self, job: JobKey, extra: usize) -> bool {
        if !self.policy.hands_over() {
            return true;
        }
        let Ok(extra) = u32::try_from(extra) else { return false };
        let leased: u32 = self.accounts.values().map(Account::leased_total).sum();
        let Some(free) = self.limit.checked_sub(leased.saturating_add(extra)) else {
            return false;
        };
        self.running_claims(Some((job, extra)));
        is_safe(free, &mut self.claims)
    }

    /// Fills the scratch with the claims of the running iterations, as if one held so many more.
    pub(crate) fn running_claims(&mut self, more: Option<(JobKey, u32)>) {
        let kept: u32 = self.accounts.values().map(Account::persistent).sum();
        self.claims.clear();
        for (&key, account) in self.accounts.iter().filter(|(_, account)| account.is_running()) {
            let most = self.limit.saturating_sub(kept - account.persistent());
            let extra = more.filter(|&(job, _)| job == key).map_or(0, |(_, extra)| extra);
            self.claims.push(account.claim(extra, most));
        }
    }

    fn book(&mut self, job: JobKey, lifetime: Lifetime, backings: &[Backing], now: Ticks) {
        for backing in backings {
            let place = Place { job, lifetime, page: backing.page };
            self.regions[backing.region].state = State::Leased(place);
            self.count_draining(job, backing.from, -1, now);
        }
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let moment = account.moment();
        for backing in backings {
            account.leased[lifetime.index()] += 1;
            account.charged += u64::from(backing.from != From::Own);
            account.spaces[lifetime.index()].set(backing.page, |page| page.usage.begin(moment));
        }
        if let Some(run) = account.run() {
            run.resume(now);
        }
        account.note(now);
    }

    /// A region that was draining is no longer, or is again.
    fn count_draining(&mut self, job: JobKey, from: From, change: i32, now: Ticks) {
        let owner = match from {
            From::Nobody => return,
            From::Own => job,
            From::Other { job, .. } => job,
        };
        if let Some(account) = self.accounts.get_mut(&owner) {
            account.draining = account.draining.saturating_add_signed(change);
            if owner != job {
                account.note(now);
            }
        }
    }

    /// The device could not do its part: takes the lease back. No work uses the regions yet, but for
    /// those that were draining; they drain again.
    pub(crate) fn revoke(
        &mut self,
        job: JobKey,
        lifetime: Lifetime,
        backings: &[Backing],
        now: Ticks,
    ) {
        for backing in backings {
            let state = self.revoked(job, lifetime, backing);
            self.regions[backing.region].state = state;
            if matches!(state, State::Draining { .. }) {
                self.count_draining(job, backing.from, 1, now);
            }
        }
        if let Some(account) = self.accounts.get_mut(&job) {
            let leased = &mut account.leased[lifetime.index()];
            *leased = leased.saturating_sub(u32::try_from(backings.len()).unwrap_or(u32::MAX));
            account.note(now);
        }
        self.epoch += 1;
    }

    /// What becomes of a region whose lease is taken back.
    fn revoked(&mut self, job: JobKey, lifetime: Lifetime, backing: &Backing) -> State {
        match backing.from {
            From::Nobody => State::Free,
            From::Own => {
                let Some(account) = self.accounts.get_mut(&job) else { return State::Free };
                // It drains under a later fence than before, and with it the page.
                let batch = account.batch;
                account.pending.push(backing.region);
                account.spaces[lifetime.index()].set(backing.page, |page| page.last = batch);
                State::Draining { job, batch }
            }
            From::Other { job, batch } => match self.accounts.get(&job) {
                Some(account) if account.passed < batch => State::Draining { job, batch },
                _ => State::Free,
            },
        }
    }

    /// Why not, and whether waiting helps.
    fn deny(&mut self, job: JobKey, want: &Want, now: Ticks) -> Denied {
        let epoch = self.epoch;
        self.counts.denied += 1;
        if let Some(run) = self.accounts.get_mut(&job).and_then(Account::run) {
            run.stall(now, epoch);
        }
        // Where nothing is handed over, what others have they keep.
        let quiet = self.accounts.get(&job).is_some_and(Account::is_quiet);
        let kept = !self.policy.hands_over() && quiet;
        if kept || (self.is_stuck() && self.is_to_blame(job)) {
            let free = self.regions.iter().filter(|region| region.state == State::Free).count();
            let missing = (want.pages.len() as u64).saturating_sub(free as u64);
            return Denied::Never(self.out_of_memory(job, want, missing));
        }
        Denied::Busy(self.shortage(job, want.asked, want.pages.len() as u64))
    }

    /// Whether nothing can go on by itself: every running iteration has been denied memory as things
    /// stand, and the device has nothing left to pass or to take back.
    pub(crate) fn is_stuck(&self) -> bool {
        let waits = |account: &Account<D>| {
            account.is_quiet()
                && match account.phase {
                    Phase::Running(_) => account.is_denied_at(self.epoch),
                    Phase::Admitted => false,
                    // What it has kept from its last iteration it may free at any time.
                    Phase::Idle | Phase::Waiting(_) => account.ephemeral() == 0,
                }
        };
        self.retiring == 0 && self.accounts.values().all(waits)
    }

    /// Whether `job` is one that has exceeded its profile, or no job has.
    fn is_to_blame(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(Account::is_beyond_claim)
            || !self.accounts.values().any(Account::is_beyond_claim)
    }
}
