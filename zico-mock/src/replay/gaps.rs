//! The time between the iterations of production jobs, which opportunistic ones may fill.
//!
//! What they do after production has gone on stands in its way, and they cannot stop at once: a job
//! rests where it needs more memory, and what it has enqueued until then has to be done. So they
//! are halted in time: as long before the earliest moment at which production may go on, by what is
//! known of its gaps, as it has taken them to stop.

use std::collections::VecDeque;

use zico_core::Ticks;

/// Production that ran so short a time ago still runs: its host is between two iterations.
const LEAST: Ticks = Ticks::millis(10);
/// Where none has run for so long it is idle: once in so long something may stand in its way.
const IDLE: Ticks = Ticks::millis(5000);
/// So many of the last gaps are known ...
const KNOWN: usize = 8;
/// ... and of so many what was done after a halt: it depends on where in its iteration a job is.
const HALTS: usize = 32;

/// Production that rests for less than a tenth of the time leaves its gaps for nothing: in its
/// iterations there is more to be had.
const REST: u64 = 10;

/// What the jobs that fill gaps have done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    /// Their work so far.
    pub(super) made: Ticks,
    /// All of them rest, and the device has done all that they have enqueued.
    pub(super) rests: bool,
}

/// What production does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It is at an iteration.
    Runs,
    /// The same, and it rests for so much of the time that the others have enough of that.
    Alternates,
    /// It waits for memory because nothing is known of it: what others do meanwhile, so that it gets
    /// some, is not to be held against them.
    Waits,
    /// It does nothing, and will not for a while.
    Rests,
    /// It does nothing, and may go on at any moment.
    Returns,
    /// It has done nothing for long.
    Idle,
}

/// The gaps of production jobs, all of them together.
#[derive(Default)]
pub(super) struct Gaps {
    /// One of them is at an iteration, or else since when none is.
    runs: bool,
    stopped: Ticks,
    /// When it last went on after a gap.
    went_on: Ticks,
    /// It may go on before the others have stopped.
    returns: bool,
    /// How long the last gaps were, and what lay between two of them.
    last: VecDeque<Ticks>,
    between: VecDeque<Ticks>,
    /// What the others had made when they were halted, and have not rested since.
    halted: Option<Ticks>,
    /// What they have made after each of the last halts.
    after: VecDeque<Ticks>,
}

impl Gaps {
    /// Whether one of them is at an iteration now, and what the others have done.
    pub(super) fn note(&mut self, runs: bool, others: Filling, now: Ticks) {
        let gap = now.saturating_sub(self.stopped);
        match (std::mem::replace(&mut self.runs, runs), runs) {
            (true, false) => (self.stopped, self.returns) = (now, false),
            (false, true) if (LEAST..IDLE).contains(&gap) => {
                push(&mut self.last, gap, KNOWN);
                push(&mut self.between, self.stopped.saturating_sub(self.went_on), KNOWN);
                self.went_on = now;
            }
            (false, true) if gap >= IDLE => self.went_on = now,
            (false, false) => {
                let (from, to) = self.window();
                let stops = self.after.iter().copied().max().unwrap_or_default();
                let soon = self.returns || gap.saturating_add(stops) >= from;
                let returns = gap < to && soon;
                if returns && !self.returns {
                    self.halted = Some(others.made);
                }
                self.returns = returns;
            }
            (true, true) | (false, true) => {}
        }
        if others.rests
            && let Some(made) = self.halted.take()
        {
            push(&mut self.after, others.made.saturating_sub(made), HALTS);
        }
    }

    /// From when on after an iteration it may go on, and until when: a tenth less than the shortest
    /// of the gaps, and a tenth more than the longest. Nothing if none is known.
    fn window(&self) -> (Ticks, Ticks) {
        let (least, most) = (self.last.iter().min(), self.last.iter().max());
        let (least, most) = (least.map_or(0, |gap| gap.value()), most.map_or(0, |gap| gap.value()));
        (Ticks::new(least - least / 10), Ticks::new(most + most / 10))
    }

    /// Whether gaps are a good part of the time, by the last of them and since the last was.
    fn alternates(&self, now: Ticks) -> bool {
        let sum =
            |all: &VecDeque<Ticks>| all.iter().copied().fold(Ticks::ZERO, Ticks::saturating_add);
        let (gaps, between) = (sum(&self.last).value(), sum(&self.between).value());
        let now = now.saturating_sub(self.went_on).value();
        gaps > 0 && gaps.saturating_mul(REST) >= gaps.saturating_add(between.max(now))
    }

    /// What production does, as noted last.
    pub(super) fn activity(&self, now: Ticks) -> Activity {
        match now.saturating_sub(self.stopped) {
            gap if (self.runs || gap < LEAST) && self.alternates(now) => Activity::Alternates,
            gap if self.runs || gap < LEAST => Activity::Runs,
            gap if gap >= IDLE => Activity::Idle,
            _ if self.returns => Activity::Returns,
            _ => Activity::Rests,
        }
    }

    /// When that changes next if none of them goes on.
    pub(super) fn next(&self, now: Ticks) -> Option<Ticks> {
        let (from, to) = self.window();
        let moments = [LEAST, from, to, IDLE].map(|gap| self.stopped.saturating_add(gap));
        moments.into_iter().filter(|&at| at > now && !self.runs).min()
    }
}

