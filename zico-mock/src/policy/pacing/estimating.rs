//! Our controller: estimates what a block of the opportunistic job costs the production job.
//!
//! On a device that jobs share in proportion, the production job's rate falls in proportion to what
//! the other makes. So a line is fitted through the two, window by window (least squares, old
//! windows fade): where it begins is what the production job makes alone, and its slope is what a
//! block costs. The limit is what costs as much as is allowed. It is there after some windows and
//! stays there, where a search by steps goes up and down around it; where a block costs nothing
//! there is no limit but the one that growth sets.
//!
//! Some windows allow more than others, whatever the estimate, so that there is a slope to see.
//! That is all the measuring there is: nobody rests for it, at the beginning or later. A production
//! job that changes by itself moves the whole line and not its slope.
//!
//! Windows have only time in which production is at an iteration. Where it waits for data, or for
//! nothing, the other one is free, and a rate does not depend on how much of that a window has.

use zico_core::Ticks;

use super::{Controller, Limit, Seen};

/// Longer than an iteration of most jobs, so that a rate is one.
const WINDOW: Ticks = Ticks::millis(2000);
/// The share of the production job's rate that the other may cost: less than what is allowed (3%).
const AIM: f64 = 0.026;
/// What is left of a window's weight after another one.
const FADE: f64 = 0.9;
/// The limit grows by no more than that in a window, and by so many blocks a second at first.
const GROWTH: f64 = 1.5;
const FIRST: f64 = 20_000.0;
/// Where a cost is what limits, every second window allows less than the limit and the others as
/// much more; where it is not, every fourth one allows less. In shares of the limit.
const SWING: f64 = 1.0 / 3.0;
const LESS: f64 = 0.6;
/// The limit is no further above what is made use of.
const ABOVE: f64 = 1.3;
/// What is made use of is the most of the last windows, of which so much is left after another one.
const FORGET: f64 = 0.9;
/// Of the estimate's standard error, so much is in favour of the opportunistic job: else chance
/// would hold it down before enough has been seen.
const DOUBT: f64 = 0.5;

/// The estimating controller. See `pacing/estimating.rs` for how it works.
#[derive(Clone, Debug)]
pub struct Estimating {
    line: Line,
    limit: f64,
    /// The most that the opportunistic job has made lately.
    own: f64,
    windows: u32,
    /// What a block costs is what limits.
    is_bound: bool,
}

/// A line through points of fading weight.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        let Self { n, x: sx, y: sy, xx, xy, yy } = self;
        for (sum, new) in [(n, 1.0), (sx, x), (sy, y), (xx, x * x), (xy, x * y), (yy, y * y)] {
            *sum = FADE * *sum + new;
        }
    }

    /// Where it begins, by how much it falls, and the standard error of that; nothing is known of
    /// the latter where all points are above each other.
    fn fit(&self) -> (f64, f64, f64) {
        let Self { n, x, y, xx, xy, yy } = *self;
        let spread = n * xx - x * x;
        if n < 2.0 || spread <= 1e-6 * n * xx {
            return (y / n.max(1.0), 0.0, 0.0);
        }
        let slope = (n * xy - x * y) / spread;
        let start = (y - slope * x) / n;
        let rest = (yy - start * y - slope * xy).max(0.0) / (n - 2.0).max(1.0);
        (start, -slope, (rest * n / spread).sqrt())
    }
}

impl Default for Estimating {
    fn default() -> Self {
        Self { line: Line::default(), limit: FIRST, own: 0.0, windows: 0, is_bound: false }
    }
}

impl Estimating {
    fn is_less(&self) -> bool {
        self.windows % if self.is_bound { 2 } else { 4 } == 1
    }

    /// The limit of the window that begins.
    fn now(&self) -> Limit {
        Limit::Rate(match (self.is_less(), self.is_bound) {
            (true, true) => (1.0 - SWING) * self.limit,
            (false, true) => (1.0 + SWING) * self.limit,
            (true, false) => LESS * self.limit,
            (false, false) => self.limit,
        })
    }
}

impl Controller for Estimating {
    fn name(&self) -> &'static str {
        "estimating"
    }

    fn window(&self) -> Ticks {
        WINDOW
    }

    fn fills_gaps(&self) -> bool {
        true
    }

    fn first(&self) -> Limit {
        self.now()
    }

    fn next(&mut self, Seen { production, own }: Seen) -> Limit {
        let Some(rate) = production else {
            *self = Self::default();
            return Limit::Free;
        };
        self.line.add(own, rate);
        // A job that pays for what it has made too much makes less than it may for some windows.
        self.own = own.max(FORGET * self.own);
        self.windows = self.windows.wrapping_add(1);
        let (start, cost, error) = self.line.fit();
        let cost = cost - DOUBT * error;
        let bound = if cost > 0.0 { AIM * start / cost } else { f64::INFINITY };
        let used = ABOVE * self.own + FIRST;
        let most = used.min(GROWTH * self.limit);
        self.is_bound = bound < most;
        self.limit = bound.min(most).max(FIRST / 20.0);
        self.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device on which a production job of this rate loses so much of it for each block, beside
    /// one that could make 900,000. The share that it has lost in all.
    fn run(controller: &mut Estimating, rate: f64, cost: f64, windows: usize) -> f64 {
        let (mut limit, mut lost) = (controller.now(), 0.0);
        for _ in 0..windows {
            let Limit::Rate(most) = limit else { panic!("it is not idle") };
            let own = most.min(900_000.0);
            lost += cost * own / rate;
            limit = controller.next(Seen { production: Some(rate - cost * own), own });
        }
        lost / windows as f64
    }

    #[test]
    fn it_finds_what_costs_as_much_as_is_allowed() {
        for cost in [0.1, 0.5, 1.0] {
            let mut controller = Estimating::default();
            let lost = run(&mut controller, 1e6, cost, 100);
            let limit = controller.limit;
            assert!((limit * cost / 1e6 / AIM - 1.0).abs() < 0.02, "{cost}: {limit}");
            assert!(lost < 0.03, "{lost}");
        }
        let mut controller = Estimating::default();
        run(&mut controller, 1e6, 0.0, 30);
        assert!(controller.limit > 900_000.0, "nothing is lost, so nothing is limited");
    }

    #[test]
    fn a_job_that_changes_by_itself_is_no_reason_to_rest() {
        let mut controller = Estimating::default();
        run(&mut controller, 1e6, 1.0, 100);
        let before = controller.limit;
        // A block costs the slower job the same share of its rate.
        let lost = run(&mut controller, 0.5e6, 0.5, 100);
        assert!(lost < 0.04, "a step is noise for some windows: {lost}");
        assert!((controller.limit / before - 1.0).abs() < 0.15, "{}", controller.limit);
    }

    #[test]
    fn one_that_has_left_leaves_the_device_and_what_was_known_of_it() {
        let mut controller = Estimating::default();
        run(&mut controller, 1e6, 1.0, 100);
        assert_eq!(controller.next(Seen { production: None, own: 0.0 }), Limit::Free);
        assert_eq!(controller.now(), Limit::Rate(FIRST));
    }
}
