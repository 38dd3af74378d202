//! Checkpoints between segments: Chen's rules and Griewank's, as Checkmate's paper generalises them
//! (Chen et al., arXiv 1604.06174; Griewank and Walther, ACM TOMS 2000; Jain et al., `MLSys` 2020,
//! appendix B; `parasj/checkmate`, `solver_common.py`).
//!
//! The forward pass is cut into segments. The checkpoint that each begins with stays from when it
//! is made; the rest of a segment leaves when the forward pass has gone through it, and runs again
//! before the backward pass comes to it, where it stays until that has gone through it. What the
//! backward pass makes runs once.

use alloc::vec::Vec;

use super::retain::{self, Runs};
use crate::relief::problem::Problem;
use crate::relief::{Graph, Relief, Step};

/// Where segments may begin, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relief) enum Rule {
    /// Every sqrt(n)th of n operations.
    Root,
    /// Whenever so many bytes have been made: sizes are tried, and the cheapest that fits counts.
    Greedy,
    /// Every sqrt(n)th of n articulation points of the forward pass: those without which it falls
    /// apart.
    RootArticulated,
    /// Greedy over articulation points.
    GreedyArticulated,
}

/// The sizes of segments that are tried.
const SIZES: u32 = 128;

/// The schedule, if it fits.
pub(in crate::relief) fn steps(graph: &Graph, budget: u64, rule: Rule) -> Option<Vec<Step>> {
    let relief = Relief::new(graph);
    let problem = &relief.problem;
    let boundary = retain::boundary(graph, problem);
    let points: Vec<u32> = match rule {
        Rule::Root | Rule::Greedy => (1..boundary).collect(),
        _ => articulation(problem, boundary),
    };
    let runs = |starts: Vec<u32>| Segments::new(problem, boundary, &starts).runs();
    match rule {
        Rule::Root | Rule::RootArticulated => {
            let every = points.len().isqrt().max(1);
            let starts = points.iter().skip(every - 1).step_by(every).copied().collect();
            retain::cheapest(graph, budget, core::iter::once(runs(starts)), &relief)
        }
        Rule::Greedy | Rule::GreedyArticulated => {
            let all: i64 = (1..boundary).map(|unit| bytes(problem, unit)).sum();
            let mut tried: Vec<Vec<u32>> = Vec::new();
            for size in 1..=SIZES {
                let starts = greedy(problem, &points, boundary, all * i64::from(size) / 128);
                if !tried.contains(&starts) {
                    tried.push(starts);
                }
            }
            retain::cheapest(graph, budget, tried.into_iter().map(runs), &relief)
        }
    }
}

/// The bytes that a unit makes.
fn bytes(problem: &Problem, unit: u32) -> i64 {
    let writes = problem.units[unit as usize].writes.iter();
    writes.map(|&item| problem.items[item as usize].bytes).sum()
}

fn greedy(problem: &Problem, points: &[u32], boundary: u32, size: i64) -> Vec<u32> {
    let mut made = 0;
    let mut starts = Vec::new();
    for unit in 1..boundary {
        made += bytes(problem, unit);
        if made > size && points.binary_search(&unit).is_ok() {
            made = 0;
            starts.push(unit);
        }
    }
    starts
}

/// The units of the forward pass that every path of data goes through: nothing that was made before
/// one is read after it. Views and what only has parameters to read take no part.
pub(in crate::relief) fn articulation(problem: &Problem, boundary: u32) -> Vec<u32> {
    let mut reach = 0;
    let mut points = Vec::new();
    for unit in 1..boundary {
        // What was made before this one is read before it or by it.
        if reach <= unit && bytes(problem, unit) > 0 {
            points.push(unit);
        }
        for &item in &problem.units[unit as usize].writes {
            let readers = &problem.items[item as usize].readers;
            let last = readers[..readers.partition_point(|&reader| reader < boundary)].last();
            reach = reach.max(last.copied().unwrap_or(0));
        }
    }
    points
}

/// When what stays.
pub(in crate::relief) struct Segments<'p> {
    problem: &'p Problem,
    boundary: u32,
    /// The segment of each unit of the forward pass, and whether it begins one.
    of: Vec<u32>,
    begins: Vec<bool>,
    /// The last stage of each segment, and the stages in which the backward pass reads it.
    ends: Vec<u32>,
    windows: Vec<(u32, u32)>,
}

impl<'p> Segments<'p> {
    pub(in crate::relief) fn new(problem: &'p Problem, boundary: u32, starts: &[u32]) -> Self {
        let count = boundary as usize;
        let mut segments = Self {
            problem,
            boundary,
            of: alloc::vec![0; count],
            begins: alloc::vec![false; count],
            ends: starts.iter().copied().chain([boundary]).collect(),
            windows: alloc::vec![(u32::MAX, 0); starts.len() + 1],
        };
        starts.iter().for_each(|&start| segments.begins[start as usize] = true);
        let mut now = 0;
        for unit in 1..boundary {
            now += u32::from(segments.begins[unit as usize]);
            segments.of[unit as usize] = now;
            // A checkpoint is there anyway, and read by the segment before it as well.
            let own = !segments.begins[unit as usize];
            for &item in problem.units[unit as usize].writes.iter().filter(|_| own) {
                let readers = &problem.items[item as usize].readers;
                let window = &mut segments.windows[now as usize];
                for &reader in &readers[readers.partition_point(|&reader| reader < boundary)..] {
                    *window = (window.0.min(reader), window.1.max(reader));
                }
            }
        }
        segments
    }

    /// The runs again.
    pub(in crate::relief) fn runs(&self) -> Runs {
        retain::runs(self.problem, &|item, stage| self.stays(item, stage))
    }

    fn stays(&self, item: u32, stage: u32) -> bool {
        let writer = self.problem.items[item as usize].writer as usize;
        if writer >= self.of.len() || self.begins[writer] {
            return true;
        }
        let segment = self.of[writer] as usize;
        let window = self.windows[segment];
        if stage < self.boundary {
            stage < self.ends[segment]
        } else {
            window.0 <= stage && stage < window.1
        }
    }
}
