//! Which iterations start: asks the policy about the waiting jobs, in order.
//!
//! Jobs are asked by priority, then as the policy orders them, then as they came. The first waiter
//! has a reservation: jobs behind it may start first only where that does not delay it (EASY
//! backfilling, Lifka 1995), or where what it needs is kept by a job that does not run. And no waiter is put behind later ones more than 16 times: then it goes
//! before all that have not been, in the order of asking.
//!
//! Nor is a running iteration that waits for memory passed over for ever, by jobs that come back for
//! what they have just given up: once 16 iterations have begun meanwhile, none begins until it goes on.
//!
//! So of n jobs an iteration that asks to start is the first in line after at most 16 iterations that
//! were asked for later, and one of each job that asked before it or was passed over as often. Then
//! it waits for those that run, and for nothing that starts later (I5).

use alloc::vec::Vec;

use crate::account::Account;
use crate::desk::{Desk, Obstacle, PASSES};
use crate::device::Device;
use crate::error::{BeginError, NotRunning};
use crate::ledger::Ledger;
use crate::outlook::{Before, Outlook};
use crate::planned::Peak;
use crate::region::JobKey;
use crate::run::Phase;
use crate::signature::{Mark, Signature};
use crate::units::{Bytes, Progress, Regions, Ticks};

/// Waiting jobs are looked at again at most so often in an iteration of another job.
const STRIDES: u32 = 1024;

/// The answer to a job that asks to start an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an iteration that has to wait has not begun"]
pub enum Begin {
    /// The iteration has begun.
    Started,
    /// Not yet: ask again when the pool's generation has changed. The delay is what the profiles
    /// promise, in time of the running iterations; none if it depends on when one ends, or on when a
    /// job that is between iterations frees what it holds: [`Pool::waits`](crate::Pool::waits) says which.
    Wait(Option<Ticks>),
}

impl<D: Device> Ledger<D> {
    /// A job asks to start, or asks again. Also says whether other jobs may start since.
    ///
    /// Asking again is cheap: admission is looked at when something changes that it depends on. The
    /// job may tell which shape the iteration has.
    pub(crate) fn begin(
        &mut self,
        job: JobKey,
        told: Option<u64>,
        now: Ticks,
    ) -> Result<(Begin, bool), BeginError> {
        if self.accounts.get(&job).is_none_or(|account| account.gone) {
            return Err(BeginError::Left);
        }
        let mut admitted = false;
        let other = self.accounts.get_mut(&job).is_some_and(|account| {
            !matches!(account.phase, Phase::Running(_)) && account.outlook.expect(told)
        });
        match self.accounts.get(&job).map(|account| &account.phase) {
            None | Some(Phase::Running(_)) => return Err(BeginError::AlreadyRunning),
            Some(Phase::Admitted) => {}
            // The budget may have been lowered since it asked first.
            Some(Phase::Waiting(_)) => {
                if let Err(never) = self.check_fits(job) {
                    self.withdraw(job);
                    return Err(never);
                }
                admitted = other && self.admit();
            }
            Some(Phase::Idle) => {
                self.check_fits(job)?;
                self.set_phase(job, Phase::Waiting(None));
                if let Some(account) = self.accounts.get_mut(&job) {
                    account.passed_over = 0;
                }
                self.waiting.push_back(job);
                self.told = None;
                admitted = self.admit();
            }
        }
        let Some(account) = self.accounts.get_mut(&job) else {
            return Err(BeginError::AlreadyRunning);
        };
        if let Phase::Waiting(delay) = account.phase {
            return Ok((Begin::Wait(delay), admitted));
        }
        let carried = account.outlook.carried();
        account.begin(now);
        // One that waits may never fit beside what this one always begins with.
        let keeps_more = account.outlook.carried() > carried && !self.waiting.is_empty();
        Ok((Begin::Started, admitted || keeps_more))
    }

    /// A job's iteration ends, and others may start.
    pub(crate) fn end(
        &mut self,
        job: JobKey,
        now: Ticks,
        signature: Signature,
    ) -> Result<(), NotRunning> {
        if !self.accounts.get_mut(&job).is_some_and(|account| account.end(now, signature)) {
            return Err(NotRunning);
        }
        self.epoch += 1;
        self.tighten();
        self.admit();
        Ok(())
    }

    /// Iterations of a job are to be placed as planned, which takes at most so much. Refused while one runs,
    /// and if that is more than they have held without the plan.
    pub(crate) fn replan(&mut self, job: JobKey, peak: &Peak) -> bool {
        let account = self.accounts.get_mut(&job).filter(|account| !account.is_running());
        account.is_some_and(|account| account.outlook.replan(peak))
    }

