//! Leases: which regions a growing arena gets, and whether it may have them now.

use alloc::vec::Vec;

use crate::account::{Account, Phase};
use crate::arena::Edge;
use crate::banker::is_safe;
use crate::device::Device;
use crate::error::Shortage;
use crate::ledger::Ledger;
use crate::lifetime::Lifetime;
use crate::region::{JobKey, Reach, State};
use crate::units::{Bytes, Ticks};

/// What an arena needs to place one more block.
pub(crate) struct Want {
    pub(crate) lifetime: Lifetime,
    /// The block's bytes and what its alignment may cost.
    pub(crate) bytes: u64,
    /// Where growing needs fewer pages, best first.
    pub(crate) edges: Vec<Edge>,
}

/// Regions that an arena may have. The books say so already; what the device still has to do for
/// them is named here.
pub(crate) struct Grant {
    pub(crate) slots: Vec<usize>,
    /// Which of them have yet to be created and mapped at home.
    pub(crate) create: Vec<usize>,
    /// The first page, or none if the regions have yet to be stitched.
    pub(crate) page: Option<u64>,
}

pub(crate) enum Denied {
    /// Other jobs or the device have to go on first.
    Busy(Shortage),
    /// It can never be granted, or only by stopping every job.
    Never(Shortage),
}

impl<D: Device> Ledger<D> {
    /// Leases pages for `want` if the budget, safety and the address range allow.
    pub(crate) fn lease(
        &mut self,
        job: JobKey,
        want: &Want,
        aliases: bool,
        now: Ticks,
    ) -> Result<Grant, Denied> {
        if self.never_fits(job, want) {
            return Err(Denied::Never(self.shortage(job, want.bytes)));
        }
        match self.select(job, want, aliases) {
            Some(grant) if self.may_have(job, grant.slots.len()) => {
                self.book(job, want.lifetime, &grant, now);
                Ok(grant)
            }
            _ => Err(self.deny(job, want, now)),
        }
    }

    /// Whether the budget can never hold `want` beside what the others keep: the job's own growth,
    /// or, where it is growth that stays, any other job's known peak.
    fn never_fits(&self, job: JobKey, want: &Want) -> bool {
        let least =
            want.edges.first().map_or(want.bytes, |edge| want.bytes.saturating_sub(edge.free));
        let count = least.div_ceil(self.page_bytes);
        let kept: u64 = self.accounts.values().map(|account| u64::from(account.persistent())).sum();
        let budget = u64::from(self.budget());
        self.accounts.iter().any(|(&key, account)| {
            let own = if key == job {
                u64::from(account.ephemeral())
            } else if want.lifetime == Lifetime::Persistent && self.policy.hands_over() {
                account.profile.as_ref().map_or(0, |profile| u64::from(profile.peak().value()))
            } else {
                0
            };
            (key == job || own > 0) && kept + own + count > budget
        })
    }

    /// Chooses regions: where the arena has an edge, else the tightest run, else scattered ones.
    fn select(&self, job: JobKey, want: &Want, aliases: bool) -> Option<Grant> {
        let account = self.accounts.get(&job)?;
        let count = usize::try_from(want.bytes.div_ceil(self.page_bytes)).ok()?;
        let at_home = |slots: core::ops::Range<usize>| {
            self.grant(slots.clone().collect(), Some(self.home + slots.start as u64))
        };
        if let Some(slots) = want.edges.iter().find_map(|edge| self.at_edge(job, want.bytes, edge))
        {
            return Some(at_home(slots));
        }
        let best = |reach| self.regions.best_run(reach, &account.own, count, account.side);
        if let Some(slots) = Reach::ALL.into_iter().find_map(best) {
            return Some(at_home(slots));
        }
        if !aliases {
            return None;
        }
        let suits = |slot| self.regions.reaches(Reach::Free, &account.own, slot);
        if let Some((page, slots)) = self.aliases.reusable(count, suits) {
            return Some(self.grant(slots, Some(page)));
        }
        let mut slots: Vec<usize> = Vec::with_capacity(count);
        for reach in Reach::ALL {
            let more =
                self.regions.within(reach, &account.own).filter(|slot| !slots.contains(slot));
            let more: Vec<usize> = more.take(count - slots.len()).collect();
            slots.extend(more);
        }
        (slots.len() == count).then(|| self.grant(slots, None))
    }

    /// The regions next to free bytes at an edge that make room for `bytes`, if all can be had.
    fn at_edge(&self, job: JobKey, bytes: u64, edge: &Edge) -> Option<core::ops::Range<usize>> {
        let account = self.accounts.get(&job)?;
        let count =
            usize::try_from(bytes.saturating_sub(edge.free).div_ceil(self.page_bytes)).ok()?;
        let slot = usize::try_from(edge.page.checked_sub(self.home)?).ok()?;
        let slots = if edge.upwards {
            slot..slot.checked_add(count)?
        } else {
            (slot + 1).checked_sub(count)?..slot + 1
        };
        slots
            .clone()
            .all(|slot| self.regions.reaches(Reach::Absent, &account.own, slot))
            .then_some(slots)
    }

