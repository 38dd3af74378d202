//! What a job waits for, and whether others wait for it in vain.

use super::super::fairness::{Bypasses, falls_behind};
use super::super::run::{Phase, Stall};
use super::Account;
use crate::types::tuning::{LAGGING_PART, LONG_ITERATION};
use crate::types::units::Ticks;
use crate::types::want::Growth;

impl Account {
    /// Whether a running iteration waits for memory.
    pub(in crate::ledger) fn is_stalled(&self) -> bool {
        self.stall.is_some() && matches!(self.phase, Phase::Running(_))
    }

    /// Whether it waits for memory that it was denied at this epoch. One that has gone on since was
    /// only asking.
    pub(in crate::ledger) fn is_denied_at(&self, epoch: u64) -> bool {
        let progress = self.pulse.progress();
        self.stall.is_some_and(|stall| stall.epoch == epoch && stall.at == progress)
    }

    /// Looks whether a job that others wait for stands still: one between iterations that holds
    /// what it may free, one that may start and does not, or an overdue one that does not ask
    /// again. Whether others need not wait for it since, or a thread of it that waits for memory
    /// has to ask again, as another one has gone on.
    pub(in crate::ledger) fn look(&mut self, now: Ticks, patience: Ticks) -> bool {
        let progress = self.pulse.progress();
        let asks_again = self.stall.is_some_and(|stall| stall.at != progress);
        if asks_again {
            self.resume(now);
        }
        let waited_for = match self.phase {
            _ if self.away.is_moving() => true,
            Phase::Idle if self.goes_on || self.holds_leftovers() => true,
            Phase::Idle if self.first_wave.is_open() => true,
            Phase::Admitted => true,
            Phase::Running(_) if self.is_waited_for_alone() => true,
            Phase::Idle | Phase::Running(_) => self.stall.is_some_and(Stall::is_waited_for),
            Phase::Waiting(_) => false,
        };
        if !waited_for || self.gone {
            self.has_moved();
            return asks_again;
        }
        let since = self.seen.filter(|&(seen, _)| seen == progress).map_or(now, |(_, since)| since);
        self.seen = Some((progress, since));
        let was_still = core::mem::replace(&mut self.still, now.saturating_sub(since) >= patience);
        self.goes_on &= !self.still;
        let was_open = self.first_wave.is_open();
        if self.away.is_moving() {
            // It can ask again, if it still wants to come back.
            let gives_up = self.still && self.away.give_up_return();
            return gives_up || asks_again;
        }
        if matches!(self.phase, Phase::Admitted) {
            if self.still {
                // It can ask again, if it still wants to.
                self.phase = Phase::Idle;
            }
            return self.still || asks_again;
        }
        let lapsed = self.first_wave.look(progress, self.still) && was_open;
        self.still && !was_still || lapsed || asks_again
    }

    /// It has gone on to something else.
    pub(in crate::ledger) fn has_moved(&mut self) {
        (self.seen, self.still) = (None, false);
    }

    /// Whether nothing starts before its next iteration does, which it is about to begin.
    pub(in crate::ledger) fn is_about_to_begin(&self) -> bool {
        let is_here = self.away.is_empty() || self.away.is_coming_back();
        let can = matches!(self.phase, Phase::Idle) && is_here;
        self.goes_on && can && !self.gone
    }

    /// Whether its running iteration, which takes no longer than usual and does not wait for memory,
    /// is followed at once by one that goes before those of a job that has had so much time of late.
    pub(in crate::ledger) fn goes_on_before(&self, waiting: Ticks, now: Ticks) -> bool {
        let taken = match &self.phase {
            Phase::Running(run) => run.elapsed(now, None),
            Phase::Admitted => Ticks::ZERO,
            Phase::Idle | Phase::Waiting(_) => return false,
        };
        let Some(profile) = self.predictor.profile() else { return false };
        let length = profile.length();
        self.follows
            && self.stall.is_none()
            && !self.is_called()
            && taken <= Ticks::new(length.value().saturating_mul(LONG_ITERATION))
            && falls_behind(self.time.lately(), length, waiting)
    }

    /// Whether it has stood still, and does so still.
    pub(in crate::ledger) fn is_still(&self) -> bool {
        let progress = self.pulse.progress();
        self.still && self.seen.is_some_and(|(seen, _)| seen == progress)
    }

    /// How many regions it waits for, if it does. One that has gone on since was only asking.
    pub(in crate::ledger) fn awaited(&self) -> Option<u32> {
        let progress = self.pulse.progress();
        self.stall.filter(|stall| stall.at == progress).map(|stall| stall.asked.regions)
    }

    /// It was denied what it asked for.
    pub(in crate::ledger) fn stall(&mut self, now: Ticks, epoch: u64, asked: Growth) {
        let at = self.pulse.progress();
        let bypassed = Bypasses::default();
        let new = Stall {
            since: now,
            epoch,
            asked,
            at,
            bypassed,
            is_awaited: false,
            let_in: 0,
            given_up: false,
            gives_way: false,
        };
        let stall = self.stall.get_or_insert(new);
        (stall.epoch, stall.asked, stall.at, stall.given_up) = (epoch, asked, at, false);
        self.count_time(now);
        if matches!(self.phase, Phase::Running(_)) {
            self.has_moved();
        }
    }

    /// Others do not start, so that it gets the memory for which it waits.
    pub(in crate::ledger) fn note_awaited(&mut self) {
        self.stall.iter_mut().for_each(|stall| stall.is_awaited = true);
    }

    /// Whether the device is far behind: of what an iteration takes it has yet to pass a good part.
    pub(in crate::ledger) fn lags(&self) -> bool {
        !self.fenced.is_empty() && self.draining > self.comes_to() / LAGGING_PART
    }

    /// It waits for memory no longer.
    pub(in crate::ledger) fn resume(&mut self, now: Ticks) {
        let Some(stall) = self.stall.take() else { return };
        if let Phase::Running(run) = &mut self.phase {
            run.stalled = run.stalled.saturating_add(now.saturating_sub(stall.since));
            self.rests_from(now);
        }
        self.count_time(now);
    }
}