    /// A running iteration has made its allocations up to a mark. Whether something else is expected of
    /// it since, and what others were refused because of it they may get. What raises its claim counts
    /// only if all running iterations can still finish in some order; else it stays what was promised.
    pub(crate) fn recognise(&mut self, job: JobKey, mark: Mark) -> bool {
        self.expect_else(job, |outlook| outlook.recognise(mark))
    }

    /// Nobody knows any more where a running iteration ends. The same holds for its claim.
    pub(crate) fn lose(&mut self, job: JobKey) -> bool {
        self.expect_else(job, Outlook::lose)
    }

    fn expect_else(
        &mut self,
        job: JobKey,
        change: impl FnOnce(&mut Outlook) -> Option<Before>,
    ) -> bool {
        let account = self.accounts.get_mut(&job).filter(|account| account.is_running());
        let Some(account) = account else { return false };
        let progress = account.progress();
        let Some(before) = change(&mut account.outlook) else { return false };
        let rises = match (before.promised(progress), account.outlook.promised(progress)) {
            (Some(before), Some(now)) => now > before,
            (before, _) => before.is_some(),
        };
        if rises && !self.is_safe_with(None, 0) {
            if let Some(account) = self.accounts.get_mut(&job) {
                account.outlook.keep(before);
            }
            return false;
        }
        self.epoch += 1;
        self.admit();
        true
    }

    /// A job that waits, or may start and has not been told, no longer wants to. Whether others may
    /// start since.
    pub(crate) fn withdraw(&mut self, job: JobKey) -> bool {
        let waits =
            |account: &Account<D>| matches!(account.phase, Phase::Waiting(_) | Phase::Admitted);
        if !self.accounts.get(&job).is_some_and(waits) {
            return false;
        }
        self.waiting.retain(|&waiting| waiting != job);
        self.set_phase(job, Phase::Idle);
        self.epoch += 1;
        self.tighten();
        self.admit();
        true
    }

    /// Refuses a job whose iterations are known not to fit. One whose iterations vary may try, alone.
    fn check_fits(&self, job: JobKey) -> Result<(), BeginError> {
        let Some(account) = self.accounts.get(&job) else { return Ok(()) };
        let varies = account.iterations > 0 && !account.outlook.is_settled();
        let bytes = |regions: u32| Bytes::new(u64::from(regions) * self.page_bytes);
        let claim = account.outlook.profile().map_or(0, |profile| profile.claim().value());
        // The profile has the most of the last two; and of what has come to persist lately it may have some
        // among the iteration's own still.
        let surely = account.surely().unwrap_or(u32::MAX);
        let peak = account.persistent().saturating_add(claim).min(surely);
        let name = || account.name.clone();
        let peak_bytes = match account.iterations {
            0 => bytes(account.persistent()).saturating_add(account.terms.declared_bytes),
            _ => bytes(peak),
        };
        if peak > account.cap() && peak <= self.target && !varies {
            return Err(BeginError::BeyondCap {
                job: name(),
                peak: peak_bytes,
                cap: bytes(account.cap()),
            });
        }
        let all = self.accounts.values().map(Account::kept_for_good).fold(0, u32::saturating_add);
        let others = all.saturating_sub(account.kept_for_good());
        let fits = peak.saturating_add(others) <= self.target;
        if fits || varies {
            return Ok(());
        }
        Err(BeginError::NeverFits {
            job: name(),
            peak: peak_bytes,
            kept_by_others: bytes(others),
            budget: bytes(self.target),
        })
    }

    /// Admits every waiting job that may start now, in order. Whether there was one.
    pub(crate) fn admit(&mut self) -> bool {
        let mut desk = core::mem::take(&mut self.desk);
        let mut any = false;
        desk.queue.clear();
        if !self.waiting.is_empty() {
            desk.lay_out(self);
        }
        let budget = Regions::new(self.target);
        let mut anew = true;
        loop {
            self.making_way = self.makes_way();
            if self.making_way || desk.queue.is_empty() {
                break;
            }
            let Some(place) = desk.choose(&mut *self.policy, budget, anew) else { break };
            let job = desk.key(place);
            let obstacle = self.obstacle(job);
            if let Some(obstacle) = obstacle {
                desk.hold(place, obstacle);
                anew = false;
                continue;
            }
            anew = true;
            desk.start(place);
            self.waiting.retain(|&waiting| waiting != job);
            self.set_phase(job, Phase::Admitted);
            self.pass_over_stalled();
            any = true;
        }
        self.watch_for(&desk);
        self.desk = desk;
        any
    }

