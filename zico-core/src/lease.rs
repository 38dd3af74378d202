//! Leases: which regions back the pages of a growing arena, and whether it may have them now.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::account::Account;
use crate::banker::is_safe;
use crate::choose::{Backing, From, Grant};
use crate::device::Device;
use crate::error::{OutOfMemory, Shortage};
use crate::ledger::Ledger;
use crate::region::{JobKey, Place, State};
use crate::run::Phase;
use crate::units::{Bytes, Ticks};
use crate::zone::Zone;

/// Pages that an arena needs backed to place one more block.
pub(crate) struct Want {
    pub(crate) zone: Zone,
    pub(crate) pages: Vec<u64>,
    /// What the block asks for, for people to read.
    pub(crate) asked: Bytes,
}

pub(crate) enum Denied {
    /// Other jobs or the device have to go on first.
    Busy(Shortage),
    /// It can never be granted, or only by stopping every job.
    Never(Box<OutOfMemory>),
    /// The job may not hold that much.
    BeyondCap(Shortage, Bytes),
}

impl<D: Device> Ledger<D> {
    /// Leases regions for the pages if budget and safety allow. The books say so from then on; what
    /// is not mapped yet the device still has to map. Only the `last` try in a row may find that no
    /// waiting helps.
    pub(crate) fn lease(
        &mut self,
        job: JobKey,
        want: &Want,
        last: bool,
        now: Ticks,
    ) -> Result<Grant<D::Event>, Denied> {
        // Growth that stays may be one that never fits although it would be safe now.
        if want.zone == Zone::Persistent
            && let Some(denied) = self.refusal(job, want)
        {
            return Err(denied);
        }
        let mut backings = core::mem::take(&mut self.backings);
        let granted = self.choose(job, want, &mut backings)
            && self.is_within_terms(job, &backings)
            && self.may_have(job, backings.len());
        let grant = granted.then(|| self.grant(job, want.zone, &mut backings, now));
        self.backings = backings;
        if let Some(grant) = grant {
            return Ok(grant);
        }
        Err(self.refusal(job, want).unwrap_or_else(|| self.deny(job, want, last, now)))
    }

    /// Why `want` can never be granted, if so. Where it is safe and within the job's terms, it only can
    /// be so of what stays.
    fn refusal(&self, job: JobKey, want: &Want) -> Option<Denied> {
        if let Some(cap) = self.beyond_cap(job, want) {
            let shortage = self.shortage(job, want.asked, want.pages.len() as u64);
            return Some(Denied::BeyondCap(shortage, cap));
        }
        let missing = self.never_fits(job, want)?;
        Some(Denied::Never(self.out_of_memory(job, want, missing)))
    }

    /// Books the lease of these regions.
    fn grant(
        &mut self,
        job: JobKey,
        zone: Zone,
        backings: &mut Vec<Backing>,
        now: Ticks,
    ) -> Grant<D::Event> {
        let after = self.dependencies(backings);
        let claimed = self.claim_for(job, zone, backings);
        let relief = self.book(job, zone, backings, now);
        if self.making_way {
            self.admit();
        }
        self.counts.leases += 1;
        self.counts.leased += backings.len() as u64;
        self.counts.orders += after.len() as u64;
        let idle = after.is_empty() && backings.iter().all(|backing| backing.mapped);
        let backings = if idle { Vec::new() } else { core::mem::take(backings) };
        Grant { backings, after, claimed, relief }
    }

    /// The job's cap, if `want` can never be held within it.
    fn beyond_cap(&self, job: JobKey, want: &Want) -> Option<Bytes> {
        let account = self.accounts.get(&job)?;
        let held = u64::from(account.leased_total()) + want.pages.len() as u64;
        let cap = u64::from(account.cap.min(self.limit));
        (held > cap && account.cap < self.limit).then(|| Bytes::new(cap * self.page_bytes))
    }

    /// By how many regions the budget is too small ever to hold `want` beside what all keep: with the
    /// job's own growth, or, where it is growth that stays, with any other job's known peak.
    fn never_fits(&self, job: JobKey, want: &Want) -> Option<u64> {
        let stays = want.zone == Zone::Persistent;
        let (asked, kept) = (want.pages.len() as u64, u64::from(self.kept()));
        let own = self.accounts.get(&job)?;
        let own_kept = u64::from(own.kept());
        let needs = |account: &Account<D>| match account.outlook.largest() {
            largest if largest > 0 => account.persistent().saturating_add(largest),
            _ => 0,
        };
        // What all others keep and what one of them needs beside that, at most.
        let beside = |(&key, account): (&JobKey, &Account<D>)| {
            if key == job { 0 } else { u64::from(needs(account).saturating_sub(account.kept())) }
        };
        let counts = stays && self.policy.hands_over();
        let most = if counts { self.accounts.iter().map(beside).max() } else { None };
        let grown = u64::from(own.leased_total()) + asked;
        let stayed = if stays { u64::from(own.persistent()) + asked } else { 0 };
        let alone = kept - own_kept + grown.max(own_kept);
        let others = kept - own_kept + stayed.max(own_kept) + most.unwrap_or(0);
        // What stays has to fit in the budget that is to be.
        let budget = u64::from(if stays { self.target } else { self.limit });
        alone.max(others).checked_sub(budget).filter(|&missing| missing > 0)
    }

    /// The banker's test with `extra` regions granted to `job`.
    fn may_have(&mut self, job: JobKey, extra: usize) -> bool {
        let Ok(extra) = u32::try_from(extra) else { return false };
        !self.policy.hands_over() || self.is_safe_with(Some(job), extra, 0)
    }

