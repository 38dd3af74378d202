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

    /// An iteration has held so many regions at its most, what persists included.
    pub(super) fn note(&mut self, total: u32) {
        if self.calm >= STEADY {
            return;
        }
        let more = total > self.most.saturating_add(self.most / STEADY_PART);
        self.calm = if more { 0 } else { self.calm + 1 };
        self.most = self.most.max(total);
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
        totals.iter().for_each(|&total| steadiness.note(total));
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
}
