//! A lease that is not granted: whether it ever can be, whether waiting helps, and who is told where
//! nothing can go on.

use crate::account::{Account, Blame};
use crate::device::Device;
use crate::lease::Denied;
use crate::ledger::Ledger;
use crate::region::JobKey;
use crate::run::Phase;
use crate::units::{Bytes, Ticks};
use crate::want::{Demand, Want};

impl<D: Device> Ledger<D> {
    /// Why `want` can never be granted, if so. Where it is safe and within the job's terms, it only can
    /// be so of what stays.
    pub(crate) fn refusal(&self, job: JobKey, want: &Want) -> Option<Denied> {
        self.refuses(job, want.demand())
    }

    /// The same of what has no pages yet.
    pub(crate) fn refuses(&self, job: JobKey, demand: Demand) -> Option<Denied> {
        let Demand { asked, pages, .. } = demand;
        if let Some(cap) = self.beyond_cap(job, pages) {
            return Some(Denied::BeyondCap(self.shortage(job, asked, pages), cap));
        }
        let missing = self.never_fits(job, demand)?;
        Some(Denied::Never(self.out_of_memory(job, asked, pages, missing)))
    }

    /// The job's cap, if so many pages more can never be held within it.
    fn beyond_cap(&self, job: JobKey, pages: u64) -> Option<Bytes> {
        let account = self.accounts.get(&job)?;
        let held = u64::from(account.leased_total()).saturating_add(pages);
        let cap = u64::from(account.cap.min(self.limit));
        (held > cap && account.cap < self.limit).then(|| Bytes::new(cap * self.page_bytes))
    }

    /// By how many regions the budget is too small ever to hold what is asked for beside what all keep for
    /// good: with all that the job holds, or, where it is growth that stays, with the known peak of any
    /// job that fitted before. Nothing if it is within what is reserved for the job.
    fn never_fits(&self, job: JobKey, demand: Demand) -> Option<u64> {
        let own = self.accounts.get(&job)?;
        let held = u64::from(own.leased_total()).saturating_add(demand.pages);
        if held <= u64::from(own.terms.floor) {
            return None;
        }
        let kept: u64 =
            self.accounts.values().map(|account| u64::from(account.kept_for_good())).sum();
        let others = kept - u64::from(own.kept_for_good());
        // What stays has to fit in the budget that is to be.
        let budget = u64::from(if demand.persists { self.target } else { self.limit });
        let alone = others.saturating_add(held.max(own.kept_for_good().into())).checked_sub(budget);
        let peak = if demand.persists { self.shuts_out(job, demand, kept) } else { None };
        alone.max(peak).filter(|&missing| missing > 0)
    }

    /// By how many regions growth that stays makes the budget too small for the known peak of a job that
    /// fitted before, if so. The job's own counts as well, once it has done more than its first iteration and
    /// where it has said that this persists; what is only learned to persist may be in that peak already.
    fn shuts_out(&self, job: JobKey, demand: Demand, kept: u64) -> Option<u64> {
        if !self.policy.hands_over() {
            return None;
        }
        let own = self.accounts.get(&job)?;
        let kept_by = |account: &Account<D>| u64::from(account.kept_for_good());
        // What the job keeps then: within its floor no more than before.
        let grown = u64::from(own.kept_without_floor()).saturating_add(demand.pages);
        let more = grown.max(kept_by(own)) - kept_by(own);
        let missing = |(&key, account): (&JobKey, &Account<D>)| {
            if key == job && (!demand.told || account.iterations < 2) {
                return None;
            }
            let peak = u64::from(account.largest()?);
            let own_growth = if key == job { demand.pages } else { 0 };
            let before = kept - kept_by(account) + peak.max(kept_by(account));
            let beside = if key == job { 0 } else { more };
            let after =
                kept - kept_by(account) + beside + (peak + own_growth).max(kept_by(account));
            let target = u64::from(self.target);
            after.checked_sub(target).filter(|_| before <= target)
        };
        self.accounts.iter().filter(|(_, account)| !account.gone).filter_map(missing).max()
    }