    /// Whether every running iteration can finish in some order if `job` gets `extra` regions, and
    /// `floor` are reserved for somebody else.
    pub(crate) fn is_safe_with(&mut self, job: Option<JobKey>, extra: u32, floor: u32) -> bool {
        let reserved = self.reserved(job, extra).saturating_add(floor);
        let Some(free) = self.limit.checked_sub(reserved) else { return false };
        self.running_claims(job, extra, floor);
        is_safe(free, &mut self.claims)
    }

    /// What nobody else can have now, of all jobs, if `job` were to hold `extra` regions more.
    pub(crate) fn reserved(&self, job: Option<JobKey>, extra: u32) -> u32 {
        let extra_of = |key: JobKey| if job == Some(key) { extra } else { 0 };
        let reserved = self.accounts.iter().map(|(&key, account)| account.reserved(extra_of(key)));
        reserved.fold(0, u32::saturating_add)
    }

    /// Fills the scratch with the claims of the running iterations, as if `job` held `extra` regions
    /// more and `floor` were reserved for somebody else.
    pub(crate) fn running_claims(&mut self, job: Option<JobKey>, extra: u32, floor: u32) {
        let extra_of = |key: JobKey| if job == Some(key) { extra } else { 0 };
        let kept = self.kept().saturating_add(floor);
        self.claims.clear();
        let running = self.accounts.iter().filter(|(_, account)| account.is_running());
        for (&key, account) in running {
            let others = kept.saturating_sub(account.kept());
            let most = self.limit.saturating_sub(others).min(account.cap);
            self.claims.push(account.claim(extra_of(key), most));
        }
    }

    /// Whether the job had been denied memory before: another of its threads may still wait.
    fn book(&mut self, job: JobKey, zone: Zone, backings: &[Backing], now: Ticks) -> bool {
        for backing in backings {
            let place = Place { job, zone, page: backing.page };
            self.regions[backing.region].state = State::Leased(place);
            self.count_draining(job, backing.from, -1, now);
        }
        let Some(account) = self.accounts.get_mut(&job) else { return false };
        let moment = account.moment();
        for backing in backings {
            account.leased[zone.index()] += 1;
            account.taken += u64::from(backing.from != From::Own);
            account.spaces[zone.index()].set(backing.page, |page| page.usage.begin(moment));
        }
        if let Some(run) = account.run() {
            run.resume(now);
        }
        account.note_excess();
        account.note(now);
        core::mem::take(&mut account.denied)
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
    pub(crate) fn revoke(&mut self, job: JobKey, zone: Zone, backings: &[Backing], now: Ticks) {
        for backing in backings {
            let state = self.revoked(job, zone, backing);
            self.regions[backing.region].state = state;
            if matches!(state, State::Draining { .. }) {
                self.count_draining(job, backing.from, 1, now);
            }
        }
        if let Some(account) = self.accounts.get_mut(&job) {
            let leased = &mut account.leased[zone.index()];
            *leased = leased.saturating_sub(u32::try_from(backings.len()).unwrap_or(u32::MAX));
            account.note(now);
        }
        self.epoch += 1;
        self.tighten();
        self.admit();
    }

    /// What becomes of a region whose lease is taken back.
    fn revoked(&mut self, job: JobKey, zone: Zone, backing: &Backing) -> State {
        match backing.from {
            From::Nobody => State::Free,
            From::Own => {
                let Some(account) = self.accounts.get_mut(&job) else { return State::Free };
                // It drains under a later fence than before, and with it the page.
                let batch = account.batch;
                account.pending.push(backing.region);
                account.spaces[zone.index()].set(backing.page, |page| page.last = batch);
                State::Draining { job, batch }
            }
            From::Other { job, batch } => match self.accounts.get(&job) {
                Some(account) if account.passed < batch => State::Draining { job, batch },
                _ => State::Free,
            },
        }
    }

    /// Why not, and whether waiting helps.
    fn deny(&mut self, job: JobKey, want: &Want, last: bool, now: Ticks) -> Denied {
        let epoch = self.epoch;
        self.counts.denied += 1;
        self.refused_claimed |= self.claimed > 0;
        if let Some(account) = self.accounts.get_mut(&job) {
            account.denied = true;
            let progress = account.progress();
            if let Some(run) = account.run() {
                let asked = u32::try_from(want.pages.len()).unwrap_or(u32::MAX);
                run.stall(now, epoch, asked, progress);
            }
        }
        // Where nothing is handed over, what others have they keep.
        let quiet = |account: &Account<D>| account.is_quiet() && account.draining == 0;
        let kept = !self.policy.hands_over()
            && self.claimed == 0
            && self.accounts.get(&job).is_some_and(quiet);
        if last && (kept || self.is_stuck() && self.is_to_blame(job)) {
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
                && account.draining == 0
                && match account.phase {
                    Phase::Running(_) => account.is_denied_at(self.epoch),
                    Phase::Admitted => false,
                    Phase::Idle | Phase::Waiting(_) => !account.may_free(),
                }
        };
        self.retiring == 0 && self.claimed == 0 && self.accounts.values().all(waits)
    }

    /// Whether those who wait have yet to be told that nothing can go on: one of them is then to
    /// ask again and be refused for good.
    pub(crate) fn is_news_that_stuck(&mut self) -> bool {
        let news = self.told != Some(self.epoch) && self.is_stuck();
        if news {
            self.told = Some(self.epoch);
        }
        news
    }

    /// Whether `job` is one that has exceeded its profile, or no job has.
    fn is_to_blame(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(Account::is_beyond_claim)
            || !self.accounts.values().any(Account::is_beyond_claim)
    }
}
