//! Griewank and Walther's binomial checkpointing (REVOLVE, ACM TOMS 2000) over the articulation
//! points of the forward pass, as Checkmate's paper has it beside its own (Jain et al., `MLSys`
//! 2020, section 6; `parasj/checkmate`, `strategy_griewank.py`).
//!
//! The chain of articulation points is turned back with a number of places for checkpoints. All
//! that lies between two points runs again each time and stays only for the next stage. The numbers
//! of places are tried, and the cheapest that fits counts. Checkmate loads the schedules of the
//! chain from a file that is no longer to be had; here they are computed.

use alloc::vec::Vec;

use super::retain;
use super::segments::articulation;
use crate::relief::problem::Problem;
use crate::relief::{Graph, Relief, Step};

/// The schedule, if it fits.
pub(in crate::relief) fn steps(graph: &Graph, budget: u64) -> Option<Vec<Step>> {
    let relief = Relief::new(graph);
    let problem = &relief.problem;
    let boundary = retain::boundary(graph, problem);
    let points = articulation(problem, boundary);
    let counts = counts(points.len());
    let runs = counts.into_iter().map(|places| {
        let ranges = Chain::new(problem, boundary, &points).reverse(places);
        runs(problem, boundary, &points, &ranges)
    });
    retain::cheapest(graph, budget, runs, &relief)
}

/// Numbers of places to try: each up to 16, and then ever larger ones.
fn counts(points: usize) -> Vec<usize> {
    let mut all = Vec::new();
    let mut next = 1;
    while next < points {
        all.push(next);
        next += (next / 16).max(1);
    }
    all.push(points);
    all
}

/// From one stage to another a point stays: its position, and the stages.
type Range = (usize, u32, u32);

fn runs(problem: &Problem, boundary: u32, points: &[u32], ranges: &[Range]) -> retain::Runs {
    let mut position = alloc::vec![usize::MAX; problem.units.len()];
    points.iter().enumerate().for_each(|(at, &unit)| position[unit as usize] = at);
    let mut of: Vec<Vec<(u32, u32)>> = alloc::vec![Vec::new(); points.len()];
    ranges.iter().for_each(|&(at, from, to)| of[at].push((from, to)));
    retain::runs(problem, &|item, stage| {
        let writer = problem.items[item as usize].writer;
        let known = &problem.items[item as usize];
        if writer >= boundary {
            return true;
        }
        // What is made in a stage of the forward pass is there for those up to the next point.
        let next = points.partition_point(|&point| point <= known.writer);
        let next = points.get(next).copied().unwrap_or(boundary);
        if stage < next {
            return true;
        }
        let at = position[writer as usize];
        at < of.len() && of[at].iter().any(|&(from, to)| (from..to).contains(&stage))
    })
}

/// A chain of points, and when the backward pass has gone through what follows each.
struct Chain {
    points: Vec<u32>,
    /// The last stage that reads what was made from each point on up to the next.
    turned: Vec<u32>,
    ranges: Vec<Range>,
}

impl Chain {
    fn new(problem: &Problem, boundary: u32, points: &[u32]) -> Self {
        let mut turned = alloc::vec![boundary; points.len()];
        for unit in 1..boundary {
            let at = points.partition_point(|&point| point <= unit);
            let Some(last) = at.checked_sub(1).and_then(|at| turned.get_mut(at)) else { continue };
            for &item in &problem.units[unit as usize].writes {
                let end = problem.items[item as usize].readers.last().copied().unwrap_or(0);
                *last = (*last).max(end);
            }
        }
        // A point is turned back after all that follow.
        for at in (1..turned.len()).rev() {
            turned[at - 1] = turned[at - 1].max(turned[at]);
        }
        Self { points: points.to_vec(), turned, ranges: Vec::new() }
    }

    fn reverse(mut self, places: usize) -> Vec<Range> {
        let begin = self.points.first().copied().unwrap_or(0);
        self.part(0, self.points.len(), places, begin);
        self.ranges
    }

    /// Turns back the points from one position up to another with so many places, the first of
    /// which is taken by what lies at `from`. It begins at a stage.
    fn part(&mut self, from: usize, to: usize, places: usize, stage: u32) {
        if from >= to {
            return;
        }
        self.ranges.push((from, stage, self.turned[from]));
        // Advance to a middle, turn back what follows with a place less, and then what is before.
        let mut end = to;
        let mut now = stage;
        while end > from + 1 {
            if places < 2 {
                return;
            }
            let middle = from + split(end - from, places);
            let begin = now.max(self.points[middle]);
            self.part(middle, end, places - 1, begin);
            now = self.turned[middle];
            end = middle;
        }
    }
}

/// How far to advance before the next checkpoint in a chain of so many steps, with so many places:
/// by REVOLVE's rule, from the binomial numbers beta(s, r) = (s + r)! / (s! r!).
fn split(steps: usize, places: usize) -> usize {
    // One place holds the beginning; revolve counts it among its snapshots.
    let mut sweeps = 0;
    while beta(places, sweeps) < steps as u128 {
        sweeps += 1;
    }
    let Some(less) = sweeps.checked_sub(1) else { return 1 };
    let all = steps as u128;
    let most = beta(places, less);
    let least = if less == 0 { 0 } else { beta(places, less - 1) };
    let low = beta(places - 1, less);
    let lower = if less == 0 { 0 } else { beta(places.saturating_sub(1), less - 1) };
    let later = if places < 2 { 0 } else { beta(places - 2, less) };
    let advance = if all <= lower + most {
        least
    } else if all >= beta(places, sweeps).saturating_sub(later) {
        most
    } else {
        all.saturating_sub(lower).saturating_sub(low)
    };
    usize::try_from(advance).unwrap_or(1).clamp(1, steps - 1)
}

/// The longest chain that can be turned back with so many places and each step repeated at most so
/// often; saturating.
fn beta(places: usize, sweeps: usize) -> u128 {
    let mut product: u128 = 1;
    for at in 1..=sweeps.min(places) as u128 {
        let top = (places + sweeps) as u128 - at + 1;
        product = product.saturating_mul(top) / at;
    }
    product
}
