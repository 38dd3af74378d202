//! Which iterations start: asks the policy about the waiting jobs, in order.
//!
//! Jobs are asked by priority, then as the policy orders them, then as they came; but first whoever
//! has been passed over too often ([`fairness`](super::fairness)). The first waiter has a
//! reservation: jobs behind it may start first only where that does not delay it (EASY backfilling,
//! Lifka 1995), or where what it needs is kept by a job that does not run.

use alloc::vec::Vec;

use super::Ledger;
use super::account::Account;
use super::fairness::{Bypasses, Reservation};
use super::queue::{Obstacle, Queue};
use super::run::{Phase, Stall};
use crate::types::JobKey;
use crate::types::tuning::LOOKS_PER_ITERATION;
use crate::types::units::{Progress, Regions, Ticks};

/// What a job keeps when no iteration of it runs.
pub(super) fn rest(account: &Account) -> u32 {
    if account.is_running() { account.kept_for_good() } else { account.kept() }
}

impl Ledger {
    /// Admits every waiting job that may start now, in order.
    pub(crate) fn admit(&mut self) {
        let mut queue = core::mem::take(&mut self.queue);
        queue.waiters.clear();
        if !self.waiting.is_empty() {
            queue.fill(self);
        }
        let budget = Regions::new(self.target);
        let mut anew = true;
        self.holds_off = false;
        self.looks_again = false;
        loop {
            let makes_way = self.makes_way();
            self.looks_again |= makes_way;
            let is_kept = self.accounts.values().any(Account::is_about_to_begin);
            if makes_way || is_kept || queue.waiters.is_empty() {
                break;
            }
            let Some(place) = queue.choose(&mut *self.policy, budget, anew) else { break };
            let job = queue.key(place);
            if let Some(obstacle) = self.obstacle(job) {
                self.looks_again |= obstacle.is_short();
                queue.hold(place, obstacle);
                anew = false;
                continue;
            }
            anew = true;
            queue.start(place, self.now);
            self.waiting.retain(|&waiting| waiting != job);
            if self.let_in(job) {
                queue.has_come_back(self, job);
            }
            self.bypass_stalled();
            self.wake = true;
        }
        self.watch_for(&queue);
        self.queue = queue;
        self.call_turns();
    }