    /// Why an iteration may not start now, whatever the policy says: what it may need does not fit beside
    /// what the others keep just now, or those that run could not all finish.
    ///
    /// What a job keeps that does not run cannot be waited for in turn: those that need less, and those
    /// that keep it, go first. Where all that is in the way is kept by jobs that wait to start themselves,
    /// one of them starts, and frees it or finds that there is no memory.
    fn obstacle(&mut self, job: JobKey) -> Option<Obstacle> {
        // Alone, it needs at most what there is.
        if self.accounts.len() == 1 {
            return None;
        }
        let own = self.accounts.get(&job)?;
        let others =
            || self.accounts.iter().filter(|&(&key, _)| key != job).map(|(_, other)| other);
        let need = own.outlook.profile().map_or(0, |profile| profile.claim().value());
        let need = own.persistent().saturating_add(need).min(own.largest().unwrap_or(u32::MAX));
        let for_good = others().map(Account::kept_for_good).fold(0, u32::saturating_add);
        // One that takes more than there ever is tries alone: its iterations vary.
        let need = need.min(self.target.saturating_sub(for_good));
        let fits = |kept: u32| need.saturating_add(kept) <= self.target;
        let kept = others().map(Account::kept).fold(0, u32::saturating_add);
        let runs = others().any(Account::is_running);
        if fits(kept) {
            return if runs { self.endangers(job) } else { None };
        }
        let at_rest = |other: &Account<D>| {
            if other.is_running() { other.kept_for_good() } else { other.kept() }
        };
        if runs {
            let is_kept_at_rest = !fits(others().map(at_rest).fold(0, u32::saturating_add));
            return Some(if is_kept_at_rest { Obstacle::Leftovers } else { Obstacle::Running });
        }
        let may_free = others().any(|other| other.may_go_on(self.epoch));
        let waits = |key: &JobKey| {
            *key != job && self.accounts.get(key).is_some_and(Account::holds_leftovers)
        };
        let is_kept_by_waiting = !own.holds_leftovers() && self.waiting.iter().any(waits);
        (may_free || is_kept_by_waiting).then_some(Obstacle::Leftovers)
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
        (!all).then_some(Obstacle::Running)
    }

    /// Whether nothing is to start for now: a running iteration has waited for memory while as many
    /// others began as a job may be passed over by, and what it waits for may still come back. If it
    /// could have it and does not ask, nobody waits for that.
    fn makes_way(&mut self) -> bool {
        let starves = |account: &Account<D>| {
            account.stall.as_ref().is_some_and(|stall| stall.passed_over >= PASSES)
        };
        if !self.accounts.values().any(starves) {
            return false;
        }
        let returns = |account: &Account<D>| account.is_running() || account.draining > 0;
        let returning = self.accounts.values().filter(|account| returns(account)).count();
        let mut makes_way = false;
        for account in self.accounts.values_mut() {
            let others = returning - usize::from(returns(account));
            let Some(stall) = account.stall.as_mut().filter(|stall| stall.passed_over >= PASSES)
            else {
                continue;
            };
            if others > 0 {
                makes_way = true;
            } else {
                // It could have had it.
                stall.passed_over = 0;
            }
        }
        makes_way
    }

    /// An iteration has begun: notes it for those that wait for memory.
    fn pass_over_stalled(&mut self) {
        for stall in self.accounts.values_mut().filter_map(|account| account.stall.as_mut()) {
            stall.passed_over = stall.passed_over.saturating_add(1);
        }
    }

    pub(crate) fn set_phase(&mut self, job: JobKey, phase: Phase) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.phase = phase;
            account.has_moved();
        }
    }

    /// Notes how long each waiting job is expected to wait, and asks to be told when the running
    /// iterations have come as far as the next of them hopes for.
    fn watch_for(&mut self, desk: &Desk) {
        for waiter in &desk.queue {
            if let Some(account) = self.accounts.get_mut(&desk.keys[waiter.job]) {
                account.phase = Phase::Waiting(waiter.verdict.promise());
                account.passed_over = waiter.passed;
            }
        }
        let soonest = desk.queue.iter().filter_map(|waiter| waiter.verdict.ask_after()).min();
        for account in self.accounts.values() {
            let watch = soonest.filter(|_| account.is_running()).and_then(|soonest| {
                let (profile, progress) = (account.outlook.profile()?, account.progress());
                let hoped = profile.position(progress).saturating_add(soonest);
                // Some way ahead at least: looking again at once shows nothing new.
                let stride = Progress::new(profile.operations().value() / STRIDES + 1);
                Some(profile.progress_at(hoped).at_least(progress.saturating_add(stride)))
            });
            account.pulse.watch(watch.unwrap_or(Progress::MAX));
        }
    }
}
