//! Whether the blocks of an iteration may lie otherwise than those of its like before it.
//!
//! What an iteration holds depends on what is there when it begins. One that follows an iteration
//! of another kind, or the first that is placed as planned, finds other gaps than its like did:
//! the same blocks fill some regions more. By how much shows soon, and is part of the margin then
//! ([`margin`](crate::learn::margin)); before that it is bounded by a few regions for each arena,
//! however large the job is.

use crate::types::tuning::{REARRANGED, REARRANGED_MARGIN, REARRANGED_PART, USUAL_CHANGES};

/// What of the last iterations may have moved the blocks of the next one.
#[derive(Debug, Default)]
pub(super) struct Arrangement {
    /// Which of the last eight were of another kind than the one before, a bit for each, the newest
    /// lowest.
    changes: u8,
    /// In so many iterations more a plan is new.
    planned: u32,
}

impl Arrangement {
    /// An iteration has ended: of another kind than the one before it, or not.
    pub(super) const fn note(&mut self, changed: bool) {
        self.changes = self.changes << 1 | changed as u8;
        self.planned = self.planned.saturating_sub(1);
    }

    /// Iterations are placed as planned from now on.
    pub(super) const fn note_plan(&mut self) {
        self.planned = REARRANGED;
    }

    /// The least margin of the next iteration, which is promised to take so much, in regions.
    pub(super) fn least_margin(&self, promised: u32) -> u32 {
        let lately = self.changes & ((1 << REARRANGED) - 1);
        // Where kinds change all the time the margin has been shown.
        let is_rare = self.changes.count_ones() <= USUAL_CHANGES;
        if self.planned > 0 || lately != 0 && is_rare {
            REARRANGED_MARGIN.min(promised / REARRANGED_PART)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_kind_counts_for_two_iterations_and_a_plan_too() {
        let mut arrangement = Arrangement::default();
        assert_eq!(arrangement.least_margin(40), 0);
        arrangement.note(true);
        assert_eq!([3, 8, 40, 4000].map(|most| arrangement.least_margin(most)), [0, 2, 4, 4]);
        arrangement.note(false);
        assert_eq!(arrangement.least_margin(40), 4);
        arrangement.note(false);
        assert_eq!(arrangement.least_margin(40), 0);
        arrangement.note_plan();
        assert_eq!(arrangement.least_margin(40), 4);
        arrangement.note(false);
        arrangement.note(false);
        assert_eq!(arrangement.least_margin(40), 0);
    }

    #[test]
    fn where_kinds_change_all_the_time_it_has_been_shown() {
        let mut arrangement = Arrangement::default();
        (0..4).for_each(|_| arrangement.note(true));
        assert_eq!(arrangement.least_margin(40), 4);
        arrangement.note(true);
        assert_eq!(arrangement.least_margin(40), 0);
        (0..4).for_each(|_| arrangement.note(false));
        arrangement.note(true);
        assert_eq!(arrangement.least_margin(40), 4, "eight iterations ago is long ago");
    }
}
