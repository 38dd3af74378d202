//! A local search from the best plan so far.

use super::joint::{Choice, Joint};
use crate::relief::random::Random;

/// How much slower than the last one a plan may be that the local search goes on from, at first, as
/// a part of the iteration.
const HEAT: f64 = 1.0 / 2048.0;

/// How many changes the local search tries for each gap, at most: a few gaps are searched through
/// long before the work is spent.
const TRIES: usize = 256;

impl Joint<'_> {
    /// A local search over choices, one gap or a few at a time, with recomputation planned in one
    /// go; then recomputation is worked on for the best.
    pub(super) fn improve(&mut self, work: u64, each: u64) {
        if work == 0 {
            return;
        }
        let mut random = Random::new(3);
        let (begin, search) = (self.spent, work / 4 * 3);
        // A planning costs this much at least, so that the end is reached.
        let least = 64 + self.graph.operations().len() as u64 * 16;
        let mut now = (self.best_choices(), self.times(), u64::MAX);
        let most = self.gaps.len().saturating_mul(TRIES);
        for tried in 0..most {
            if self.spent - begin >= search {
                break;
            }
            self.spent += least;
            let mut choices = now.0.clone();
            for _ in 0..=random.below(3) {
                // The larger of two by chance.
                let (one, other) = (random.below(choices.len()), random.below(choices.len()));
                let at = if self.gaps[one].bytes < self.gaps[other].bytes { other } else { one };
                choices[at] = self.other(at, choices[at], &mut random);
            }
            if now.2 == u64::MAX {
                choices.clone_from(&now.0);
            }
            let (nanos, times) = self.evaluate(&choices, &now.1, 0);
            if self.is_least() {
                return;
            }
            let done = (self.spent - begin) as f64 / search as f64;
            let left = 1.0 - done.max(tried as f64 / most as f64);
            let heat = self.graph.nanos() as f64 * HEAT * left.max(0.0);
            if nanos as f64 <= now.2 as f64 + heat * random.exponential() {
                now = (choices, times, nanos);
            }
        }
        self.evaluate(&now.0, &now.1, each);
        let (choices, times) = (self.best_choices(), self.times());
        self.evaluate(&choices, &times, each);
    }

    /// Another choice for a gap, by chance.
    fn other(&self, at: usize, now: Choice, random: &mut Random) -> Choice {
        let encodes = self.encoding(&self.gaps[at]).is_some();
        match (now, encodes && random.chance(128), random.chance(64)) {
            (Choice::Stays | Choice::Moves | Choice::Waits, true, _) => Choice::Encoded,
            (Choice::Stays | Choice::Moves, _, true) => Choice::Waits,
            (Choice::Stays, ..) | (Choice::Encoded, true, _) => self.away(&self.gaps[at]),
            (Choice::Hosted, ..) if random.chance(64) => Choice::Moves,
            (Choice::Moves, ..)
                if self.gaps[at].may_be_hosted(self.graph) && random.chance(128) =>
            {
                Choice::Hosted
            }
            (Choice::Waits, ..) if random.chance(128) => Choice::Moves,
            _ => Choice::Stays,
        }
    }
}
