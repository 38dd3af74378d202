//! A job's iterations in the books: it asks to begin one, is recognised, ends.

use super::Ledger;
use super::account::Account;
use super::fairness::goes_on;
use super::run::Phase;
use crate::learn::predictor::{Peak, Predictor, Rollback};
use crate::learn::signature::{Mark, Signature};
use crate::types::JobKey;
use crate::types::error::{BeginError, NotRunning};
use crate::types::report::Begin;
use crate::types::tuning::LATELY;
use crate::types::units::Ticks;

impl Ledger {
    /// A job asks to start, or asks again.
    ///
    /// Asking again is cheap: admission is looked at when something changes that it depends on. The
    /// job may tell which shape the iteration has.
    pub(crate) fn begin(
        &mut self,
        job: JobKey,
        told: Option<u64>,
        now: Ticks,
    ) -> Result<Begin, BeginError> {
        self.now = now;
        match self.accounts.get(&job).filter(|account| !account.gone) {
            None => return Err(BeginError::Left),
            Some(account) if account.is_interrupted() => return Err(BeginError::AlreadyRunning),
            Some(account) if !account.away.is_empty() => return Err(BeginError::Suspended),
            Some(_) => {}
        }
        let other = self.accounts.get_mut(&job).is_some_and(|account| {
            !matches!(account.phase, Phase::Running(_)) && account.predictor.expect(told)
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
                if other {
                    self.admit();
                }
            }
            Some(Phase::Idle) => {
                if let Err(never) = self.check_fits(job) {
                    self.no_longer_goes_on(job);
                    return Err(never);
                }
                if let Some(rest) = self.has_to_rest(job, now) {
                    self.no_longer_goes_on(job);
                    return Ok(Begin::Wait(Some(rest).filter(|&rest| rest < Ticks::MAX)));
                }
                self.get_in_line(job);
            }
        }
        let Some(account) = self.accounts.get_mut(&job) else {
            return Err(BeginError::AlreadyRunning);
        };
        if let Phase::Waiting(delay) = account.phase {
            // A job that waits cannot free what others wait for: one of them may have to be told.
            self.note_if_stuck();
            self.call_upon(None);
            return Ok(Begin::Wait(delay));
        }
        let carried = account.predictor.carried();
        account.begin(now);
        // One that waits may never fit beside what this one always begins with.
        self.wake |= account.predictor.carried() > carried && !self.waiting.is_empty();
        Ok(Begin::Started)
    }

    /// A job's iteration ends, and others may start: but not before the next one of this job, if it
    /// ends because that is about to begin, and the others have had more time.
    pub(crate) fn end(
        &mut self,
        job: JobKey,
        now: Ticks,
        signature: Signature,
        is_followed: bool,
    ) -> Result<(), NotRunning> {
        self.cut_short(job, now);
        if !self.accounts.get_mut(&job).is_some_and(|account| account.end(now, signature)) {
            return Err(NotRunning);
        }
        self.now = now;
        self.forget_time(job);
        let goes_on = is_followed && self.goes_on_first(job);
        if let Some(account) = self.accounts.get_mut(&job) {
            (account.goes_on, account.follows) = (goes_on, is_followed);
        }
        self.notify();
        self.tighten();
        self.admit();
        Ok(())
    }

    /// An iteration of a job has ended, and what was long ago counts less from now on. What others
    /// had before its first one ended does not count at all: the job was not ready for more.
    /// O(jobs).
    fn forget_time(&mut self, job: JobKey) {
        let is_first = self.accounts.get(&job).is_some_and(|account| account.iterations == 1);
        let length = |account: &Account| account.predictor.profile().map(|known| known.length());
        let longest = self.accounts.values().filter_map(length).max().unwrap_or_default();
        let most =
            self.accounts.values().map(|account| account.time.lately()).max().unwrap_or_default();
        let is_long = most.value() / LATELY > longest.value();
        for account in self.accounts.values_mut().filter(|_| is_first || is_long) {
            account.time.fade(is_first);
        }
    }

