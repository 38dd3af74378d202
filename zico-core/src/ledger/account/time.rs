//! The time that a job has had.
//!
//! A job has the time in which its host is within an iteration and does not wait for memory, and
//! the time in which the device has yet to pass something that it has given up. Where the host is
//! far ahead of the device it comes to the end of an iteration in next to no time: what counts then
//! is the device's. What has been passed and not been looked at counts until it is.

use super::super::run::Phase;
use super::Account;
use crate::types::units::Ticks;

/// How much time a job has had.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ledger) struct Time {
    /// In all.
    served: Ticks,
    /// Of late ([`fairness`](super::super::fairness)).
    lately: Ticks,
    /// Counted up to here.
    counted: Ticks,
    /// It has had the time since.
    runs: bool,
}

impl Time {
    /// In all.
    pub(in crate::ledger) const fn served(&self) -> Ticks {
        self.served
    }

    /// Of late.
    pub(in crate::ledger) const fn lately(&self) -> Ticks {
        self.lately
    }

    /// Counts what it has had up to now; from here on it has the time, or not.
    fn count(&mut self, now: Ticks, runs: bool) {
        let had = if self.runs { now.saturating_sub(self.counted) } else { Ticks::ZERO };
        self.served = self.served.saturating_add(had);
        self.lately = self.lately.saturating_add(had);
        (self.counted, self.runs) = (self.counted.at_least(now), runs);
    }

    /// What it has had counts no more.
    pub(in crate::ledger) const fn forget(&mut self) {
        (self.served, self.lately) = (Ticks::ZERO, Ticks::ZERO);
    }

    /// What was long ago counts half; or it does not count at all.
    pub(in crate::ledger) const fn fade(&mut self, all: bool) {
        self.lately = Ticks::new(if all { 0 } else { self.lately.value() / 2 });
    }
}

impl Account {
    /// Something has changed that decides whether it has the time.
    pub(in crate::ledger) fn count_time(&mut self, now: Ticks) {
        let is_within = matches!(self.phase, Phase::Running(_)) && self.stall.is_none();
        self.time.count(now, is_within || !self.fenced.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_while_a_job_has_it() {
        let mut time = Time::default();
        let at = Ticks::new;
        for (now, runs) in [(5, true), (7, true), (10, false), (20, true), (15, true), (21, false)]
        {
            time.count(at(now), runs);
        }
        // From 5 to 10, and from 20 to 21: time does not go back.
        assert_eq!((time.served(), time.lately()), (at(6), at(6)));
        time.fade(false);
        assert_eq!((time.served(), time.lately()), (at(6), at(3)));
        time.fade(true);
        assert_eq!((time.served(), time.lately()), (at(6), at(0)));
        time.forget();
        assert_eq!(time.served(), at(0));
    }
}
