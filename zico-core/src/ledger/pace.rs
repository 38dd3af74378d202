//! Pacing: a job's progress may be held to a rate, by iterations that start later and leases that
//! are granted later.
//!
//! A job with a [`Pace`] has a [`Bucket`] of tokens, one for each operation. An allocation in the
//! arena's room is no business of the books, and neither asks for a token nor waits for one. Who
//! asks to start or for a lease does: if there is none, the job *rests*. Each time what it has done
//! since is paid. So over a long time the rate is kept to, and a job is never further ahead than by
//! what it does between two leases, or from its last lease to the end of its iteration.
//!
//! **A job that rests has not asked.** At a start it does not join the queue: it has no
//! reservation, nobody is passed over for it, and the policy is not asked. So for all others it is
//! a job between iterations, and what is said of those holds of it.
//!
//! **Nobody waits for a job that rests.** One whose iteration runs, or which holds between two what
//! only its running on may free, does not rest while another job waits to start or for memory, or
//! while a lowered budget is not reached: it goes on at full speed, and what it does meanwhile it
//! owes. One that rests when another begins to wait is called upon. So for the banker's argument
//! (I4) there are no paces.

use alloc::vec::Vec;

use super::Ledger;
use super::account::{Account, Paced, Rest};
use super::bucket::Bucket;
use super::run::Stall;
use crate::types::JobKey;
use crate::types::error::Shortage;
use crate::types::pace::Pace;
use crate::types::units::Ticks;
use crate::types::want::Want;

impl Ledger {
    /// Gives a job a pace, another one, or none. Whether the job is there.
    pub(crate) fn set_pace(&mut self, job: JobKey, pace: Option<Pace>, now: Ticks) -> bool {
        let Some(account) = self.accounts.get_mut(&job).filter(|account| !account.gone) else {
            return false;
        };
        let progress = account.pulse.progress();
        let rested = account.rest().is_some();
        match (&mut account.pace, pace) {
            (Some(paced), Some(pace)) => {
                paced.bucket.settle(progress, now);
                paced.bucket.change(pace);
                if let Some(rest) = &mut paced.rest {
                    rest.until = now.saturating_add(paced.bucket.delay());
                }
            }
            (none, Some(pace)) => {
                *none = Some(Paced { bucket: Bucket::new(pace, progress, now), rest: None });
            }
            (_, None) => {
                account.rise(now);
                account.pace = None;
            }
        }
        // It is to ask again: there may be a token now.
        self.wake |= rested;
        self.has_paces = self.accounts.values().any(|account| account.pace.is_some());
        true
    }

    /// A job no longer asks to start.
    pub(super) fn no_longer_rests(&mut self, job: JobKey) {
        let account = self.accounts.get_mut(&job).filter(|account| !account.is_running());
        if let Some(paced) = account.and_then(|account| account.pace.as_mut()) {
            paced.rest = None;
        }
    }

    /// How long a job that asks has to rest first, if it has to: [`Ticks::MAX`] for ever. Not while
    /// others may wait for it.
    pub(super) fn has_to_rest(&mut self, job: JobKey, now: Ticks) -> Option<Ticks> {
        if !self.has_paces {
            return None;
        }
        let is_waited_for = self.is_waited_for(job);
        let account = self.accounts.get_mut(&job)?;
        let at = account.pulse.progress();
        let paced = account.pace.as_mut()?;
        paced.bucket.settle(at, now);
        // One that has gone on otherwise has not rested since.
        paced.rest = paced.rest.filter(|rest| rest.at == at);
        let delay = paced.bucket.delay();
        if is_waited_for || delay.is_zero() {
            account.rise(now);
            return None;
        }
        let since = paced.rest.map_or(now, |rest| rest.since);
        let until = now.saturating_add(delay);
        paced.rest = Some(Rest { since, until, at, called: false });
        Some(delay)
    }

    /// Why a lease is not granted, if the job has to rest first.
    pub(super) fn rests(&mut self, job: JobKey, want: &Want, now: Ticks) -> Option<Shortage> {
        let rest = self.has_to_rest(job, now)?;
        if self.accounts.get(&job)?.stall.is_some_and(Stall::is_overdue) {
            // Others do not make way for it as long as it rests.
            self.admit();
        }
        let shortage = self.shortage(job, want.asked, want.pages.len() as u64);
        Some(Shortage { rest: Some(rest), ..shortage })
    }

    /// Whether others may wait for a job to run on: to start, for memory, or for a lowered budget.
    fn is_waited_for(&self, job: JobKey) -> bool {
        if !self.accounts.get(&job).is_some_and(Account::is_counted_on) {
            return false;
        }
        let mut others = self.accounts.iter().filter(|&(&key, _)| key != job);
        self.limit > self.target || self.is_shrinking() || others.any(|(_, other)| other.waits())
    }

    /// Tells those that rest to ask again if they need not rest any longer, since there is a token
    /// `now`, or since others wait for them.
    pub(super) fn call_upon(&mut self, now: Option<Ticks>) {
        if !self.has_paces {
            return;
        }
        let called = |(&job, account): (&JobKey, &Account)| {
            let rest = account.untold()?;
            let is_over = now.is_some_and(|now| rest.until <= now);
            (is_over || self.is_waited_for(job)).then_some(job)
        };
        let called: Vec<JobKey> = self.accounts.iter().filter_map(called).collect();
        for job in called {
            let paced = self.accounts.get_mut(&job).and_then(|account| account.pace.as_mut());
            if let Some(rest) = paced.and_then(|paced| paced.rest.as_mut()) {
                rest.called = true;
                self.wake = true;
            }
        }
    }

    /// Whether some job rests.
    pub(super) fn has_resting(&self) -> bool {
        self.has_paces && self.accounts.values().any(|account| account.rest().is_some())
    }

    /// When the first of those that rest has a token, if one ever has. Those are left out that have
    /// been told to ask again.
    pub(crate) fn rests_until(&self) -> Option<Ticks> {
        if !self.has_paces {
            return None;
        }
        let untold = self.accounts.values().filter_map(Account::untold);
        untold.map(|rest| rest.until).filter(|&until| until < Ticks::MAX).min()
    }
}
