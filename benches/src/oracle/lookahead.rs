//! A rule that looks ahead: it starts an iteration at the first moment that fits, unless first fit
//! would do better from here on if that job were held back for a while.
//!
//! Whenever first fit would start a job, the rule also tries to hold that job back: until it fits
//! again beside one that runs, until that one's next iteration would fit beside it at once, or
//! until another job has started. Each try goes on by first fit for some iterations' worth of
//! clock, and what does most work per time is chosen; first fit if nothing is better. A job that
//! every other one has passed is held back no more, so it waits for a bounded number of iterations.

use super::Case;
use super::greedy::{Decision, FirstFit, Moment, Rule, advance};
use super::pair::{Offsets, signed};

/// First fit with a look at what comes of it.
#[derive(Clone, Debug)]
pub struct Lookahead {
    /// How far, in lengths of the longest iteration.
    horizon: u64,
    /// For each job, how many iterations have begun since it asked.
    passed: Vec<usize>,
    held: Option<Hold>,
    /// For each two jobs, which offsets do not fit.
    offsets: Vec<Offsets>,
}

/// A job is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    job: usize,
    until: Until,
}

/// Until when a job is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// So much clock from now.
    Clock(u64),
    /// This job starts.
    Start(usize),
}

impl Lookahead {
    /// Looks ahead by `horizon` lengths of the longest iteration.
    #[must_use]
    pub fn new(case: &Case, horizon: u64) -> Self {
        let waves = &case.waves;
        let offsets = waves
            .iter()
            .flat_map(|own| waves.iter().map(|other| Offsets::forbidden(own, other, case.room)));
        Self { horizon, passed: vec![0; waves.len()], held: None, offsets: offsets.collect() }
    }

    /// What may be tried instead of starting `job`.
    fn holds(&self, now: &Moment<'_>, job: usize) -> Vec<Hold> {
        let jobs = now.at.len();
        if self.passed[job] + 1 >= jobs {
            return Vec::new();
        }
        let others = (0..jobs).filter(|&other| other != job);
        let mut holds: Vec<Hold> =
            others.clone().map(|other| Hold { job, until: Until::Start(other) }).collect();
        let left = |other: usize| Some(signed(now.case.waves[other].length() - now.at[other]?));
        let soonest = others.clone().filter_map(left).min().unwrap_or_default();
        for other in others {
            let (Some(at), Some(left)) = (now.at[other].map(signed), left(other)) else { continue };
            // Until it fits again; until the other's next iteration, if it begins at once, fits
            // too.
            let gaps = |own: usize, other: usize| self.offsets[own * jobs + other].gaps().iter();
            let again = gaps(job, other).map(|gap| gap.1 - at);
            let next = gaps(other, job).filter(|gap| gap.0 >= 0).map(|gap| left - gap.0);
            let delays = again.chain(next).filter(|delay| (1..soonest).contains(delay));
            holds.extend(
                delays.map(|delay| Hold { job, until: Until::Clock(delay.unsigned_abs()) }),
            );
        }
        holds
    }

    /// Work per time up to the horizon if `hold` is kept.
    fn value(&self, mut now: Moment<'_>, hold: Option<Hold>) -> f64 {
        let longest = now.case.waves.iter().map(super::Wave::length).max().unwrap_or_default();
        let (mut left, mut work, mut time) = (self.horizon * longest, 0.0, 0.0);
        let mut hold = hold;
        while left > 0 {
            let most = settle(&mut now, &mut hold);
            let running = now.at.iter().flatten().count();
            let ends = (0..now.at.len())
                .filter_map(|job| Some(now.case.waves[job].length() - now.at[job]?));
            let Some(end) = ends.min() else { return 0.0 };
            let clock = most.map_or(end, |most| end.min(most.max(1))).min(left);
            left -= clock;
            work += running as f64 * clock as f64;
            time += clock as f64 * now.case.stretch(running);
            if let Some(Hold { until: Until::Clock(until), .. }) = &mut hold {
                *until = until.saturating_sub(clock);
            }
            advance(&mut now, clock);
        }
        work / time
    }
}

/// Starts all that first fit starts while `hold` is kept; how long nothing more will.
fn settle(now: &mut Moment<'_>, hold: &mut Option<Hold>) -> Option<u64> {
    loop {
        if now.at.iter().all(Option::is_none) && now.queue.len() == 1 {
            *hold = None;
        }
        if hold.is_some_and(|hold| hold.until == Until::Clock(0)) {
            *hold = None;
        }
        let held = hold.map(|hold| hold.job);
        let back = held.and_then(|job| now.queue.iter().position(|&waits| waits == job));
        if let Some(place) = back {
            now.queue.remove(place);
        }
        let decision = FirstFit.decide(now);
        if let (Some(place), Some(job)) = (back, held) {
            now.queue.insert(place, job);
        }
        match decision {
            Decision::Start(place) => {
                let place = if back.is_some_and(|back| back <= place) { place + 1 } else { place };
                let job = now.queue.remove(place);
                now.at[job] = Some(0);
                if hold.is_some_and(|hold| hold.until == Until::Start(job)) {
                    *hold = None;
                }
            }
            Decision::Wait(most) => {
                let release = match hold {
                    Some(Hold { until: Until::Clock(until), .. }) => Some(*until),
                    _ => None,
                };
                return most.into_iter().chain(release).min();
            }
        }
    }
}

impl Rule for Lookahead {
    fn decide(&mut self, now: &Moment<'_>) -> Decision {
        self.held = None;
        let mut open = now.clone();
        loop {
            let decision = FirstFit.decide(&open);
            let Decision::Start(place) = decision else {
                let Decision::Wait(most) = decision else { return decision };
                let release = match self.held {
                    Some(Hold { until: Until::Clock(until), .. }) => Some(until),
                    _ => None,
                };
                return Decision::Wait(most.into_iter().chain(release).min());
            };
            let job = open.queue[place];
            let mut best = (self.value(now.clone(), None) * (1.0 + 1e-6), None);
            if self.held.is_none() && (now.queue.len() > 1 || now.at.iter().any(Option::is_some)) {
                for hold in self.holds(now, job) {
                    let value = self.value(now.clone(), Some(hold));
                    if value > best.0 {
                        best = (value, Some(hold));
                    }
                }
            }
            let Some(hold) = best.1 else {
                for &other in &now.queue {
                    self.passed[other] += 1;
                }
                self.passed[job] = 0;
                let original = now.queue.iter().position(|&waits| waits == job).unwrap_or(place);
                return Decision::Start(original);
            };
            self.held = Some(hold);
            open.queue.remove(place);
        }
    }
}
