//! A rule for two jobs that knows the best cycle.
//!
//! The optimum of [`pair`](super::pair) comes with what each state is worth: by how much the best
//! way on from there is ahead of the others. That is worked out once for each two profiles and
//! budget, away from any decision. To decide is then to compare: starting now, or the next later
//! moment that matters. Where an iteration starts at a moment that was not foreseen, because the
//! jobs are not where they should be, what follows is gone through until it comes to states that
//! are known: a job that waits does, at its next later moment. So a decision costs O(iterations
//! that start without delay one after the other), at most `DEPTH` of them.
//!
//! The ratio to beat is the optimum of the long run, not that of some horizon. With a horizon what
//! is cut off at its end decides: looking 1.5 lengths of the longer iteration ahead loses up to 23%
//! against first fit.
//!
//! A job that others have passed often enough starts as soon as it fits.

use std::collections::HashMap;

use super::Case;
use super::cycle::Edge;
use super::greedy::{Decision, FirstFit, Moment, Rule};
use super::pair::{Pair, State, States, signed};

/// A pair with more states than this is left to first fit.
const MOST_STATES: usize = 20_000;

/// So many starts without delay are gone through.
const DEPTH: u32 = 32;

/// Follows the best cycle of two jobs; first fit for any other number.
#[derive(Clone, Debug)]
pub struct Plan {
    known: Option<Known>,
    /// For each job, how many iterations have begun since it asked.
    passed: [i64; 2],
}

/// The best cycle.
#[derive(Clone, Debug)]
struct Known {
    pair: Pair,
    ratio: f64,
    worth: HashMap<State, f64>,
}

/// Something that can be done now.
struct Choice {
    what: Decision,
    edge: Edge,
    to: State,
}

impl Plan {
    /// Works out the best cycle in which iterations miss what does not fit by `margin`.
    #[must_use]
    pub fn new(case: &Case, margin: u64) -> Self {
        Self { known: Known::new(case, signed(margin)), passed: [0; 2] }
    }

    /// The number of states whose worth is known.
    #[must_use]
    pub fn states(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.worth.len())
    }
}

impl Known {
    fn new(case: &Case, margin: i64) -> Option<Self> {
        let pair = Pair::with_margin(case, margin)?;
        if pair.delayed().is_empty() {
            return None;
        }
        let states = States::explore(&pair, MOST_STATES, &pair.delayed())?;
        let (ratio, worth) = states.graph.solve();
        let worth = states.states.into_iter().zip(worth).collect();
        states.exact.then_some(Self { pair, ratio, worth })
    }

    /// What can be done now: who starts, sooner asked first, or waiting.
    fn choices(&self, now: &Moment<'_>) -> Vec<Choice> {
        let nothing = Edge { to: 0, gain: 0.0, cost: 0.0, ended: 0 };
        let &[waits] = now.queue.as_slice() else {
            let start = |(place, &job): (usize, &usize)| {
                let to = State { waits: 1 - job, at: 0 };
                Choice { what: Decision::Start(place), edge: nothing, to }
            };
            return now.queue.iter().enumerate().map(start).collect();
        };
        let state = State { waits, at: now.at[1 - waits].map_or(0, signed) };
        let fits = self.pair.fits(state);
        let ways = self.pair.ways(state).into_iter().enumerate();
        let choice = |(way, (to, edge)): (usize, (State, Edge))| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "one waits, so the work done is the clock"
            )]
            let later = edge.gain as u64;
            let starts = fits && way == 0;
            let what = if starts { Decision::Start(0) } else { Decision::Wait(Some(later)) };
            Choice { what, edge, to }
        };
        ways.map(choice).collect()
    }

    fn worth(&self, state: State, depth: u32) -> f64 {
        if let Some(&worth) = self.worth.get(&state) {
            return worth;
        }
        let ways = self.pair.ways(state).into_iter().filter(|_| depth > 0);
        ways.map(|(to, edge)| self.beyond(edge) + self.worth(to, depth - 1))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// What is gained beyond the best ratio.
    fn beyond(&self, edge: Edge) -> f64 {
        edge.gain - self.ratio * edge.cost
    }

    fn best(&self, now: &Moment<'_>) -> Decision {
        let mut best = (f64::NEG_INFINITY, Decision::Wait(None));
        for Choice { what, edge, to } in self.choices(now) {
            let value = self.beyond(edge) + self.worth(to, DEPTH);
            if value > best.0 + 1e-6 * edge.cost {
                best = (value, what);
            }
        }
        best.1
    }
}

impl Rule for Plan {
    fn decide(&mut self, now: &Moment<'_>) -> Decision {
        let Some(known) = &self.known else { return FirstFit.decide(now) };
        let lengths = known.pair.lengths;
        let often = |job: usize| self.passed[job] > 2 + lengths[job] / lengths[1 - job];
        let decision = match now.queue.first() {
            None => Decision::Wait(None),
            Some(&job) if often(job) => FirstFit.decide(now),
            Some(_) => known.best(now),
        };
        if let Decision::Start(place) = decision {
            now.queue.iter().for_each(|&job| self.passed[job] += 1);
            self.passed[now.queue[place]] = 0;
        }
        decision
    }
}
