//! A preemptible job's turn on the device.

use super::super::run::Phase;
use super::Account;
use crate::types::units::Ticks;

/// What the books know of it.
#[derive(Clone, Copy)]
pub(in crate::ledger) struct Turn {
    /// How long it lasts at least.
    pub(in crate::ledger) slice: Ticks,
    /// Since when the job has been on the device, or on the host.
    pub(in crate::ledger) since: Ticks,
    /// An iteration has ended since it came to the device.
    pub(in crate::ledger) has_run: bool,
    /// It had to leave the device before one had.
    in_vain: bool,
    /// It is to give way.
    pub(in crate::ledger) called: bool,
    /// It could not go to the host: it is not called again before.
    pub(in crate::ledger) spared: Ticks,
    /// Somebody has said that it is to be on the host, until they say otherwise.
    pub(in crate::ledger) held: bool,
}

/// What counts for turns of any job.
#[derive(Clone, Copy, Default)]
pub(super) struct Course {
    /// It waits to start for others to give way.
    awaits_turns: bool,
    /// When they last did.
    given: Ticks,
    /// When its last iteration ended.
    pub(super) ended: Option<Ticks>,
}

impl Turn {
    pub(super) const fn new(slice: Ticks) -> Self {
        let zero = Ticks::ZERO;
        let (has_run, in_vain, called, held) = (false, false, false, false);
        Self { slice, since: zero, has_run, in_vain, called, spared: zero, held }
    }
}

impl Account {
    /// Whether it may be taken to the host between its iterations.
    pub(in crate::ledger) const fn is_preemptible(&self) -> bool {
        self.turn.is_some()
    }

    /// Whether it has been called upon to give way, or is to go whoever waits.
    pub(in crate::ledger) fn is_called(&self) -> bool {
        self.turn.is_some_and(|turn| turn.called || turn.held && self.away.is_empty())
    }

    /// Whether it is to be on the host until somebody says otherwise.
    pub(in crate::ledger) fn is_held(&self) -> bool {
        self.turn.is_some_and(|turn| turn.held)
    }

    /// Whether it is to go to the host now, and can: no iteration of it has to end first.
    pub(in crate::ledger) fn goes_now(&self, now: Ticks) -> bool {
        self.is_called() && !self.is_running() && self.can_give_way(now)
    }

    /// It waits for others to give way; if it waits to start, its turn begins then.
    pub(in crate::ledger) fn awaits_turns(&mut self) {
        self.course.awaits_turns |= matches!(self.phase, Phase::Waiting(_)) && self.away.is_empty();
    }

    /// It starts: if others have given way, its turn begins.
    pub(super) fn is_given_way(&mut self, now: Ticks) {
        if core::mem::take(&mut self.course.awaits_turns) {
            self.turn_changes(now);
        }
    }

    /// It leaves the device.
    pub(in crate::ledger) fn leaves_device(&mut self, now: Ticks) {
        if let Some(turn) = &mut self.turn {
            turn.in_vain = !turn.has_run;
        }
        self.turn_changes(now);
    }

    /// It may come back to the device. If it had come the last time in vain nothing starts before
    /// its iteration does: else it would be sent away by one that starts meanwhile, each time.
    pub(in crate::ledger) fn comes_back(&mut self) {
        self.away.come_back();
        self.goes_on = self.turn.is_some_and(|turn| turn.in_vain);
    }

    /// When others last gave way to it, or it came to the device.
    pub(in crate::ledger) const fn given(&self) -> Ticks {
        self.course.given
    }

    /// It comes to the device, or has left it.
    pub(in crate::ledger) fn turn_changes(&mut self, now: Ticks) {
        self.course.given = now;
        if let Some(turn) = &mut self.turn {
            (turn.since, turn.has_run, turn.called) = (now, false, false);
        }
    }

    /// Whether it could go to the host as soon as no iteration of it runs: it is preemptible, and on
    /// the device.
    pub(in crate::ledger) fn can_give_way(&self, now: Ticks) -> bool {
        let is_here = !self.gone && self.away.is_empty() && self.leased_total() > 0;
        is_here && self.turn.is_some_and(|turn| turn.spared <= now)
    }

    /// What the job has on the device when no iteration of it runs, known to persist or not.
    pub(in crate::ledger) fn has_at_rest(&self) -> u32 {
        let has = if self.is_running() { self.kept_for_good() } else { self.holds() };
        has.max(self.terms.floor)
    }

    /// What others can never have, whatever becomes of the job: all that it keeps, and of a
    /// preemptible one what is reserved.
    pub(in crate::ledger) fn kept_from_others(&self) -> u32 {
        match self.turn {
            Some(_) if !self.gone => self.terms.floor,
            _ => self.kept_for_good(),
        }
    }

    /// Whether it runs, is about to, or has done so within the last `span`, or has come to the device
    /// since then and has yet to run.
    pub(in crate::ledger) fn is_active(&self, now: Ticks, span: Ticks) -> bool {
        let lately = self.idle_since().is_some_and(|since| now < since.saturating_add(span));
        self.is_running() || matches!(self.phase, Phase::Waiting(_)) || lately
    }

    /// When its last iteration ended or, if it has run none since, it came to the device.
    pub(in crate::ledger) fn idle_since(&self) -> Option<Ticks> {
        let came = self.turn.filter(|turn| !turn.has_run).map(|turn| turn.since);
        self.course.ended.max(came)
    }

    /// Whether it is on the device, waits, and has not run since it came.
    pub(in crate::ledger) fn has_come_in_vain(&self) -> bool {
        let waits = match self.phase {
            Phase::Idle => self.awaited().is_some(),
            Phase::Waiting(_) => true,
            _ => false,
        };
        waits && self.away.is_empty() && self.turn.is_some_and(|turn| !turn.has_run)
    }

    /// When the last iteration ended, if one has.
    pub(in crate::ledger) const fn ended(&self) -> Option<Ticks> {
        self.course.ended
    }
}