    fn grant(&self, slots: Vec<usize>, page: Option<u64>) -> Grant {
        let create = slots.iter().copied().filter(|&slot| self.memory[slot].is_none()).collect();
        Grant { slots, create, page }
    }

    /// The banker's test with `extra` regions granted to `job`.
    fn may_have(&mut self, job: JobKey, extra: usize) -> bool {
        if !self.policy.hands_over() {
            return true;
        }
        let Ok(extra) = u32::try_from(extra) else { return false };
        let leased: u32 = self.accounts.values().map(Account::leased_total).sum();
        let Some(free) = self.budget().checked_sub(leased + extra) else { return false };
        let kept: u32 = self.accounts.values().map(Account::persistent).sum();
        self.claims.clear();
        for (&key, account) in self.accounts.iter().filter(|(_, account)| account.is_running()) {
            let unknown = self.budget() - (kept - account.persistent());
            let extra = if key == job { extra } else { 0 };
            self.claims.push(account.claim(extra, unknown));
        }
        is_safe(free, &mut self.claims)
    }

    fn book(&mut self, job: JobKey, lifetime: Lifetime, grant: &Grant, now: Ticks) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        for (i, &slot) in grant.slots.iter().enumerate() {
            if account.own.get(slot) {
                account.own.set(slot, false);
                account.draining -= 1;
            }
            account.leased[lifetime.index()] += 1;
            self.regions.set(slot, State::Leased { job, lifetime });
            if let Some(page) = grant.page {
                self.aliases.leased(page + i as u64);
            }
        }
        if let Some(run) = account.run() {
            run.resume(now);
        }
        account.note(now);
    }

    /// The device could not do its part: takes the lease back. Regions that were created stay.
    ///
    /// Regions that the job had draining go back to draining under a new fence, which is never too
    /// early; so may others, which is only late.
    pub(crate) fn revoke(&mut self, job: JobKey, lifetime: Lifetime, grant: &Grant, now: Ticks) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        for (i, &slot) in grant.slots.iter().enumerate() {
            account.leased[lifetime.index()] -= 1;
            if self.memory[slot].is_none() {
                self.regions.set(slot, State::Absent);
                continue;
            }
            let page = grant.page.map_or(self.home + slot as u64, |page| page + i as u64);
            account.draining += 1;
            account.own.set(slot, true);
            account.pending.push(page);
            self.regions.set(slot, State::Draining { job, batch: account.batch });
            self.aliases.given_back(page);
        }
        account.note(now);
    }

    /// Why not, and whether waiting helps.
    fn deny(&mut self, job: JobKey, want: &Want, now: Ticks) -> Denied {
        let shortage = self.shortage(job, want.bytes);
        if let Some(run) = self.accounts.get_mut(&job).and_then(Account::run) {
            run.stall(now);
        }
        if self.is_stuck() && self.is_to_blame(job) {
            return Denied::Never(shortage);
        }
        Denied::Busy(shortage)
    }

    /// Whether nothing can go on by itself: every running iteration waits for memory, and the
    /// device has nothing left to pass.
    pub(crate) fn is_stuck(&self) -> bool {
        self.accounts.values().all(|account| {
            account.draining == 0
                && match account.phase {
                    Phase::Running(_) => account.is_stalled(),
                    Phase::Admitted => false,
                    Phase::Idle | Phase::Waiting => true,
                }
        })
    }

    /// Whether `job` is one that has exceeded its profile, or no job has.
    fn is_to_blame(&self, job: JobKey) -> bool {
        let exceeds = |account: &Account<D>| {
            account.is_running()
                && account
                    .profile
                    .as_ref()
                    .is_none_or(|p| account.ephemeral() >= p.peak_from(account.progress()).value())
        };
        self.accounts.get(&job).is_some_and(exceeds) || !self.accounts.values().any(exceeds)
    }

    fn shortage(&self, job: JobKey, asked: u64) -> Shortage {
        let bytes = |regions: u32| Bytes::new(u64::from(regions) * self.page_bytes);
        let account = self.accounts.get(&job);
        let others =
            || self.accounts.iter().filter(|&(&key, _)| key != job).map(|(_, account)| account);
        let run =
            account.map_or(0, |account| self.regions.longest_run(Reach::Absent, &account.own));
        Shortage {
            job: account.map(|account| account.name.clone()).unwrap_or_default(),
            asked: Bytes::new(asked),
            budget: bytes(self.budget()),
            held: bytes(account.map_or(0, Account::leased_total)),
            held_by_others: bytes(others().map(Account::leased_total).sum()),
            other_jobs: u32::try_from(
                others().filter(|account| account.leased_total() > 0).count(),
            )
            .unwrap_or(u32::MAX),
            draining: bytes(self.accounts.values().map(|account| account.draining).sum()),
            largest_run: bytes(u32::try_from(run).unwrap_or(u32::MAX)),
        }
    }
}
