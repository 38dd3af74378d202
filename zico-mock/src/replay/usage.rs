//! When a job of a replay is there, and how much it does.

use zico_core::Ticks;

/// When a job comes, and how it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// When it begins with its setup.
    pub arrives: Ticks,
    /// What it does from when on, by rising time; before the first of them it does not rest.
    pub phases: Vec<Phase>,
    /// When it is gone, whatever it is at, if ever: its job leaves, and a
    /// [process](super::ReplayConfig::processes) of its own is killed.
    pub ends: Option<Ticks>,
}

/// A part of a job's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its beginning.
    pub from: Ticks,
    /// So long the job rests after each iteration, as if it waited for data; [`Ticks::MAX`]: it is
    /// idle until the next phase.
    pub rest: Ticks,
}

impl Usage {
    /// When the next iteration may begin after one that has ended now.
    pub(super) fn next_iteration(&self, now: Ticks) -> Ticks {
        let is_later = |phase: &&Phase| phase.from > now;
        let rest = self.phases.iter().rev().find(|phase| phase.from <= now);
        match rest.map(|phase| phase.rest) {
            None => now,
            Some(Ticks::MAX) => self.phases.iter().find(is_later).map_or(Ticks::MAX, |p| p.from),
            Some(rest) => now.saturating_add(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_rests_as_its_phase_says() {
        let phase = |from: u64, rest: Ticks| Phase { from: Ticks::new(from), rest };
        let phases =
            vec![phase(100, Ticks::new(7)), phase(200, Ticks::MAX), phase(300, Ticks::ZERO)];
        let usage = Usage { phases, ..Usage::default() };
        for (now, next) in [(99, 99), (100, 107), (200, 300), (299, 300), (300, 300)] {
            assert_eq!(usage.next_iteration(Ticks::new(now)), Ticks::new(next), "{now}");
        }
        let idle = Usage { phases: vec![phase(5, Ticks::MAX)], ..Usage::default() };
        assert_eq!(idle.next_iteration(Ticks::new(5)), Ticks::MAX);
    }
}