    /// Why not, and whether waiting helps.
    pub(crate) fn deny(&mut self, job: JobKey, want: &Want, last: bool, now: Ticks) -> Denied {
        let pages = want.pages.len() as u64;
        self.counts.denied += 1;
        self.refused_claimed |= self.claimed > 0;
        self.stall(job, want, now);
        // Where nothing is handed over, what others have they keep.
        let quiet = |account: &Account<D>| account.is_quiet() && account.draining == 0;
        let kept = !self.policy.hands_over()
            && self.claimed == 0
            && self.accounts.get(&job).is_some_and(quiet);
        let stuck = last && !kept && self.is_stuck();
        if stuck && self.let_in_a_holder() {
            self.wake = true;
        } else if last && kept || stuck && self.is_to_blame(job) {
            let free = self.regions.free_count() as u64;
            return Denied::Never(self.out_of_memory(
                job,
                want.asked,
                pages,
                pages.saturating_sub(free),
            ));
        }
        Denied::Busy(self.shortage(job, want.asked, pages))
    }

    /// Notes that a job waits for memory.
    fn stall(&mut self, job: JobKey, want: &Want, now: Ticks) {
        let (epoch, asked) = (self.epoch, u32::try_from(want.pages.len()).unwrap_or(u32::MAX));
        if let Some(account) = self.accounts.get_mut(&job) {
            account.denied = true;
            account.stall(now, epoch, asked);
        }
    }

    /// Whether what is asked for, which is there and is kept for others, is all that is left to do: nobody
    /// else can go on, and none of them has exceeded what was expected of it. Then nothing is lost by
    /// granting it; else one of them would have to fail.
    pub(crate) fn is_all_that_is_left(&mut self, job: JobKey, want: &Want, now: Ticks) -> bool {
        self.stall(job, want, now);
        self.is_stuck() && self.accounts.values().all(|account| account.blame() < Blame::Exceeds)
    }

    /// Whether nothing can go on by itself: every job waits for memory or to start, or has nothing to give
    /// back, and the device has nothing left to pass or to take back.
    pub(crate) fn is_stuck(&self) -> bool {
        let waits = |account: &Account<D>| {
            account.is_quiet() && account.draining == 0 && !account.may_go_on(self.epoch)
        };
        self.retiring == 0 && self.claimed == 0 && self.accounts.values().all(waits)
    }

    /// Lets the first of those that wait to start do so that holds something, whatever the policy says: by
    /// running on it may free that. Whether there is one.
    fn let_in_a_holder(&mut self) -> bool {
        let holds = |job: &JobKey| self.accounts.get(job).is_some_and(Account::holds_leftovers);
        let Some(job) = self.waiting.iter().copied().find(holds) else { return false };
        self.waiting.retain(|&waiting| waiting != job);
        self.set_phase(job, Phase::Admitted);
        self.epoch += 1;
        true
    }

    /// Whether those who wait have yet to be told that nothing can go on: one of them is then to
    /// ask again and be refused for good.
    pub(crate) fn is_news_that_stuck(&mut self) -> bool {
        let news = self.told != Some(self.epoch) && self.is_stuck();
        if news {
            self.told = Some(self.epoch);
        }
        news || core::mem::take(&mut self.wake)
    }

    /// Whether nobody is more to blame than `job`.
    fn is_to_blame(&self, job: JobKey) -> bool {
        let most =
            self.accounts.values().filter(|account| account.stall.is_some()).map(Account::blame);
        self.accounts.get(&job).map(Account::blame) >= most.max()
    }

    /// Looks at the jobs that are between iterations: those that others wait for in vain they do no longer.
    /// Whether there was one.
    pub(crate) fn look_at_idle(&mut self, now: Ticks) -> bool {
        let patience = self.patience;
        let looked = self.accounts.values_mut().map(|account| account.look(now, patience));
        let any = looked.fold(false, |any, new| any | new);
        if any {
            self.epoch += 1;
            self.admit();
        }
        any
    }
}
