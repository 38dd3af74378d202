//! A lease that is not granted: whether it ever can be, whether waiting helps, and who is told
//! where nothing can go on.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Ledger;
use super::account::{Account, Blame};
use super::lease::Denied;
use super::run::Phase;
use crate::types::JobKey;
use crate::types::units::{Bytes, Ticks};
use crate::types::want::{Demand, Growth, Want};

/// What comes of granting a job what it asks for where nobody can go on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outlook {
    /// It goes on, and cannot finish with what is left.
    GoesOn,
    /// It can finish, and others of which it is known what they take can no longer.
    FinishesFirst,
    /// It can finish, and all those still can.
    Finishes,
}

impl Ledger {
    /// Why `want` can never be granted, if so. If it is safe and within the job's terms, only
    /// growth that persists can be refused.
    pub(super) fn refusal(&self, job: JobKey, want: &Want) -> Option<Denied> {
        self.refuses(job, want.demand())
    }

    /// Why what is larger than all there is can never be granted. It has no pages yet.
    pub(crate) fn is_beyond_all(&self, job: JobKey, demand: Demand) -> Option<Denied> {
        let all = u64::from(self.limit.max(self.target));
        if demand.pages <= all { None } else { self.refuses(job, demand) }
    }

    pub(super) fn refuses(&self, job: JobKey, demand: Demand) -> Option<Denied> {
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
        let cap = u64::from(account.cap().min(self.limit));
        (held > cap && account.cap() < self.limit).then(|| Bytes::new(cap * self.page_bytes))
    }

    /// By how many regions the budget is too small ever to hold what is asked for beside what all
    /// keep for good: with all that the job holds, or, where it is growth that stays, with the
    /// known peak of any job that fitted before. Nothing if it is within what is reserved for the
    /// job.
    fn never_fits(&self, job: JobKey, demand: Demand) -> Option<u64> {
        let own = self.accounts.get(&job)?;
        let held = u64::from(own.leased_total()).saturating_add(demand.pages);
        if held <= u64::from(own.terms.floor) {
            return None;
        }
        let kept: u64 =
            self.accounts.values().map(|account| u64::from(account.kept_from_others())).sum();
        let others = kept - u64::from(own.kept_from_others());
        // What stays has to fit in the budget that is to be.
        let budget = u64::from(if demand.persists { self.target } else { self.limit });
        let alone = others.saturating_add(held.max(own.kept_for_good().into())).checked_sub(budget);
        let peak = if demand.persists { self.shuts_out(job, demand, kept) } else { None };
        alone.max(peak).filter(|&missing| missing > 0)
    }

    /// By how many regions growth that stays makes the budget too small for the known peak of a job
    /// that fitted before, if so. The job's own counts as well, as far as the last two iterations
    /// both came to it and it has said that this persists. What is only learned to persist, within
    /// an iteration, comes in the place of something that the job has kept all along.
    fn shuts_out(&self, job: JobKey, demand: Demand, kept: u64) -> Option<u64> {
        let own = self.accounts.get(&job)?;
        if !demand.told && own.is_running() {
            return None;
        }
        let kept_by = |account: &Account| u64::from(account.kept_from_others());
        let own_kept = |account: &Account| u64::from(account.kept_for_good());
        // What the job keeps then: within its floor no more than before, and no more for others
        // where it gives way to them.
        let grown = u64::from(own.kept_without_floor()).saturating_add(demand.pages);
        let more = if own.is_preemptible() { 0 } else { grown.max(kept_by(own)) - kept_by(own) };
        let missing = |(&key, account): (&JobKey, &Account)| {
            let peak = match key == job {
                true if demand.told => account.surely(),
                true => None,
                false => account.largest(),
            };
            let peak = u64::from(peak?);
            let own_growth = if key == job { demand.pages } else { 0 };
            let before = kept - kept_by(account) + peak.max(own_kept(account));
            let beside = if key == job { 0 } else { more };
            let after =
                kept - kept_by(account) + beside + (peak + own_growth).max(own_kept(account));
            let target = u64::from(self.target);
            after.checked_sub(target).filter(|_| before <= target)
        };
        self.accounts.iter().filter(|(_, account)| !account.gone).filter_map(missing).max()
    }

    /// Why not, and whether waiting helps.
    pub(super) fn deny(&mut self, job: JobKey, want: &Want, last: bool, now: Ticks) -> Denied {
        let pages = want.pages.len() as u64;
        self.counts.denied += 1;
        self.refused_pinned |= self.pinned > 0;
        self.stall(job, want, now);
        self.now = now;
        self.call_turns();
        let stuck = last && self.is_stuck();
        if stuck && (self.let_in_a_holder() || self.interrupt()) {
            self.wake = true;
        } else if stuck && !self.is_another_served(job) && self.is_to_blame(job) {
            let free = self.regions.free_count() as u64;
            let missing = pages.saturating_sub(free);
            return Denied::Never(self.out_of_memory(job, want.asked, pages, missing));
        }
        if last {
            // One of those who wait is to be told that it is out of memory.
            self.note_if_stuck();
        }
        Denied::Busy(self.shortage(job, want.asked, pages))
    }

    /// Notes that a job waits for memory.
    fn stall(&mut self, job: JobKey, want: &Want, now: Ticks) {
        let (epoch, asked) = (self.epoch, want.growth());
        if let Some(account) = self.accounts.get_mut(&job) {
            account.denied = true;
            account.stall(now, epoch, asked);
        }
        self.call_upon(None);
        self.no_longer_holds_off();
    }

