//! A job's iteration that is interrupted, and goes on.

use super::super::run::{Phase, Run};
use super::Account;
use crate::types::tuning::MOST_INTERRUPTIONS;
use crate::types::units::Ticks;

/// An iteration whose memory is on the host, or on its way there or back.
pub(in crate::ledger) struct Interrupted {
    run: Run,
    /// Since when it has waited.
    since: Ticks,
}

impl Account {
    /// When its iteration began, if that waits for memory and may be interrupted.
    pub(in crate::ledger) fn can_be_interrupted(&self, epoch: u64) -> Option<Ticks> {
        let Phase::Running(run) = &self.phase else { return None };
        let may = self.terms.interruptible
            && !self.gone
            && self.away.is_empty()
            && self.leased_total() > 0
            && run.interruptions < MOST_INTERRUPTIONS
            && self.is_denied_at(epoch)
            && self.stall.is_some_and(|stall| !stall.gives_way);
        may.then_some(run.began)
    }

    /// Whether its iteration is to be interrupted.
    pub(in crate::ledger) fn is_to_be_interrupted(&self) -> bool {
        let progress = self.pulse.progress();
        let called = self.stall.is_some_and(|stall| stall.gives_way && stall.at == progress);
        called && !self.gone && matches!(self.phase, Phase::Running(_))
    }

    /// Whether its iteration has been interrupted, and has yet to go on.
    pub(in crate::ledger) const fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    /// Whether it runs an iteration of which it is known where it ends.
    pub(in crate::ledger) fn is_about_to_end(&self) -> bool {
        self.is_running() && !self.predictor.is_lost()
    }

    /// Whether it waits to come back for that.
    pub(in crate::ledger) fn waits_to_go_on(&self) -> bool {
        self.is_interrupted() && matches!(self.phase, Phase::Waiting(_)) && !self.gone
    }

    /// Whether its iteration has been interrupted and goes on, or is about to.
    pub(in crate::ledger) fn is_back_alone(&self) -> bool {
        let is_again = match &self.phase {
            Phase::Running(run) => run.interruptions > 0 && self.away.is_empty(),
            _ => self.is_interrupted() && self.away.is_coming_back(),
        };
        is_again && !self.gone && !self.is_still()
    }

    /// Whether others wait for it because of an interruption.
    pub(in crate::ledger) fn is_waited_for_alone(&self) -> bool {
        self.is_to_be_interrupted() || self.is_back_alone()
    }

    /// Its iteration is interrupted.
    pub(in crate::ledger) fn interrupt(&mut self, now: Ticks) {
        let since = self.paused_since().unwrap_or(now);
        self.stall = None;
        if let Phase::Running(mut run) = core::mem::replace(&mut self.phase, Phase::Idle) {
            run.interruptions += 1;
            self.interrupted = Some(Interrupted { run, since });
        }
    }

    /// It goes on.
    pub(in crate::ledger) fn go_on(&mut self, now: Ticks) {
        let Some(Interrupted { mut run, since }) = self.interrupted.take() else { return };
        run.stalled = run.stalled.saturating_add(now.saturating_sub(since));
        self.phase = Phase::Running(run);
        self.count_time(now);
    }

    /// It is about to end where it is: nothing is learned from it.
    pub(in crate::ledger) fn cut_short(&mut self, now: Ticks) {
        self.go_on(now);
        self.run().into_iter().for_each(|run| run.is_partial = true);
    }

    /// Its iteration is not to be interrupted any more.
    pub(in crate::ledger) fn is_spared(&mut self) {
        if self.is_to_be_interrupted() {
            self.stall.iter_mut().for_each(|stall| stall.gives_way = false);
            self.run().into_iter().for_each(|run| run.interruptions = MOST_INTERRUPTIONS);
        }
    }
}