    /// A job waits to start or to come back from now on, unless it may at once.
    pub(super) fn get_in_line(&mut self, job: JobKey) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.phase = Phase::Waiting(None);
            (account.bypassed, account.reservation) = (Bypasses::default(), Reservation::default());
            account.has_moved();
        }
        self.waiting.push_back(job);
        self.told = None;
        self.admit();
    }

    /// Why an iteration may not start now, whatever the policy says: what it may need does not fit
    /// beside what the others keep just now, or those that run could not all finish.
    ///
    /// Nobody knows when a job between iterations frees what it keeps, so waiting for that reserves
    /// nothing: jobs that need less, and those that keep it, go first. Where all that is in the way
    /// is kept by jobs that wait to start themselves, one of them starts, and frees it or finds
    /// that there is no memory.
    fn obstacle(&mut self, job: JobKey) -> Option<Obstacle> {
        // Alone, it needs at most what there is.
        if self.accounts.len() == 1 {
            return None;
        }
        let own = self.accounts.get(&job)?;
        if self.goes_on_alone(job) {
            return Some(Obstacle::Running);
        }
        if own.away.is_absent() {
            return self.obstacle_to_return(job);
        }
        let others = || self.others(job);
        if own.is_called() {
            return Some(Obstacle::Leftovers);
        }
        let need = self.room_to_start(job, own);
        if need > own.holds() && self.is_return_awaited(job) {
            return Some(Obstacle::Awaited);
        }
        let fits = |kept: u32| need.saturating_add(kept) <= self.target;
        let kept = others().map(Account::kept).fold(0, u32::saturating_add);
        let runs = others().any(Account::is_running);
        if fits(kept) {
            let all = need.saturating_add(kept);
            return if runs { self.obstacle_beside_others(job, all) } else { None };
        }
        if runs {
            let is_kept_at_rest = !fits(others().map(rest).fold(0, u32::saturating_add));
            return Some(if is_kept_at_rest { Obstacle::Leftovers } else { Obstacle::Running });
        }
        if self.gets_a_turn(job, need) {
            return Some(Obstacle::Leftovers);
        }
        let may_free = others().any(|other| other.may_go_on(self.epoch));
        let waits = |key: &JobKey| {
            *key != job && self.accounts.get(key).is_some_and(Account::holds_leftovers)
        };
        let is_kept_by_waiting = !own.holds_leftovers() && self.waiting.iter().any(waits);
        (may_free || is_kept_by_waiting).then_some(Obstacle::Leftovers)
    }

    /// The same beside iterations that run, where there is room for what it needs and the others
    /// keep: so much.
    fn obstacle_beside_others(&mut self, job: JobKey, all: u32) -> Option<Obstacle> {
        if self.accounts.get(&job)?.lags() && self.is_contended() {
            return Some(Obstacle::Lagging);
        }
        if self.waits_for_one_behind(job, all) {
            self.holds_off = true;
            return Some(Obstacle::Behind);
        }
        if self.takes_what_is_awaited(job) {
            return Some(Obstacle::Awaited);
        }
        self.endangers(job)
    }

    /// Whether the jobs would not all fit at their peaks.
    fn is_contended(&self) -> bool {
        let peaks = self.accounts.values().filter(|account| !account.gone).map(Account::comes_to);
        peaks.fold(0, u32::saturating_add) > self.target
    }

    /// Whether a job waits that needs so much with what the others keep, though its iteration might
    /// start: one that runs has had much less time, begins the next one at once, and could not
    /// beside this one. Nobody waits so for one that waits for memory, takes much longer than usual,
    /// or is to give way; nor does one that has been passed over too often.
    fn waits_for_one_behind(&self, job: JobKey, all: u32) -> bool {
        let Some(own) = self.accounts.get(&job) else { return false };
        let is_behind = |other: &Account| {
            let beside = all.saturating_sub(other.kept());
            let fits = beside.saturating_add(other.comes_to()) <= self.target;
            let is_first = own.terms.priority <= other.terms.priority;
            is_first && other.goes_on_before(own.time.lately(), self.now) && !fits
        };
        !own.bypassed.is_overdue() && self.accounts.values().any(is_behind)
    }

    /// The room in which a job's iteration runs, what it keeps included, in regions.
    pub(super) fn room_to_start(&self, job: JobKey, own: &Account) -> u32 {
        let others = self.accounts.iter().filter(|&(&key, _)| key != job);
        let need = own.predictor.profile().map_or(0, |profile| profile.claim().value());
        let need = need.saturating_add(own.grows_in_each());
        let need = own.all_persistent().saturating_add(need);
        let need = need.min(own.largest().unwrap_or(u32::MAX));
        let for_good = others.map(|(_, other)| other.kept_from_others());
        // One that takes more than there ever is tries alone: its iterations vary.
        need.min(self.target.saturating_sub(for_good.fold(0, u32::saturating_add)))
    }

    /// A job that others are held off for waits for memory, or has been looked at: they may start
    /// now.
    pub(super) fn no_longer_holds_off(&mut self) {
        if self.holds_off {
            self.admit();
        }
    }

    /// A job that waited may start its iteration, or come back from the host. True if it comes
    /// back.
    fn let_in(&mut self, job: JobKey) -> bool {
        let Some(account) = self.accounts.get_mut(&job) else { return false };
        let returns = account.away.is_absent();
        if returns {
            account.comes_back();
        }
        account.phase = if returns { Phase::Idle } else { Phase::Admitted };
        account.has_moved();
        returns
    }

    /// Whether some iteration that runs could no longer finish, or this one not, if it started.
    fn endangers(&mut self, job: JobKey) -> Option<Obstacle> {
        let account = self.accounts.get_mut(&job)?;
        let phase = core::mem::replace(&mut account.phase, Phase::Admitted);
        let is_safe = self.is_safe_with(None, 0);
        let after = if is_safe { Vec::new() } else { self.finishing(None) };
        self.set_phase(job, phase);
        if is_safe {
            return None;
        }
        let before = self.finishing(None);
        let all = after.contains(&job) && before.iter().all(|one| after.contains(one));
        (!all).then_some(Obstacle::Unsafe)
    }

    /// Whether nothing is to start for now: a job that waits for memory is overdue, in an iteration or
    /// not, and what it waits for may still come back, or has come back and it has yet to ask again.
    /// If it has asked and nothing more comes back, or does not ask for longer than others have
    /// patience, nobody waits for that: it counts anew, from when it asks again. One that rests has
    /// not asked.
    fn makes_way(&mut self) -> bool {
        let is_overdue = |account: &Account| {
            account.stall.is_some_and(Stall::is_overdue) && account.rest().is_none()
        };
        if !self.accounts.values().any(is_overdue) {
            return false;
        }
        let returns = |account: &Account| account.is_running() || account.draining > 0;
        let returning = self.accounts.values().filter(|account| returns(account)).count();
        let mut makes_way = false;
        let epoch = self.epoch;
        for account in self.accounts.values_mut().filter(|account| is_overdue(account)) {
            let others = returning - usize::from(returns(account));
            if others > 0 || !account.is_denied_at(epoch) && !account.is_still() {
                makes_way = true;
            } else {
                let given_up = account.is_still();
                if let Some(stall) = &mut account.stall {
                    (stall.bypassed, stall.given_up) = (Bypasses::default(), given_up);
                }
            }
        }
        makes_way
    }

    /// An iteration has begun: before those that wait for memory.
    fn bypass_stalled(&mut self) {
        for stall in self.accounts.values_mut().filter_map(|account| account.stall.as_mut()) {
            stall.bypassed.add();
        }
    }

    pub(super) fn set_phase(&mut self, job: JobKey, phase: Phase) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.phase = phase;
            account.has_moved();
        }
    }

    /// Notes how long each waiting job is expected to wait, and asks to be told when the running
    /// iterations have come as far as the next of them hopes for: some time, or the end of a peak.
    fn watch_for(&mut self, queue: &Queue) {
        for waiter in &queue.waiters {
            if let Some(account) = self.accounts.get_mut(&queue.keys[waiter.job]) {
                account.phase = Phase::Waiting(waiter.verdict.promise());
                (account.bypassed, account.reservation) = (waiter.bypassed, waiter.reservation);
            }
        }
        let soonest = queue.waiters.iter().filter_map(|waiter| waiter.verdict.ask_after()).min();
        let waits_for_less = queue.waits_for_less();
        for account in self.accounts.values() {
            let watch = watch(account, soonest, waits_for_less);
            account.pulse.watch(watch.unwrap_or(Progress::MAX));
        }
    }
}

/// How far a job's iteration is to have come when the waiting jobs are looked at again: so much
/// time from now, if somebody hopes for that, or when its claim falls, if somebody waits for less.
fn watch(account: &Account, soonest: Option<Ticks>, waits_for_less: bool) -> Option<Progress> {
    let profile = account.predictor.profile().filter(|_| account.is_running())?;
    let progress = account.progress();
    let hoped = |time| profile.progress_at(profile.position(progress).saturating_add(time));
    let falls = waits_for_less && account.predictor.is_settled();
    let falls = if falls { profile.falls_after(progress) } else { None };
    let watch = soonest.map(hoped).into_iter().chain(falls).min()?;
    // Some way ahead at least: looking again at once shows nothing new.
    let stride = Progress::new(profile.operations().value() / LOOKS_PER_ITERATION + 1);
    Some(watch.at_least(progress.saturating_add(stride)))
}
