//! Whether the iterations of a job whose lifetimes are learned have come to take the same.
//!
//! Where nobody says how long blocks live, the first iterations show little of the next one.
//! Gradients have the sizes of parameters, so at first they are taken to persist: they are no part
//! of the iteration's own wave, and in the next iteration they are. The optimizer's state comes at
//! the end of the first step, after its peak. So until two iterations in a row have held no more
//! than those before, the next one may need whatever there is.

use crate::types::tuning::{STEADY, STEADY_PART};

/// What the iterations of one job have held at their most.
#[derive(Debug, Default)]
pub(crate) struct Steadiness {
    /// Lifetimes are learned.
    learned: bool,
    /// The most regions so far, what persists included.
    most: u32,
    /// Iterations in a row that have held no more.
    calm: u32,
}

impl Steadiness {
    /// Memory is leased for a block of which nobody has said how long it lives.
    pub(crate) fn note_learned(&mut self) {
        self.learned = true;
    }

    /// An iteration has held so many regions at its most, what persists included. By how many that
    /// is more than before, where it counts as no more: the next one may rise by as much, so that is
    /// part of its [margin](super::margin).
    pub(super) fn note(&mut self, total: u32) -> u32 {
        if self.calm >= STEADY {
            return 0;
        }
        let more = total.saturating_sub(self.most);
        let is_calm = more <= self.most / STEADY_PART;
        self.calm = if is_calm { self.calm + 1 } else { 0 };
        self.most = self.most.max(total);
        if self.learned && is_calm { more } else { 0 }
    }

    /// Whether how long blocks live is learned, of some of them at least.
    pub(super) fn is_learned(&self) -> bool {
        self.learned
    }

    /// Whether those before tell little of what the next iteration takes.
    pub(crate) fn is_learning(&self) -> bool {
        self.learned && self.calm < STEADY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learning(totals: &[u32]) -> bool {
        let mut steadiness = Steadiness::default();
        steadiness.note_learned();
        totals.iter().for_each(|&total| _ = steadiness.note(total));
        steadiness.is_learning()
    }

    #[test]
    fn two_iterations_in_a_row_that_take_no_more_are_enough() {
        for (totals, expected) in [
            (&[][..], true),
            (&[64], true),
            (&[64, 94], true),
            (&[64, 94, 94], true),
            (&[64, 94, 94, 96], false),
            // Two optimizers: the second one's state comes in the third iteration.
            (&[46, 48, 68, 72], true),
            (&[46, 48, 68, 72, 68], false),
            // Once is enough: what comes later is another kind of iteration.
            (&[46, 46, 46, 90], false),
        ] {
            assert_eq!(learning(totals), expected, "{totals:?}");
        }
        assert!(!Steadiness::default().is_learning(), "the job tells how long blocks live");
    }

    #[test]
    fn what_counts_as_no_more_is_told() {
        let mut steadiness = Steadiness::default();
        steadiness.note_learned();
        // The second is more than that, and from the fifth on it is steady.
        let told = [64, 94, 94, 96, 99].map(|total| steadiness.note(total));
        assert_eq!(told, [0, 0, 0, 2, 0]);
        assert_eq!([64, 66].map(|total| Steadiness::default().note(total)), [0, 0], "not learned");
    }
}
