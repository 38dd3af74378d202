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
use crate::region::JobKey;
use crate::units::{Bytes, Progress, Regions, Ticks};

/// Waiting jobs are looked at again at most so often in an iteration of another job.
const STRIDES: u32 = 1024;

/// The answer to a job that asks to start an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Asking again is cheap: admission is looked at when something changes that it depends on.
    pub(crate) fn begin(&mut self, job: JobKey, now: Ticks) -> Result<(Begin, bool), BeginError> {
        let mut admitted = false;
        match self.accounts.get(&job).map(|account| &account.phase) {
            None | Some(Phase::Running(_)) => return Err(BeginError::AlreadyRunning),
            Some(Phase::Admitted) => {}
            // The budget may have been lowered since it asked first.
            Some(Phase::Waiting(_)) => {
                if let Err(never) = self.check_fits(job) {
                    self.withdraw(job);
                    return Err(never);
                }
            }
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
        self.tighten();
        self.admit();
        Ok(())
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
        self.admit();
        true
    }

    /// Refuses a job whose iterations are known not to fit. One whose iterations vary may try, alone.
    fn check_fits(&self, job: JobKey) -> Result<(), BeginError> {
        let Some(account) = self.accounts.get(&job).filter(|account| account.settled) else {
            return Ok(());
        };
        let kept: u32 = self.accounts.values().map(Account::persistent).sum();
        let peak = account.profile.as_ref().map_or(0, |profile| profile.claim().value());
        if !self.policy.hands_over() || u64::from(kept) + u64::from(peak) <= u64::from(self.target)
        {
            return Ok(());
        }
        let bytes = |regions: u32| Bytes::new(u64::from(regions) * self.page_bytes);
        Err(BeginError::NeverFits {
            job: account.name.clone(),
            peak: bytes(account.persistent()).saturating_add(bytes(peak)),
            kept_by_others: bytes(kept - account.persistent()),
            budget: bytes(self.target),
        })
    }

    /// Admits every waiting job that may start now, in order. Whether there was one.
    pub(crate) fn admit(&mut self) -> bool {
        let mut any = false;
        loop {
            let waiting = self.waiting.iter().map(|&job| (job, self.verdict(job, None)));
            let delays: Vec<(JobKey, Option<Ticks>)> = waiting.collect();
            let Some(&(first, reserved)) = delays.first() else { break };
            // The first waiter, or one behind it that does not delay it.
            let may_start = |&&(job, delay): &&(JobKey, Option<Ticks>)| {
                delay == Some(Ticks::ZERO) && (job == first || !self.delays(first, reserved, job))
            };
            match delays.iter().find(may_start) {
                Some(&(job, _)) => self.admit_one(job),
                None => {
                    self.watch_for(&delays);
                    return any;
                }
            }
            any = true;
        }
        self.watch_for(&[]);
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

    /// Whether the first waiter, which may start after `reserved`, would have to wait longer if
    /// `job` started now. If it waits for an iteration to end, nothing shows that it would not.
    fn delays(&self, first: JobKey, reserved: Option<Ticks>, job: JobKey) -> bool {
        match (reserved, self.verdict(first, Some(job))) {
            (Some(alone), Some(beside)) => beside > alone,
            _ => true,
        }
    }

    /// How long the policy makes a job wait, with `beside` running as well: zero if it may start,
    /// none if until an iteration ends.
    fn verdict(&self, job: JobKey, beside: Option<JobKey>) -> Option<Ticks> {
        let mut running: Vec<Running<'_>> = Vec::with_capacity(self.accounts.len());
        // The budget, less what stays when nothing runs.
        let mut room = self.target;
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
        let candidate = self.accounts.get(&job).and_then(|account| account.profile.as_ref());
        if running.is_empty() {
            // Nothing to wait for, unless a job has kept something from its last iteration.
            let kept: u32 = self.accounts.values().map(Account::persistent).sum();
            let most = self.target.saturating_sub(kept);
            let fits = candidate.is_none_or(|profile| profile.claim().value().min(most) <= room);
            return (fits || !self.policy.hands_over()).then_some(Ticks::ZERO);
        }
        let view = View { room: Regions::new(room), running: &running, candidate };
        match self.policy.decide(&view) {
            Verdict::Start => Some(Ticks::ZERO),
            Verdict::After(delay) => Some(delay),
            Verdict::AfterAnEnd => None,
        }
    }

    /// Notes how long each waiting job is expected to wait, and asks to be told when the running
    /// iterations have come as far as the next of them hopes for.
    fn watch_for(&mut self, delays: &[(JobKey, Option<Ticks>)]) {
        for &(job, delay) in delays {
            self.set_phase(job, Phase::Waiting(delay));
        }
        let soonest = delays.iter().filter_map(|&(_, delay)| delay).min();
        for account in self.accounts.values() {
            let progress = account.progress();
            let watch =
                account.profile.as_ref().filter(|_| account.is_running()).and_then(|profile| {
                    let hoped = profile.position(progress).saturating_add(soonest?);
                    // Some way ahead at least: looking again at once shows nothing new.
                    let stride = Progress::new(profile.operations().value() / STRIDES + 1);
                    Some(profile.progress_at(hoped).at_least(progress.saturating_add(stride)))
                });
            account.pulse.watch(watch.unwrap_or(Progress::MAX));
        }
    }
}
