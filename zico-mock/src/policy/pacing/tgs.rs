//! TGS's rate controller.
//!
//! Wu, Zhang, Bai, Liu, Jin: *Transparent GPU Sharing in Container Clouds for Deep Learning
//! Workloads*, NSDI 2023, section 4.1, with the constants of the authors' artifact
//! (`pkusys/TGS`). What neither states is marked as inferred.

use zico_core::Ticks;

use super::{Controller, Limit, Seen};

/// The production job's rate is taken over so long ...
const WINDOW: Ticks = Ticks::millis(5000);
/// ... and the opportunistic one's limit is for so long: seconds.
const OWN_WINDOW: f64 = 0.05;
/// Samples that have to agree ...
const SAMPLES: usize = 5;
/// ... within this share.
const AGREE: f64 = 0.05;
/// Up to this share below its own rate the production job counts as not slowed.
const FINE: f64 = 0.03;
/// The first limit: blocks in 50 ms.
const FIRST: f64 = 20_000.0;
/// From that share on it is slowed badly.
const BAD: f64 = 0.09;
/// From that share on, for so many windows, it has changed by itself.
const CHANGED: (f64, u32) = (0.12, 20);
/// A window with fewer blocks is idle, and the job if more than two of five are.
const IDLE: f64 = 1000.0;
/// Of an idle job's partner: blocks in 50 ms. Inferred: twice of what the whole device makes.
const CAP: f64 = 100_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Profile,
    SlowStart,
    Avoid,
}

/// TGS's controller, as published: profile, `SLOW_START`, `AVOID`, idle, gone.
#[derive(Clone, Debug)]
pub struct Tgs {
    state: State,
    /// The production job's last rates: blocks in 5 s.
    last: Vec<f64>,
    /// What it makes when it is not slowed.
    max_rate: f64,
    /// Blocks in 50 ms.
    limit: f64,
    slowed: u32,
}

impl Default for Tgs {
    fn default() -> Self {
        Self { state: State::Profile, last: Vec::new(), max_rate: 0.0, limit: 0.0, slowed: 0 }
    }
}

impl Tgs {
    fn is_idle(&self) -> bool {
        self.last.iter().filter(|&&rate| rate < IDLE).count() > 2
    }

    fn profile(&mut self) {
        let most = self.last.iter().copied().fold(0.0, f64::max);
        let least = self.last.iter().copied().fold(f64::MAX, f64::min);
        if self.last.len() == SAMPLES && most - least <= AGREE * most {
            self.max_rate = most;
            (self.state, self.limit) = (State::SlowStart, FIRST);
        }
    }

    fn adjust(&mut self, rate: f64, own: f64) {
        // Inferred: one that is faster than it was profiled is not slowed.
        self.max_rate = self.max_rate.max(rate);
        let delta = (rate - self.max_rate).abs() / self.max_rate.max(1.0);
        self.slowed = if delta >= CHANGED.0 { self.slowed + 1 } else { 0 };
        if self.slowed >= CHANGED.1 {
            self.max_rate *= 0.8;
            (self.limit, self.state, self.slowed) = (self.limit / 2.0, State::SlowStart, 0);
            return;
        }
        let is_fine = delta <= FINE;
        match self.state {
            State::SlowStart if is_fine => self.limit = (1.5 * self.limit + 1.0).min(3.0 * own),
            State::SlowStart => (self.limit, self.state) = (self.limit / 1.5, State::Avoid),
            _ if is_fine => self.limit += (0.00025 * self.max_rate).max(1000.0),
            _ if delta >= BAD => {
                (self.limit, self.state) = (self.limit / 10.0, State::SlowStart);
            }
            _ => self.limit -= (0.08 * self.limit).max(1000.0),
        }
        // Inferred: a job that makes nothing would be held to three times nothing for ever.
        self.limit = self.limit.clamp(1.0, CAP);
    }
}

