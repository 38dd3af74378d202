//! Finds the iterations of a job that marks its phases: of several marks, which ones end an
//! iteration.
//!
//! A runtime often knows one thing that comes again, such as the step of an optimizer, and not what
//! an iteration is made of. A GAN takes two or three steps of two optimizers before it does the
//! same again; a step that is skipped has no mark; an evaluation lies between two of them. So a
//! mark ends a *phase*, and an iteration is a *cycle* of phases:
//!
//! 1. A phase is known by what it allocates: how many blocks, and the sum of a hash of their sizes.
//!    The order within it does not matter, because threads may allocate as they like.
//! 2. A cycle is the smallest number of phases that have come twice in a row. An iteration ends
//!    with the phase after which the least is live. Until one is known each mark ends an iteration.
//! 3. A phase that is not the one which the cycle expects is an *outlier*, and the cycle stays. In
//!    one of several phases it ends nothing: an iteration ends where the cycle does, as soon as a
//!    phase tells where that is. In a cycle of one phase it ends an iteration if as little is live
//!    as elsewhere at an end, so that a mark too many in the middle of the work does not.
//! 4. A cycle of which nothing has been seen for as many marks as there are phases in two of the
//!    longest cycles is forgotten.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::learn::signature::mixed;
use crate::types::report::Detected;
use crate::types::tuning::{LONGEST_CYCLE, SAME_LIVE_PART};
use crate::types::units::Bytes;

/// What a phase has allocated, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    allocations: u32,
    hash: u64,
}

/// A phase that has ended.
#[derive(Clone, Copy, Debug)]
struct Phase {
    sum: Sum,
    /// What was live at its end.
    live: Bytes,
}

/// Phases that come again and again.
#[derive(Debug)]
struct Cycle {
    /// In order; an iteration ends with the last one.
    phases: Vec<Sum>,
    /// The one that is expected next.
    at: usize,
    /// How many were something else since one was as expected.
    outliers: usize,
    /// What was live when it ended last.
    live: Bytes,
    /// How often it has come in a row.
    repeats: u64,
}

impl Cycle {
    /// Takes in a phase: whether an iteration ends with it.
    fn ends_with(&mut self, phase: Phase) -> bool {
        let expected = self.phases[self.at] == phase.sum;
        let mut same = (0..self.phases.len()).filter(|&i| self.phases[i] == phase.sum);
        let at = match (expected, same.next(), same.next()) {
            (true, ..) => self.at,
            // There is one place where it can be.
            (false, Some(at), None) => at,
            _ => {
                (self.outliers, self.repeats) = (self.outliers + 1, 0);
                let most = Bytes::new(self.live.value() / SAME_LIVE_PART);
                return self.phases.len() == 1 && phase.live <= self.live.saturating_add(most);
            }
        };
        self.outliers = 0;
        self.at = (at + 1) % self.phases.len();
        let ends = self.at == 0;
        if ends {
            self.live = phase.live;
            self.repeats = self.repeats.saturating_add(1);
        }
        if !expected {
            self.repeats = 0;
        }
        ends
    }
}

/// The phases of a job, as they come.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    /// The one that is under way.
    open: Sum,
    /// The last ones, the newest last.
    past: VecDeque<Phase>,
    cycle: Option<Cycle>,
}

impl Phases {
    /// An allocation of the phase that is under way. O(1).
    pub(crate) fn push(&mut self, size: Bytes) {
        self.open.allocations = self.open.allocations.saturating_add(1);
        self.open.hash = self.open.hash.wrapping_add(mixed(0, size.value()));
    }

    /// A phase ends, while so much is live: whether an iteration ends with it. One that has
    /// allocated nothing is none. O(longest cycle^2) where no cycle is known, else O(its phases).
    pub(crate) fn end(&mut self, live: Bytes) -> bool {
        let phase = Phase { sum: core::mem::take(&mut self.open), live };
        if phase.sum.allocations == 0 {
            return false;
        }
        if self.past.len() == 2 * LONGEST_CYCLE {
            self.past.pop_front();
        }
        self.past.push_back(phase);
        if let Some(cycle) = &mut self.cycle {
            let ends = cycle.ends_with(phase);
            if cycle.outliers <= 2 * LONGEST_CYCLE && !self.is_outgrown() {
                return ends;
            }
        }
        self.cycle = self.repeated();
        self.cycle.as_ref().is_none_or(|cycle| cycle.at == 0)
    }

    /// Whether what has come twice just now is longer than the cycle that is known, of one phase,
    /// which is a part of it.
    fn is_outgrown(&self) -> bool {
        let is_one = self.cycle.as_ref().is_some_and(|cycle| cycle.phases.len() == 1);
        is_one && self.period().is_some_and(|period| period > 1)
    }