/// Notes the last one of so many.
fn push(last: &mut VecDeque<Ticks>, one: Ticks, most: usize) {
    last.truncate(most - 1);
    last.push_front(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    use Activity::{Alternates, Idle, Rests, Returns, Runs};

    const MS: fn(u64) -> Ticks = Ticks::millis;
    const NOTHING: Filling = Filling { made: Ticks::ZERO, rests: true };

    /// What production does at these moments, at none of which it runs.
    fn seen<const N: usize>(gaps: &mut Gaps, at: [u64; N]) -> [Activity; N] {
        at.map(|at| {
            gaps.note(false, NOTHING, MS(at));
            gaps.activity(MS(at))
        })
    }

    /// Production runs in these times.
    fn run(gaps: &mut Gaps, times: impl IntoIterator<Item = (u64, u64)>) {
        for (from, to) in times {
            gaps.note(true, NOTHING, MS(from));
            gaps.note(true, NOTHING, MS(to));
            gaps.note(false, NOTHING, MS(to));
        }
    }

    #[test]
    fn a_first_gap_is_filled_all_the_time() {
        let mut gaps = Gaps::default();
        let all = [Runs, Runs, Rests, Rests, Idle, Idle];
        assert_eq!(seen(&mut gaps, [0, 9, 10, 4999, 5000, 90_000]), all);
    }

    #[test]
    fn gaps_are_filled_until_production_may_go_on() {
        let mut gaps = Gaps::default();
        run(&mut gaps, [(0, 0), (3, 6), (506, 509), (809, 809)]);
        // The gaps were of 500 and 300 ms: it may go on from 270 to 550.
        let since = |gap: u64| 809 + gap;
        let all = [Alternates, Rests, Rests, Returns, Returns, Rests];
        assert_eq!(seen(&mut gaps, [9, 10, 269, 270, 549, 550].map(since)), all);
        let next = |gap: u64| gaps.next(MS(since(gap))).map(|at| at.value() / 1_000_000 - 809);
        let moments = [Some(10), Some(270), Some(550), Some(5000), None];
        assert_eq!([0, 10, 270, 550, 5000].map(next), moments);
    }

    #[test]
    fn the_others_are_halted_as_long_before_as_they_take_to_stop() {
        let mut gaps = Gaps::default();
        run(&mut gaps, [(0, 100), (600, 1000)]);
        // From 450 ms on it may go on. The halt is then, and 100 ms are made before they rest, some
        // of them after production has gone on.
        for (runs, made, rests, at) in
            [(false, 10, false, 1449), (false, 20, false, 1450), (true, 70, false, 1500)]
        {
            gaps.note(runs, Filling { made: MS(made), rests }, MS(at));
        }
        gaps.note(true, Filling { made: MS(120), rests: true }, MS(1600));
        run(&mut gaps, [(1600, 2000)]);
        // As in one of the last 32 halts.
        for gap in 0..HALTS as u64 {
            assert_eq!(seen(&mut gaps, [2349 + 1000 * gap]), [Rests], "{gap}");
            assert_eq!(seen(&mut gaps, [2360 + 1000 * gap]), [Returns], "{gap}");
            run(&mut gaps, [(2500 + 1000 * gap, 3000 + 1000 * gap)]);
        }
        assert_eq!(seen(&mut gaps, [34_360, 34_449, 34_450]), [Rests, Rests, Returns]);
    }

    #[test]
    fn it_alternates_while_it_rests_for_a_tenth_of_the_time() {
        let mut gaps = Gaps::default();
        // Gaps of 100 ms, and 900 between them; the first begins at its first iteration.
        run(&mut gaps, [(0, 0), (500, 1400), (1500, 2400), (2500, 2500)]);
        for (at, activity) in [(2500, Alternates), (2500 + 6300, Alternates), (2500 + 6301, Runs)] {
            gaps.note(true, NOTHING, MS(at));
            assert_eq!(gaps.activity(MS(at)), activity, "{at}");
        }
        run(&mut gaps, [(8801, 8801), (8901, 12_000), (12_100, 15_000)]);
        gaps.note(true, NOTHING, MS(15_100));
        assert_eq!(gaps.activity(MS(15_100)), Runs, "900 of 14,600");
    }

    #[test]
    fn while_it_runs_it_does_however_long_nothing_else_happens() {
        let mut gaps = Gaps::default();
        gaps.note(true, NOTHING, MS(9000));
        assert_eq!((gaps.activity(MS(60_000)), gaps.next(MS(60_000))), (Runs, None));
    }

    #[test]
    fn the_last_gaps_count_and_none_of_an_idle_job() {
        let mut gaps = Gaps::default();
        run(&mut gaps, [(0, 0), (500, 500), (9000, 9000)]);
        assert_eq!(seen(&mut gaps, [9449, 9450]), [Rests, Returns]);
        run(&mut gaps, (1..=9).map(|i| (9500 + 20 * i, 9500 + 20 * i)));
        assert_eq!(seen(&mut gaps, [9689, 9697, 9698, 9702]), [Alternates, Rests, Returns, Rests]);
    }
}
