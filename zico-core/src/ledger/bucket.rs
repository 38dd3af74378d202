//! A token bucket without a timer: what it holds is worked out when it is looked at.
//!
//! Tokens are counted in operations times the ticks of the pace's period. So one operation costs
//! `every`, one tick brings `operations`, and nothing is ever rounded. Of what has been done since
//! it was looked at last nobody knows when: that is paid first, and what is left fills up. So a job
//! that keeps to its pace loses nothing, however rarely it is looked at. What has been done beyond
//! the pace is a debt, which is paid before anything else.

use crate::types::pace::Pace;
use crate::types::units::{Progress, Ticks};

/// What a job has saved up of its pace, or owes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pace: Pace,
    /// In operations times `every`. Less than nothing is a debt.
    level: i128,
    /// When it was looked at last, and how far the job had come in its iteration.
    at: Ticks,
    seen: Progress,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(pace: Pace, progress: Progress, now: Ticks) -> Self {
        Self { pace, level: Self::capacity(pace), at: now, seen: progress }
    }

    fn cost(pace: Pace) -> i128 {
        i128::from(pace.every().value())
    }

    fn capacity(pace: Pace) -> i128 {
        i128::from(pace.most_saved()) * Self::cost(pace)
    }

    /// The job has come so far, and it is so late. A clock that is behind stands still.
    pub(super) fn settle(&mut self, progress: Progress, now: Ticks) {
        let spent = i128::from(progress.saturating_sub(self.seen).value());
        let time = i128::from(now.saturating_sub(self.at).value());
        let paid = self.level.saturating_sub(spent.saturating_mul(Self::cost(self.pace)));
        let earned = time.saturating_mul(i128::from(self.pace.operations()));
        self.level = paid.saturating_add(earned).min(Self::capacity(self.pace));
        (self.at, self.seen) = (self.at.at_least(now), self.seen.at_least(progress));
    }

    /// The count of progress begins anew. What has been made before has been settled.
    pub(super) fn restart(&mut self) {
        self.seen = Progress::ZERO;
    }

    /// Another pace from now on. What has been saved up or is owed stays so many operations; of
    /// what has been begun to be earned nothing does.
    pub(super) fn change(&mut self, pace: Pace) {
        let tokens = self.level.div_euclid(Self::cost(self.pace));
        self.level = tokens.saturating_mul(Self::cost(pace)).min(Self::capacity(pace));
        self.pace = pace;
    }

    /// The time from when it was looked at last until there is a token: none if there is one,
    /// [`Ticks::MAX`] if there never will be.
    pub(super) fn delay(&self) -> Ticks {
        let missing = Self::cost(self.pace).saturating_sub(self.level);
        if missing <= 0 {
            return Ticks::ZERO;
        }
        match u128::from(self.pace.operations()) {
            0 => Ticks::MAX,
            each => {
                let time = missing.unsigned_abs().div_ceil(each);
                Ticks::new(u64::try_from(time).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace::new(3, Ticks::new(10)).burst(6);

    #[test]
    fn it_fills_up_to_its_burst_and_no_further() {
        let mut bucket = Bucket::new(PACE, Progress::ZERO, Ticks::ZERO);
        assert_eq!(bucket.delay(), Ticks::ZERO);
        bucket.settle(Progress::new(6), Ticks::ZERO);
        // A token is a third of ten ticks.
        assert_eq!(bucket.delay(), Ticks::new(4));
        bucket.settle(Progress::new(6), Ticks::new(4));
        assert_eq!(bucket.delay(), Ticks::ZERO);
        bucket.settle(Progress::new(6), Ticks::new(1_000_000));
        bucket.settle(Progress::new(12), Ticks::new(1_000_000));
        assert_eq!(bucket.delay(), Ticks::new(4), "no more than six were saved up");
    }

    #[test]
    fn what_was_done_beyond_the_pace_is_paid_first() {
        let mut bucket = Bucket::new(PACE, Progress::ZERO, Ticks::ZERO);
        bucket.settle(Progress::new(36), Ticks::ZERO);
        // 30 owed and one to go on with: 31 thirds of ten ticks.
        assert_eq!(bucket.delay(), Ticks::new(104));
        bucket.settle(Progress::new(36), Ticks::new(103));
        assert_eq!(bucket.delay(), Ticks::new(1));
    }

    #[test]
    fn who_keeps_to_the_pace_loses_nothing_however_rarely_it_is_looked_at() {
        let mut bucket = Bucket::new(PACE.burst(1), Progress::ZERO, Ticks::ZERO);
        for round in 1..100 {
            bucket.settle(Progress::new(300), Ticks::new(1000 * round));
            assert_eq!(bucket.delay(), Ticks::ZERO, "{round}");
            bucket.restart();
        }
    }

    #[test]
    fn neither_a_clock_nor_progress_that_runs_backwards_gives_or_takes_any() {
        let mut bucket = Bucket::new(PACE, Progress::new(5), Ticks::new(100));
        bucket.settle(Progress::new(11), Ticks::new(100));
        bucket.settle(Progress::new(2), Ticks::new(50));
        assert_eq!(bucket.delay(), Ticks::new(4));
        bucket.settle(Progress::new(11), Ticks::new(100));
        assert_eq!(bucket.delay(), Ticks::new(4));
    }

    #[test]
    fn a_change_of_pace_keeps_what_is_owed() {
        let mut bucket = Bucket::new(PACE, Progress::ZERO, Ticks::ZERO);
        bucket.settle(Progress::new(16), Ticks::ZERO);
        bucket.change(Pace::new(1, Ticks::new(7)));
        assert_eq!(bucket.delay(), Ticks::new(77), "ten owed and one to go on with");
        bucket.change(Pace::HALT);
        assert_eq!(bucket.delay(), Ticks::MAX);
        bucket.settle(Progress::new(16), Ticks::MAX);
        assert_eq!(bucket.delay(), Ticks::MAX);
        bucket.change(Pace::new(11, Ticks::new(1)));
        assert_eq!(bucket.delay(), Ticks::new(1));
    }

    #[test]
    fn the_largest_figures_do_not_wrap() {
        let most = Pace::new(u32::MAX, Ticks::MAX).burst(u32::MAX);
        let mut bucket = Bucket::new(most, Progress::ZERO, Ticks::ZERO);
        for round in 0..100 {
            bucket.settle(Progress::MAX, Ticks::new(round));
            bucket.restart();
        }
        assert!(bucket.delay() > Ticks::new(u64::MAX / 2));
        bucket.change(Pace::new(1, Ticks::MAX));
        assert_eq!(bucket.delay(), Ticks::MAX);
        bucket.settle(Progress::MAX, Ticks::MAX);
        bucket.change(Pace::new(u32::MAX, Ticks::ZERO));
        assert!(bucket.delay() < Ticks::new(200));
    }
}
