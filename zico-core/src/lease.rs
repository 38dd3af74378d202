//! Leases: which regions back the pages of a growing arena, and whether it may have them now.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::account::{Account, Phase};
use crate::banker::is_safe;
use crate::device::Device;
use crate::error::Shortage;
use crate::ledger::Ledger;
use crate::lifetime::Lifetime;
use crate::region::{JobKey, Place, Region, State};
use crate::units::{Bytes, Ticks};

/// Pages that an arena needs backed to place one more block.
pub(crate) struct Want {
    pub(crate) lifetime: Lifetime,
    pub(crate) pages: Vec<u64>,
    /// What the block asks for, for people to read.
    pub(crate) asked: Bytes,
}

/// One page of a grant.
#[derive(Clone, Copy)]
pub(crate) struct Backing {
    pub(crate) page: u64,
    pub(crate) region: usize,
    /// Whether the region is mapped there already.
    pub(crate) mapped: bool,
    /// Whether the job had given it up and the device has yet to pass that.
    retaken: bool,
}

pub(crate) enum Denied {
    /// Other jobs or the device have to go on first.
    Busy(Shortage),
    /// It can never be granted, or only by stopping every job.
    Never(Shortage),
}

impl<D: Device> Ledger<D> {
    /// Leases regions for the pages if budget and safety allow. The books say so from then on; what
    /// is not mapped yet the device still has to map.
    pub(crate) fn lease(
        &mut self,
        job: JobKey,
        want: &Want,
        now: Ticks,
    ) -> Result<Vec<Backing>, Denied> {
        if self.never_fits(job, want) {
            return Err(Denied::Never(self.shortage(job, want.asked)));
        }
        match self.choose(job, want) {
            Some(backings) if self.may_have(job, backings.len()) => {
                self.book(job, want.lifetime, &backings, now);
                Ok(backings)
            }
            _ => Err(self.deny(job, want, now)),
        }
    }

    /// Whether the budget can never hold `want` beside what all keep: with the job's own growth, or,
    /// where it is growth that stays, with any other job's known peak.
    fn never_fits(&self, job: JobKey, want: &Want) -> bool {
        let stays = want.lifetime == Lifetime::Persistent && self.policy.hands_over();
        let beside = |(&key, account): (&JobKey, &Account<D>)| match &account.profile {
            _ if key == job => account.ephemeral(),
            Some(profile) if stays => profile.claim().value(),
            _ => 0,
        };
        let kept: u64 = self.accounts.values().map(|account| u64::from(account.persistent())).sum();
        let beside = self.accounts.iter().map(beside).max().unwrap_or(0);
        kept + u64::from(beside) + want.pages.len() as u64 > u64::from(self.budget())
    }

    /// Chooses a region for each page: the one that is mapped there if the job can have it without
    /// waiting, else the one that suits best. O(pages) where all are mapped, else O(regions).
    fn choose(&self, job: JobKey, want: &Want) -> Option<Vec<Backing>> {
        let space = &self.accounts.get(&job)?.spaces[want.lifetime.index()];
        let mut backings: Vec<Backing> = Vec::with_capacity(want.pages.len());
        let mut missing: Vec<u64> = Vec::new();
        for &page in &want.pages {
            let here = Place { job, lifetime: want.lifetime, page };
            // Two pages of one arena may have had the same region: only one can have it now.
            let taken = |region: &usize| backings.iter().any(|backing| backing.region == *region);
            let mapped = space.region(page).filter(|region| !taken(region));
            match mapped.map(|region| (region, self.regions[region].state)) {
                Some((region, State::Free)) => {
                    backings.push(Backing::new(page, region, true, false));
                }
                Some((region, State::Draining { place, .. })) if place == here => {
                    backings.push(Backing::new(page, region, true, true));
                }
                _ => missing.push(page),
            }
        }
        let others = self.best_free(job, want.lifetime, missing.len(), &backings)?;
        let others = missing.into_iter().zip(others);
        backings.extend(others.map(|(page, region)| Backing::new(page, region, false, false)));
        Some(backings)
    }

    /// The `count` free regions that suit an arena best, beside those that are taken already.
    fn best_free(
        &self,
        job: JobKey,
        lifetime: Lifetime,
        count: usize,
        taken: &[Backing],
    ) -> Option<Vec<usize>> {
        let hands_over = self.policy.hands_over();
        let free = |&(region, state): &(usize, &Region<D::Memory>)| {
            state.state == State::Free
                && (hands_over || state.is_only_of(job))
                && !taken.iter().any(|backing| backing.region == region)
        };
        let mut best = Vec::new();
        if count > 0 {
            let free = self.regions.iter().enumerate().filter(free);
            best.extend(free.map(|(region, state)| (Reverse(state.suits(job, lifetime)), region)));
            if best.len() < count {
                return None;
            }
            best.sort_unstable();
        }
        Some(best.into_iter().map(|(_, region)| region).take(count).collect())
    }

