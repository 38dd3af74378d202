//! A job's pace in its account: what it has saved up, and whether it rests.

use super::super::bucket::Bucket;
use super::super::run::Phase;
use super::Account;
use crate::types::units::{Progress, Ticks};

/// What the books know of a job's pace.
pub(in crate::ledger) struct Paced {
    pub(in crate::ledger) bucket: Bucket,
    pub(in crate::ledger) rest: Option<Rest>,
}

/// A job has asked, and had no token.
#[derive(Clone, Copy)]
pub(in crate::ledger) struct Rest {
    pub(in crate::ledger) since: Ticks,
    /// When there is one; [`Ticks::MAX`] for never.
    pub(in crate::ledger) until: Ticks,
    /// How far the job had come.
    pub(in crate::ledger) at: Progress,
    /// It has been told to ask again.
    pub(in crate::ledger) called: bool,
}

impl Account {
    /// A new iteration counts its progress from the beginning, and with it the time for which a
    /// thread of the job may rest.
    pub(in crate::ledger) fn restart_pace(&mut self, now: Ticks) {
        if let Some(paced) = &mut self.pace {
            let progress = self.pulse.progress();
            paced.bucket.settle(progress, now);
            paced.bucket.restart();
            if let Some(rest) = &mut paced.rest {
                (rest.since, rest.at) = (now, Progress::ZERO);
            }
        }
    }

    /// It rests no longer. The time for which a running iteration has rested is not its own.
    pub(in crate::ledger) fn rise(&mut self, now: Ticks) {
        let rest = self.rest();
        self.pace.iter_mut().for_each(|paced| paced.rest = None);
        let Some(rest) = rest else { return };
        // What it has waited for memory as well counts as that.
        if let (Phase::Running(run), None) = (&mut self.phase, &self.stall) {
            run.stalled = run.stalled.saturating_add(now.saturating_sub(rest.since));
        }
    }

    /// If it rests, its time until now has been counted.
    pub(in crate::ledger) fn rests_from(&mut self, now: Ticks) {
        if let Some(rest) = self.pace.as_mut().and_then(|paced| paced.rest.as_mut()) {
            rest.since = rest.since.at_least(now);
        }
    }

    /// Since when the time of its iteration does not count, if so: it waits for memory, or rests.
    pub(in crate::ledger) fn paused_since(&self) -> Option<Ticks> {
        let stall = self.stall.map(|stall| stall.since);
        let rest = self.rest().map(|rest| rest.since);
        stall.into_iter().chain(rest).min()
    }

    /// That it rests, if it does and has not gone on otherwise.
    pub(in crate::ledger) fn rest(&self) -> Option<Rest> {
        let progress = self.pulse.progress();
        self.pace.as_ref()?.rest.filter(|rest| rest.at == progress && !self.gone)
    }

    /// That one of its threads has asked and is to be told when to ask again, be it that another
    /// one has gone on since.
    pub(in crate::ledger) fn untold(&self) -> Option<Rest> {
        self.pace.as_ref()?.rest.filter(|rest| !rest.called && !self.gone)
    }

    /// Until when it rests, if it does and has not gone on otherwise.
    pub(in crate::ledger) fn rests_until(&self) -> Option<Ticks> {
        self.rest().map(|rest| rest.until)
    }

    /// Whether it waits to start, for memory, or to come back from the host.
    pub(in crate::ledger) fn waits(&self) -> bool {
        let returns = self.away.is_coming_back() && self.denied;
        !self.gone
            && (returns || self.awaited().is_some() || matches!(self.phase, Phase::Waiting(_)))
    }

    /// Whether others may count on its running on: for what it holds, or may yet take.
    pub(in crate::ledger) fn is_counted_on(&self) -> bool {
        self.has_claim() || self.holds_leftovers()
    }
}
