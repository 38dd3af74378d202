//! Which iterations start: asks the policy about the waiting jobs, in order.
//!
//! The first waiter has a reservation: jobs behind it may start first only where that does not delay
//! it (EASY backfilling, Lifka 1995). So an iteration that asks to start waits at most for those
//! that run when it becomes first (I5).

use alloc::vec::Vec;

use crate::account::{Account, Phase};
use crate::device::Device;
use crate::error::{BeginError, NotRunning};
use crate::ledger::Ledger;
use crate::policy::{Running, Verdict, View};
use crate::profile::Profile;
use crate::region::JobKey;
use crate::units::{Bytes, Progress, Regions, Ticks};

/// The answer to a job that asks to start an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The iteration has begun.
    Started,
    /// Not yet: ask again when the pool's generation has changed. The delay is what the profiles
    /// promise, in time of the running iterations; none if it depends on when one ends.
    Wait(Option<Ticks>),
}

impl<D: Device> Ledger<D> {
    /// A job asks to start, or asks again. Also says whether other jobs may start since.
    ///
    /// Asking again is cheap: admission is looked at when something changes that it depends on.
    pub(crate) fn begin(&mut self, job: JobKey, now: Ticks) -> Result<(Begin, bool), BeginError> {
        let mut admitted = false;
        match self.accounts.get(&job).map(|account| &account.phase) {
            None | Some(Phase::Running(_)) => return Err(BeginError::AlreadyRunning),
            Some(Phase::Waiting(_) | Phase::Admitted) => {}
            Some(Phase::Idle) => {
                self.check_fits(job)?;
                self.set_phase(job, Phase::Waiting(None));
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
    pub(crate) fn end(&mut self, job: JobKey, now: Ticks) -> Result<(), NotRunning> {
        if !self.accounts.get_mut(&job).is_some_and(|account| account.end(now)) {
            return Err(NotRunning);
        }
        self.epoch += 1;
        self.admit();
        Ok(())
    }

    fn check_fits(&self, job: JobKey) -> Result<(), BeginError> {
        let Some(account) = self.accounts.get(&job) else { return Ok(()) };
        let kept: u32 = self.accounts.values().map(Account::persistent).sum();
        let peak = account.profile.as_ref().map_or(0, |profile| profile.claim().value());
        if !self.policy.hands_over()
            || u64::from(kept) + u64::from(peak) <= u64::from(self.budget())
        {
            return Ok(());
        }
        let bytes = |regions: u32| Bytes::new(u64::from(regions) * self.page_bytes);
        Err(BeginError::NeverFits {
            job: account.name.clone(),
            peak: bytes(account.persistent()).saturating_add(bytes(peak)),
            kept_by_others: bytes(kept - account.persistent()),
            budget: bytes(self.budget()),
        })
    }

    /// Admits every waiting job that may start now, in order. Whether there was one.
    pub(crate) fn admit(&mut self) -> bool {
        let mut any = false;
        // The first waiter, as long as it may start; then those behind it that do not delay it.
        while let Some(&first) = self.waiting.front() {
            if self.verdict(first, None) != Some(Ticks::ZERO) {
                break;
            }
            self.admit_one(first);
            any = true;
        }
        for job in self.waiting.iter().skip(1).copied().collect::<Vec<_>>() {
            if self.verdict(job, None) == Some(Ticks::ZERO) && !self.delays_the_first(job) {
                self.admit_one(job);
                any = true;
            }
        }
        self.set_watches();
        any
    }

    fn admit_one(&mut self, job: JobKey) {
        self.waiting.retain(|&waiting| waiting != job);
        self.set_phase(job, Phase::Admitted);
    }

    fn set_phase(&mut self, job: JobKey, phase: Phase) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.phase = phase;
        }
    }

    /// Whether the first waiter would have to wait longer if `job` started now.
    fn delays_the_first(&self, job: JobKey) -> bool {
        let Some(&first) = self.waiting.front() else { return false };
        match (self.verdict(first, None), self.verdict(first, Some(job))) {
            (Some(alone), Some(beside)) => beside > alone,
            // Until an iteration ends: one that is short does no harm if the profiles show that the
            // first can start no earlier anyway; they cannot show it here.
            _ => true,
        }
    }

    /// How long the policy makes a job wait, with `beside` running as well: zero if it may start,
    /// none if until an iteration ends.
    fn verdict(&self, job: JobKey, beside: Option<JobKey>) -> Option<Ticks> {
        let mut running: Vec<Running<'_>> = Vec::with_capacity(self.accounts.len());
        // The budget, less what stays when nothing runs.
        let mut room = self.budget();
        for (&key, account) in &self.accounts {
            room = room.saturating_sub(account.persistent());
            if account.is_running() || beside == Some(key) {
                let profile = account.profile.as_ref();
                let position = profile.map_or(Ticks::ZERO, |p| p.position(account.progress()));
                running.push(Running { profile, position });
            } else if key != job {
                room = room.saturating_sub(account.ephemeral());
            }
        }
        if running.is_empty() {
            return Some(Ticks::ZERO);
        }
        let candidate = self.accounts.get(&job).and_then(|account| account.profile.as_ref());
        let view = View { room: Regions::new(room), running: &running, candidate };
        match self.policy.decide(&view) {
            Verdict::Start => Some(Ticks::ZERO),
            Verdict::After(delay) => Some(delay),
            Verdict::AfterAnEnd => None,
        }
    }

    /// Notes how long each waiting job is expected to wait, and asks to be told when the running
    /// iterations have come as far as the next of them hopes for.
    fn set_watches(&mut self) {
        let mut soonest: Option<Ticks> = None;
        for job in self.waiting.clone() {
            let delay = self.verdict(job, None);
            self.set_phase(job, Phase::Waiting(delay));
            soonest = soonest.into_iter().chain(delay).min();
        }
        for account in self.accounts.values() {
            let progress = |profile: &Profile| {
                let position = profile.position(account.progress());
                soonest.map(|delay| profile.progress_at(position.saturating_add(delay)))
            };
            let watch =
                account.profile.as_ref().filter(|_| account.is_running()).and_then(progress);
            // At least one operation ahead: looking again at the same moment shows nothing new.
            let next = account.progress().saturating_add(Progress::new(1));
            account.pulse.watch(watch.map_or(Progress::MAX, |watch| watch.at_least(next)));
        }
    }
}