    /// The banker's test with `extra` regions granted to `job`.
    fn may_have(&mut self, job: JobKey, extra: usize) -> bool {
        if !self.policy.hands_over() {
            return true;
        }
        let Ok(extra) = u32::try_from(extra) else { return false };
        let leased: u32 = self.accounts.values().map(Account::leased_total).sum();
        let Some(free) = self.budget().checked_sub(leased.saturating_add(extra)) else {
            return false;
        };
        let kept: u32 = self.accounts.values().map(Account::persistent).sum();
        self.claims.clear();
        for (&key, account) in self.accounts.iter().filter(|(_, account)| account.is_running()) {
            let most = self.budget() - (kept - account.persistent());
            let extra = if key == job { extra } else { 0 };
            self.claims.push(account.claim(extra, most));
        }
        is_safe(free, &mut self.claims)
    }

    fn book(&mut self, job: JobKey, lifetime: Lifetime, backings: &[Backing], now: Ticks) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        for backing in backings {
            account.draining -= u32::from(backing.retaken);
            account.leased[lifetime.index()] += 1;
            let place = Place { job, lifetime, page: backing.page };
            self.regions[backing.region].state = State::Leased(place);
        }
        if let Some(run) = account.run() {
            run.resume(now);
        }
        account.note(now);
    }

    /// The device could not do its part: takes the lease back. No work uses the regions yet, but for
    /// those that the job had draining; they drain again under a later fence.
    pub(crate) fn revoke(
        &mut self,
        job: JobKey,
        lifetime: Lifetime,
        backings: &[Backing],
        now: Ticks,
    ) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        for backing in backings {
            account.leased[lifetime.index()] -= 1;
            self.regions[backing.region].state = if backing.retaken {
                account.draining += 1;
                account.pending.push(backing.region);
                State::Draining {
                    place: Place { job, lifetime, page: backing.page },
                    batch: account.batch,
                }
            } else {
                State::Free
            };
        }
        account.note(now);
        self.epoch += 1;
    }

    /// Why not, and whether waiting helps.
    fn deny(&mut self, job: JobKey, want: &Want, now: Ticks) -> Denied {
        let (shortage, epoch) = (self.shortage(job, want.asked), self.epoch);
        if let Some(run) = self.accounts.get_mut(&job).and_then(Account::run) {
            run.stall(now, epoch);
        }
        // Where nothing is handed over, what others have they keep.
        let draining = self.accounts.get(&job).is_some_and(|account| account.draining > 0);
        let kept = !self.policy.hands_over() && !draining;
        if kept || (self.is_stuck() && self.is_to_blame(job)) {
            return Denied::Never(shortage);
        }
        Denied::Busy(shortage)
    }

    /// Whether nothing can go on by itself: every running iteration has been denied memory as things
    /// stand, and the device has nothing left to pass.
    pub(crate) fn is_stuck(&self) -> bool {
        self.accounts.values().all(|account| {
            account.draining == 0
                && match account.phase {
                    Phase::Running(_) => account.is_denied_at(self.epoch),
                    Phase::Admitted => false,
                    // What it has kept from its last iteration it may free at any time.
                    Phase::Idle | Phase::Waiting(_) => account.ephemeral() == 0,
                }
        })
    }

    /// Whether `job` is one that has exceeded its profile, or no job has.
    fn is_to_blame(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(Account::is_beyond_claim)
            || !self.accounts.values().any(Account::is_beyond_claim)
    }

    pub(crate) fn shortage(&self, job: JobKey, asked: Bytes) -> Shortage {
        let bytes = |regions: u32| Bytes::new(u64::from(regions) * self.page_bytes);
        let account = self.accounts.get(&job);
        let others =
            || self.accounts.iter().filter(|&(&key, _)| key != job).map(|(_, account)| account);
        let holding = others().filter(|account| account.leased_total() > 0).count();
        let free = self.regions.iter().filter(|region| region.state == State::Free).count();
        Shortage {
            job: account.map(|account| account.name.clone()).unwrap_or_default(),
            asked,
            budget: bytes(self.budget()),
            held: bytes(account.map_or(0, Account::leased_total)),
            held_by_others: bytes(others().map(Account::leased_total).sum()),
            other_jobs: u32::try_from(holding).unwrap_or(u32::MAX),
            draining: bytes(self.accounts.values().map(|account| account.draining).sum()),
            free: bytes(u32::try_from(free).unwrap_or(u32::MAX)),
        }
    }
}

impl Backing {
    const fn new(page: u64, region: usize, mapped: bool, retaken: bool) -> Self {
        Self { page, region, mapped, retaken }
    }
}