    /// The smallest number of phases that have come twice in a row just now.
    fn period(&self) -> Option<usize> {
        let newest = || self.past.iter().rev().map(|phase| phase.sum);
        (1..=self.past.len() / 2).find(|&n| newest().take(n).eq(newest().skip(n).take(n)))
    }

    /// The cycle that has come twice in a row just now.
    fn repeated(&self) -> Option<Cycle> {
        let period = self.period()?;
        let phases: Vec<Phase> = self.past.range(self.past.len() - period..).copied().collect();
        // Of several the latest: it is the end of what has been seen twice.
        let (last, end) = phases.iter().enumerate().rev().min_by_key(|(_, phase)| phase.live)?;
        let first = (last + 1) % period;
        let in_order = phases[first..].iter().chain(&phases[..first]);
        Some(Cycle {
            phases: in_order.map(|phase| phase.sum).collect(),
            at: (period - first) % period,
            outliers: 0,
            live: end.live,
            repeats: 1,
        })
    }

    /// How many phases an iteration has, and how often it has come so.
    pub(crate) fn detected(&self) -> Option<Detected> {
        let cycle = self.cycle.as_ref()?;
        let period = u32::try_from(cycle.phases.len()).unwrap_or(u32::MAX);
        Some(Detected { period, repeats: cycle.repeats })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    /// A phase by a letter: what it allocates; one in upper case ends while more is live.
    fn phase(phases: &mut Phases, letter: char) -> bool {
        let size = u64::from(u32::from(letter.to_ascii_lowercase()));
        (1..=3).for_each(|n| phases.push(Bytes::kib(n * size)));
        let more = if letter.is_ascii_uppercase() { 64 } else { 0 };
        phases.end(Bytes::mib(100 + more))
    }

    /// After which of these phases iterations end: marked by a bar.
    fn ends(phases: &mut Phases, letters: &str) -> String {
        letters.chars().fold(String::new(), |mut line, letter| {
            line.push(letter);
            if phase(phases, letter) {
                line.push('|');
            }
            line
        })
    }

    #[test]
    fn an_iteration_is_what_repeats() {
        for (letters, expected, period) in [
            // One step after the other.
            ("tttt", "t|t|t|t|", Some(1)),
            // A generator after two steps of a discriminator, which leaves more.
            ("DDgDDgDDgDDg", "D|D|g|D|D|g|DDg|DDg|", Some(3)),
            // Found in the middle, an iteration goes on to where the cycle ends.
            ("DgDDgDDgDDg", "D|g|D|D|g|DDg|DDg|", Some(3)),
            // As much is live everywhere: it ends where it was seen twice.
            ("ttetteTTe", "t|t|e|t|t|e|TTe|", Some(3)),
            // An evaluation after every eighth step is too rare.
            (
                "tttttttetttttttttetttttt",
                "t|t|t|t|t|t|t|e|t|t|t|t|t|t|t|t|t|e|t|t|t|t|t|t|",
                Some(1),
            ),
            ("abcdefgh", "a|b|c|d|e|f|g|h|", None),
            // What it was before is forgotten, and then it is what it is now.
            ("DDgDDgttttttttttttttttttt", "D|D|g|D|D|g|ttttttttttttttttt|t|t|", Some(1)),
        ] {
            let mut phases = Phases::default();
            assert_eq!(ends(&mut phases, letters), expected);
            assert_eq!(phases.detected().map(|found| found.period), period, "{letters}");
        }
    }

    /// A mark is missing where `x` is two phases in one, and there is one too many where a phase is
    /// `X` and `y`.
    #[test]
    fn a_missing_mark_or_one_too_many_changes_one_iteration() {
        for (before, letters, expected) in [
            ("tttt", "txtt", "t|x|t|t|"),
            ("tttt", "tXytt", "t|Xy|t|t|"),
            ("DDgDDg", "DxDDgDDg", "DxDDg|DDg|"),
            ("DDgDDg", "DDxDgDDg", "DDxDg|DDg|"),
            ("DDgDDg", "XyDgDDg", "XyDg|DDg|"),
            ("DDgDDg", "DDXyDDgDDg", "DDXyDDg|DDg|"),
        ] {
            let mut phases = Phases::default();
            ends(&mut phases, before);
            let period = phases.detected().map(|found| found.period);
            assert_eq!(ends(&mut phases, letters), expected);
            assert_eq!(phases.detected().map(|found| found.period), period, "{letters}");
        }
    }

    #[test]
    fn the_order_within_a_phase_does_not_matter_and_an_empty_one_is_none() {
        let mut phases = Phases::default();
        for sizes in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
            sizes.iter().for_each(|&kib| phases.push(Bytes::kib(kib)));
            assert!(phases.end(Bytes::ZERO));
            assert!(!phases.end(Bytes::ZERO));
        }
        assert_eq!(phases.detected(), Some(Detected { period: 1, repeats: 2 }));
    }
}