    /// Whether all that wait have had more time of late than a job, by an iteration of it, and none
    /// has been passed over too often or has a higher priority.
    fn goes_on_first(&self, job: JobKey) -> bool {
        let Some(own) = self.accounts.get(&job) else { return false };
        let length = own.predictor.profile().map_or(Ticks::MAX, |profile| profile.length());
        let mut waiting = self.waiting.iter().filter_map(|key| self.accounts.get(key)).peekable();
        waiting.peek().is_some()
            && !own.is_called()
            && waiting.all(|other| {
                let is_first = other.bypassed.is_overdue()
                    || other.away.is_absent()
                    || other.terms.priority > own.terms.priority;
                !is_first && goes_on(own.time.lately(), length, other.time.lately())
            })
    }

    /// A job does not begin the next iteration after all.
    fn no_longer_goes_on(&mut self, job: JobKey) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        account.follows = false;
        if core::mem::take(&mut account.goes_on) {
            self.admit();
        }
    }

    /// Iterations of a job are to be placed as planned, which takes at most so much. Refused while
    /// one runs, and if that is more than they have held without the plan.
    pub(crate) fn replan(&mut self, job: JobKey, peak: &Peak) -> bool {
        let account = self.accounts.get_mut(&job).filter(|account| !account.is_running());
        account.is_some_and(|account| account.predictor.replan(peak))
    }

    /// A running iteration has made its allocations up to a mark. What is expected of it may be
    /// something else since; then what others were refused because of it they may get. What raises
    /// its claim, or makes it known, counts only if all running iterations can still finish in some
    /// order; else it stays what was promised.
    pub(crate) fn recognise(&mut self, job: JobKey, mark: Mark) {
        let held = self.accounts.get_mut(&job).and_then(Account::run).map_or(0, |run| run.held);
        self.expect_else(job, |predictor| predictor.recognise(mark, held));
    }

    /// Nobody knows any more where a running iteration ends. The same holds for its claim.
    pub(crate) fn lose(&mut self, job: JobKey) {
        self.expect_else(job, Predictor::lose);
    }

    fn expect_else(
        &mut self,
        job: JobKey,
        change: impl FnOnce(&mut Predictor) -> Option<Rollback>,
    ) {
        let account = self.accounts.get_mut(&job).filter(|account| account.is_running());
        let Some(account) = account else { return };
        let progress = account.progress();
        let Some(before) = change(&mut account.predictor) else { return };
        let is_more = match (before.promised(progress), account.predictor.promised(progress)) {
            (Some(before), Some(now)) => now > before,
            // To be known is to be sure to finish beside those of which nothing is known.
            (None, now) => now.is_some(),
            (Some(_), None) => true,
        };
        if is_more && !self.is_safe_with(None, 0) {
            if let Some(account) = self.accounts.get_mut(&job) {
                account.predictor.keep(before);
            }
            return;
        }
        self.notify();
        self.admit();
    }

    /// A job that waits, or may start or come back from the host and has not done so, no longer
    /// wants to.
    pub(crate) fn withdraw(&mut self, job: JobKey) {
        self.no_longer_rests(job);
        let waits = |account: &Account| {
            matches!(account.phase, Phase::Waiting(_) | Phase::Admitted)
                || account.away.is_coming_back()
        };
        if !self.accounts.get(&job).is_some_and(waits) {
            return;
        }
        self.waiting.retain(|&waiting| waiting != job);
        self.accounts.get_mut(&job).into_iter().for_each(|account| {
            account.away.give_up_return();
            (account.goes_on, account.follows) = (false, false);
        });
        self.set_phase(job, Phase::Idle);
        self.notify();
        self.tighten();
        self.admit();
    }

    /// Refuses a job whose iterations are known not to fit. One whose iterations vary may try,
    /// alone.
    fn check_fits(&self, job: JobKey) -> Result<(), BeginError> {
        let Some(account) = self.accounts.get(&job) else { return Ok(()) };
        let varies = account.iterations > 0 && !account.predictor.is_settled();
        let bytes = |regions: u32| self.bytes(regions.into());
        let claim = account.predictor.profile().map_or(0, |profile| profile.claim().value());
        // The profile has the most of the last two; and of what has come to persist lately it may
        // have some among the iteration's own still.
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
        let others = self.others(job).map(Account::kept_from_others).fold(0, u32::saturating_add);
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
}