impl Controller for Tgs {
    fn name(&self) -> &'static str {
        "tgs"
    }

    fn window(&self) -> Ticks {
        WINDOW
    }

    fn next(&mut self, Seen { production, own }: Seen) -> Limit {
        let Some(rate) = production else {
            *self = Self::default();
            return Limit::Free;
        };
        let rate = rate * WINDOW.seconds();
        if self.last.len() == SAMPLES {
            self.last.remove(0);
        }
        self.last.push(rate);
        match self.state {
            State::Profile if self.is_idle() => return Limit::Rate(CAP / OWN_WINDOW),
            State::Profile => self.profile(),
            _ if self.is_idle() => self.limit = CAP,
            _ => self.adjust(rate, own * OWN_WINDOW),
        }
        Limit::Rate(self.limit / OWN_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit in blocks of 50 ms, of a production job that makes so many in 5 s and an
    /// opportunistic one that makes so many in 50 ms.
    fn next(tgs: &mut Tgs, rate: f64, own: f64) -> f64 {
        match tgs.next(Seen { production: Some(rate / 5.0), own: own / OWN_WINDOW }) {
            Limit::Rate(rate) => (rate * OWN_WINDOW).round(),
            Limit::Free => f64::INFINITY,
        }
    }

    fn profiled() -> Tgs {
        let mut tgs = Tgs::default();
        for rate in [9e6, 1e7, 0.98e7, 1e7, 0.97e7] {
            assert_eq!(next(&mut tgs, rate, 0.0), 0.0);
        }
        assert_eq!(next(&mut tgs, 1e7, 0.0), 20_000.0, "five that agree within 5%");
        tgs
    }

    #[test]
    fn slow_start_grows_by_half_and_no_further_than_three_times_what_is_used() {
        let mut tgs = profiled();
        assert_eq!(next(&mut tgs, 0.98e7, 20_000.0), 30_001.0);
        assert_eq!(next(&mut tgs, 0.98e7, 12_000.0), 36_000.0);
        assert_eq!(next(&mut tgs, 0.96e7, 12_000.0), 24_000.0, "and falls by a third");
        // AVOID: 0.00025 of 1e7 blocks, while it is fine.
        assert_eq!(next(&mut tgs, 0.98e7, 12_000.0), 26_500.0);
        assert_eq!(next(&mut tgs, 0.95e7, 12_000.0), 24_380.0, "8% less");
        assert_eq!(next(&mut tgs, 0.90e7, 12_000.0), 2_438.0, "a tenth, and slow start");
        assert_eq!(next(&mut tgs, 1e7, 2_000.0), 3_658.0);
    }

    #[test]
    fn the_least_steps_are_a_thousand() {
        let mut tgs = profiled();
        next(&mut tgs, 0.96e7, 9e9);
        tgs.limit = 5_000.0;
        assert_eq!(next(&mut tgs, 0.96e7, 9e9), 4_000.0);
        tgs.max_rate = 1e6;
        assert_eq!(next(&mut tgs, 1e6, 9e9), 5_000.0);
    }

    #[test]
    fn twenty_slow_windows_are_another_job() {
        let mut tgs = profiled();
        for _ in 0..19 {
            next(&mut tgs, 0.85e7, 9e9);
            assert_eq!(tgs.max_rate, 1e7);
        }
        tgs.limit = 800.0;
        assert_eq!(next(&mut tgs, 0.85e7, 9e9), 400.0);
        assert_eq!((tgs.max_rate, tgs.state), (0.8e7, State::SlowStart));
    }

    #[test]
    fn an_idle_job_leaves_the_device_and_one_that_has_gone_as_well() {
        let mut tgs = profiled();
        assert!(next(&mut tgs, 999.0, 9e9) < 30_000.0);
        assert!(next(&mut tgs, 0.0, 9e9) < 30_000.0);
        assert_eq!(next(&mut tgs, 0.0, 9e9), 100_000.0, "three of five windows");
        assert_eq!(tgs.next(Seen { production: None, own: 0.0 }), Limit::Free);
        assert_eq!(next(&mut tgs, 1e7, 0.0), 0.0, "another one is profiled");
    }
}
