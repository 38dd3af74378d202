//! Which iterations start: asks the policy about the waiting jobs, in order.
//!
//! Jobs are asked by priority, then as the policy orders them, then as they came. The first waiter
//! has a reservation: jobs behind it may start first only where that does not delay it (EASY
//! backfilling, Lifka 1995). And no waiter is put behind later ones more than 16 times: then it goes
//! before all that have not been, in the order of asking.
//!
//! Nor is a running iteration that waits for memory passed over for ever, by jobs that come back for
//! what they have just given up: once 16 iterations have begun meanwhile, none begins until it goes on.
//!
//! So of n jobs an iteration that asks to start is the first in line after at most 16 iterations that
//! were asked for later, and one of each job that asked before it or was passed over as often. Then
//! it waits for those that run, and for nothing that starts later (I5).

use crate::account::Account;
use crate::desk::{Desk, PASSES};
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
    /// job between iterations frees what it has kept from its last one.
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
                admitted = self.admit();
            }
        }
        let Some(account) = self.accounts.get_mut(&job) else {
            return Err(BeginError::AlreadyRunning);
        };
        if let Phase::Waiting(delay) = account.phase {
            return Ok((Begin::Wait(delay), admitted));
        }
        account.begin(now);
        Ok((Begin::Started, admitted))
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
        if self.owed {
            self.share_out();
        }
        self.tighten();
        self.admit();
        Ok(())
    }

    /// The job's iterations are to be placed as planned, which takes at most so much. Refused while one
    /// runs.
    pub(crate) fn replan(&mut self, job: JobKey, peaks: &[Peak]) -> bool {
        let account = self.accounts.get_mut(&job).filter(|account| !account.is_running());
        account.map(|account| account.outlook.replan(peaks)).is_some()
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
        if rises && !self.is_safe_with(None, 0, 0) {
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
        let (name, peak) = (|| account.name.clone(), account.persistent().saturating_add(claim));
        if peak > account.cap && peak <= self.target && !varies {
            return Err(BeginError::BeyondCap {
                job: name(),
                peak: bytes(peak),
                cap: bytes(account.cap),
            });
        }
        let others = self.kept().saturating_sub(account.kept());
        let fits = peak.saturating_add(others) <= self.target;
        if fits || varies || !self.policy.hands_over() {
            return Ok(());
        }
        Err(BeginError::NeverFits {
            job: name(),
            peak: bytes(peak),
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
        loop {
            self.making_way = self.makes_way();
            let place = if self.making_way { None } else { desk.choose(&mut *self.policy, budget) };
            let Some(place) = place else { break };
            let job = desk.start(place);
            self.waiting.retain(|&waiting| waiting != job);
            self.set_phase(job, Phase::Admitted);
            self.pass_over_stalled();
            any = true;
        }
        self.watch_for(&desk);
        self.desk = desk;
        any
    }

    /// Whether nothing is to start for now: a running iteration has waited for memory while as many
    /// others began as a job may be passed over by, and what it waits for may still come back. If it
    /// could have it and does not ask, nobody waits for that.
    fn makes_way(&self) -> bool {
        let starved = |account: &Account<D>| match &account.phase {
            Phase::Running(run) => run.stalled_since.is_some() && run.passed_over >= PASSES,
            _ => false,
        };
        let returns = |account: &Account<D>| account.is_running() || account.draining > 0;
        self.accounts.iter().filter(|(_, account)| starved(account)).any(|(job, _)| {
            self.accounts.iter().any(|(other, account)| other != job && returns(account))
        })
    }

    /// An iteration has begun: notes it for those that wait for memory.
    fn pass_over_stalled(&mut self) {
        for run in self.accounts.values_mut().filter_map(Account::run) {
            if run.stalled_since.is_some() {
                run.passed_over = run.passed_over.saturating_add(1);
            }
        }
    }

    fn set_phase(&mut self, job: JobKey, phase: Phase) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.phase = phase;
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
            let progress = account.progress();
            let watch =
                account.outlook.profile().filter(|_| account.is_running()).and_then(|profile| {
                    let hoped = profile.position(progress).saturating_add(soonest?);
                    // Some way ahead at least: looking again at once shows nothing new.
                    let stride = Progress::new(profile.operations().value() / STRIDES + 1);
                    Some(profile.progress_at(hoped).at_least(progress.saturating_add(stride)))
                });
            account.pulse.watch(watch.unwrap_or(Progress::MAX));
        }
    }
}
