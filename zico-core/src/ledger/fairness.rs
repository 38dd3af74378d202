//! Fairness: nobody who waits is passed over for ever, be it to start an iteration or, within one,
//! for memory.
//!
//! Each counts by how many it has been passed over ([`Bypasses`]): one that waits to start, by
//! those that asked later and were put before it by priority or by the policy; one that waits for
//! memory, by each iteration that begins, since that may take what the other waits for. After 16 it
//! is *overdue*: one that waits to start goes before all that are not, in the order of asking; for
//! one that waits for memory nothing begins until it goes on.
//!
//! In time as well: a job whose iteration ends because its next one begins has just run, and those
//! that wait go first, unless each of them has had more time by an iteration of that job: then it
//! goes on ([`goes_on`]). Else short iterations and long ones that never fit beside each other
//! would take turns one for one, and the job with the short ones would have next to nothing.
//! For the same reason none starts beside an iteration whose job has had less than four fifths of
//! its time and begins the next one at once ([`falls_behind`]), if the two jobs do not fit at their
//! peaks: there would be no room for the next one. That holds for no longer than twice what the
//! iteration usually takes, and not while it waits for memory itself.
//!
//! What counts is the time that a job has on the device ([`Time`](super::account::Time)): where its
//! host is far ahead, an iteration is over there in next to no time.
//! The time of some sixteen of the longest iterations counts for both
//! ([`forget_time`](super::Ledger::forget_time)): a job that was slow to begin, or has done nothing
//! for long, does not catch up with all that others had meanwhile.
//!
//! Where the first in line waits for those that run, others start that would not delay it, by what
//! profiles tell. These may be wrong again and again: of what an iteration leaves behind they know
//! nothing. So what it was told at first holds ([`Reservation`]): later than that no more than 16
//! start before it.
//!
//! So of n jobs an iteration that asks to start is the first in line after at most 16 iterations
//! that were asked for later, and one of each job that asked before it or was passed over as often.
//! Then it waits for those that run, and for nothing that starts later (I5).

use core::cmp::Ordering;

use crate::types::tuning::{LEAST_PART_OF_TIME, MOST_BYPASSES};
use crate::types::units::Ticks;

/// By how many one that waits has been passed over, since it has waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bypasses(u32);

impl Bypasses {
    /// One more was put before it.
    pub(super) fn add(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Nobody may be put before it any more.
    pub(super) const fn is_overdue(self) -> bool {
        self.0 >= MOST_BYPASSES
    }

    /// Who goes first: whoever is overdue. None where the rank decides: neither is.
    pub(super) fn order(self, other: Self) -> Option<Ordering> {
        let overdue = (self.is_overdue(), other.is_overdue());
        (overdue != (false, false)).then(|| overdue.1.cmp(&overdue.0))
    }
}

/// By when the first in line is to start, since others have started that would not delay it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reservation {
    due: Option<Ticks>,
    /// Those that have started later than that.
    late: Bypasses,
}

impl Reservation {
    /// Another one starts now: this one is expected to wait so long, with it or without.
    pub(super) fn note_other(&mut self, wait: Ticks, now: Ticks) {
        let due = *self.due.get_or_insert(now.saturating_add(wait));
        if now > due {
            self.late.add();
        }
    }

    /// It has come to nothing: nothing starts any more that may delay it all the same.
    pub(super) fn is_broken(self) -> bool {
        self.late.is_overdue()
    }
}

/// Whether a job that has had so much time may have another iteration of such a length before one
/// that waits: it has had less than that, and no more even then.
pub(super) fn goes_on(served: Ticks, length: Ticks, waiting: Ticks) -> bool {
    served < waiting && served.saturating_add(length) <= waiting
}

/// Whether a job that has had so much time, and has another iteration of such a length, falls
/// behind one that waits: it has had less than a part of its time ([`LEAST_PART_OF_TIME`]) even
/// then.
pub(super) fn falls_behind(served: Ticks, length: Ticks, waiting: Ticks) -> bool {
    let (part, of) = LEAST_PART_OF_TIME;
    let own = u128::from(served.saturating_add(length).value()) * u128::from(of);
    served < waiting && own <= u128::from(waiting.value()) * u128::from(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(times: u32) -> Bypasses {
        let mut bypasses = Bypasses::default();
        (0..times).for_each(|_| bypasses.add());
        bypasses
    }

    #[test]
    fn whoever_has_been_passed_over_often_enough_goes_first() {
        for (one, other, order) in [
            (0, 15, None),
            (16, 15, Some(Ordering::Less)),
            (0, 16, Some(Ordering::Greater)),
            // Then it counts who has asked first.
            (16, 40, Some(Ordering::Equal)),
        ] {
            assert_eq!(passed(one).order(passed(other)), order, "{one} {other}");
        }
        assert!(!passed(15).is_overdue() && passed(16).is_overdue());
    }

    #[test]
    fn who_goes_on_has_had_less_time_by_an_iteration() {
        let goes = |[served, length, waiting]: [u64; 3]| {
            goes_on(Ticks::new(served), Ticks::new(length), Ticks::new(waiting))
        };
        let cases = [[0, 10, 10], [5, 5, 10], [9, 1, 10], [9, 0, 10]];
        assert!(cases.into_iter().all(goes));
        // Without a clock nobody has had less.
        let cases = [[0, 11, 10], [10, 1, 10], [10, 0, 10], [0, 0, 0], [0, u64::MAX, 10]];
        assert!(!cases.into_iter().any(goes));
    }
}