    /// Whether what is asked for, which is there and is kept for others, is all that is left to do:
    /// nobody can go on, and what is there would do no more for another job that waits. Nothing is
    /// lost by granting it then; else somebody would have to fail.
    pub(super) fn is_all_that_is_left(&mut self, job: JobKey, want: &Want, now: Ticks) -> bool {
        self.stall(job, want, now);
        if !self.is_stuck() {
            return false;
        }
        let others = self.accounts.iter().filter(|&(&key, _)| key != job);
        let waiting = others.filter(|(_, account)| self.still_asks(account));
        let asked = waiting.filter_map(|(&key, account)| Some((key, account.stall?.asked)));
        let served: Vec<_> =
            asked.filter(|&(key, asked)| asked.regions <= self.left_for(key)).collect();
        let own = self.merit(job, want.growth());
        !served.into_iter().any(|(key, asked)| self.merit(key, asked) > own)
    }

    /// What comes of granting a job what it asks for where nobody can go on; then it counts who is
    /// less to blame.
    fn merit(&mut self, job: JobKey, asked: Growth) -> (Outlook, Reverse<Option<Blame>>) {
        let before = self.finishing(None);
        let after = self.finishing(Some((job, asked)));
        let is_known =
            |one: &JobKey| self.accounts.get(one).is_some_and(|account| account.ahead().is_some());
        let loses = |one: &JobKey| is_known(one) && !after.contains(one);
        let outlook = match after.contains(&job) {
            true if before.iter().any(loses) => Outlook::FinishesFirst,
            true => Outlook::Finishes,
            false => Outlook::GoesOn,
        };
        (outlook, Reverse(self.accounts.get(&job).map(Account::blame)))
    }

    /// Whether what is nobody's would serve another job that waits.
    fn is_another_served(&self, job: JobKey) -> bool {
        let is_served = |(&key, account): (&JobKey, &Account)| {
            let asked = account.stall.map_or(0, |stall| stall.asked.regions);
            key != job && self.still_asks(account) && asked <= self.left_for(key)
        };
        self.accounts.iter().any(is_served)
    }

    /// How many regions a job could have that are nobody's, and neither reserved for others nor
    /// beyond its cap.
    pub(super) fn left_for(&self, job: JobKey) -> u32 {
        let taken = |(&key, account): (&JobKey, &Account)| {
            let floor = if key == job { 0 } else { account.terms.floor };
            account.charged().max(floor)
        };
        let taken = self.accounts.iter().map(taken).fold(0, u32::saturating_add);
        let own = self.accounts.get(&job);
        let cap = own.map_or(0, |account| account.cap().saturating_sub(account.charged()));
        self.limit.saturating_sub(taken).min(cap)
    }

    /// Whether a job waits for memory, as far as is known. One that is in no iteration may have
    /// asked and gone away: it counts until it has been woken.
    fn still_asks(&self, account: &Account) -> bool {
        let told = self.told == Some(self.epoch);
        account.is_denied_at(self.epoch) && (account.is_running() || !told)
    }

    /// Whether nothing can go on by itself: every job waits for memory or to start, or has nothing
    /// to give back, and the device has nothing left to pass, to take back, or to say of another
    /// stream.
    pub(super) fn is_stuck(&self) -> bool {
        let waits = |account: &Account| {
            account.is_quiet()
                && account.draining == 0
                && !account.pulse.has_parked()
                && !account.may_go_on(self.epoch)
        };
        let is_at_rest = self.retiring == 0 && self.pinned == 0 && self.open >= self.limit;
        is_at_rest && !self.has_turns_to_come() && self.accounts.values().all(waits)
    }

    /// Lets the first of those that wait to start do so that holds something, whatever the policy
    /// says: by running on it may free that. Whether there is one. No more of them than there are
    /// jobs while one waits for memory: what they hold they may have made anew each time.
    fn let_in_a_holder(&mut self) -> bool {
        let may_free = |account: &Account| account.holds_leftovers() && account.away.is_empty();
        let holds = |job: &JobKey| self.accounts.get(job).is_some_and(may_free);
        let Some(job) = self.waiting.iter().copied().find(holds) else { return false };
        let asks = self.accounts.values().filter(|account| self.still_asks(account));
        let most = asks.filter_map(|account| Some(account.stall?.let_in)).max();
        if most.is_some_and(|most| u64::from(most) >= self.accounts.len() as u64) {
            return false;
        }
        let stalls = self.accounts.values_mut().filter_map(|account| account.stall.as_mut());
        stalls.for_each(|stall| stall.let_in += 1);
        self.waiting.retain(|&waiting| waiting != job);
        self.set_phase(job, Phase::Admitted);
        self.epoch += 1;
        true
    }

    /// Wakes those who wait if nothing can go on and they have yet to be told: one of them is then
    /// to ask again and be refused for good.
    pub(super) fn note_if_stuck(&mut self) {
        if self.told != Some(self.epoch) && self.is_stuck() {
            self.told = Some(self.epoch);
            self.wake = true;
        }
    }

    /// Whether nobody who waits is more to blame than `job`.
    fn is_to_blame(&self, job: JobKey) -> bool {
        let waiting = self.accounts.values().filter(|account| self.still_asks(account));
        self.accounts.get(&job).map(Account::blame) >= waiting.map(Account::blame).max()
    }

    /// Others wait no longer for jobs that have stood still for longer than the pool has patience.
    /// Wakes those who wait if they are to ask again, be it to be told that nothing can go on.
    pub(crate) fn look(&mut self, now: Ticks) {
        self.call_upon(Some(now));
        let patience = self.patience;
        let looked = self.accounts.values_mut().map(|account| account.look(now, patience));
        let looked = looked.fold(false, |any, new| any | new);
        self.now = now;
        if looked || self.turns_at.is_some_and(|at| at <= now) {
            self.notify();
            self.admit();
        } else {
            self.no_longer_holds_off();
            self.note_if_stuck();
        }
    }
}
