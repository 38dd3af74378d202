//! Plans by two sets: what moves between the forward and the backward pass, and what runs again.

use alloc::vec::Vec;

use super::retain;
use crate::relief::problem::Problem;
use crate::relief::swap::{self, Gap, Move};
use crate::relief::{Graph, Kind, Link, Relief, Step, simulate};

/// The gaps of storages between their last use in the forward pass and their first in the backward
/// pass, by storage.
pub(in crate::relief) fn saved_gaps(graph: &Graph) -> Vec<Gap> {
    let boundary = graph.backward();
    let mut gaps = swap::gaps(graph, 1);
    gaps.retain(|gap| gap.from <= boundary && gap.before >= boundary);
    gaps.sort_unstable_by_key(|gap| (gap.from, gap.storage));
    gaps
}

/// Whether each operation is a layer that takes its time: a convolution or a product. Where nobody
/// said what operations are, those of the forward pass are that take longer than the mean.
pub(in crate::relief) fn heavy(graph: &Graph) -> Vec<bool> {
    let forward = graph.backward() as usize;
    let operations = &graph.operations()[..forward.min(graph.operations().len())];
    let sum: u64 = operations.iter().map(|operation| operation.nanos).sum();
    let mean = sum / operations.len().max(1) as u64;
    (0_u32..)
        .zip(graph.operations())
        .map(|(at, operation)| graph.kind(at).map_or(operation.nanos > mean, Kind::is_heavy))
        .collect()
}

/// What is chosen of storages.
#[derive(Clone, Debug)]
pub(in crate::relief) struct Choice {
    /// These move to the host between the passes.
    pub(in crate::relief) moved: Vec<Gap>,
    /// Whether each storage leaves after the forward pass and is made again.
    pub(in crate::relief) dropped: Vec<bool>,
    /// Whether each that is made again stays for the rest of the backward pass.
    pub(in crate::relief) stays: Vec<bool>,
}

impl Choice {
    /// Nothing leaves.
    pub(in crate::relief) fn nothing(graph: &Graph) -> Self {
        let count = graph.storages().len();
        let (dropped, stays) = (alloc::vec![false; count], alloc::vec![true; count]);
        Self { moved: Vec::new(), dropped, stays }
    }

    /// The schedule and its time, if it fits: transfers as early and as late as they can, and if
    /// that does not fit, back only when they are needed.
    pub(in crate::relief) fn steps(
        &self,
        graph: &Graph,
        link: &Link,
        budget: u64,
    ) -> Option<(u64, Vec<Step>)> {
        let gaps = self.needed(graph);
        let times = swap::times(graph);
        let placed = swap::place(graph, link, &gaps, &times);
        let early: Vec<Move> = placed
            .into_iter()
            .zip(&gaps)
            .map(|(one, gap)| one.unwrap_or_else(|| gap.late()))
            .collect();
        let late: Vec<Move> = gaps.iter().map(Gap::late).collect();
        [early, late].into_iter().find_map(|moves| self.with(graph, link, budget, moves))
    }

    /// The schedule with these moves and its time, if it fits.
    pub(in crate::relief) fn with(
        &self,
        graph: &Graph,
        link: &Link,
        budget: u64,
        moves: Vec<Move>,
    ) -> Option<(u64, Vec<Step>)> {
        let relief = Relief::with_moves(graph, moves);
        let problem = &relief.problem;
        let boundary = retain::boundary(graph, problem);
        let runs = retain::runs(problem, &|item, stage| {
            let storage = problem.items[item as usize].storage as usize;
            !self.dropped[storage]
                || if stage < boundary {
                    stage < retain::around(problem, item, boundary).0
                } else {
                    self.stays[storage]
                }
        });
        let timeline = retain::timeline(problem, budget, &runs);
        let steps = retain::steps(graph, &timeline, &relief.moves);
        let nanos = simulate(graph, link, &steps, budget).ok()?.nanos;
        Some((nanos, steps))
    }

    /// The gaps, each up to the first operation before which the storage is read, or something that
    /// is made of it again.
    fn needed(&self, graph: &Graph) -> Vec<Gap> {
        let relief = Relief::new(graph);
        let problem = &relief.problem;
        let boundary = retain::boundary(graph, problem);
        let mut first: Vec<u32> = (0..u32::try_from(problem.items.len()).unwrap_or(u32::MAX))
            .map(|item| retain::around(problem, item, boundary).1)
            .collect();
        for unit in problem.units[..boundary as usize].iter().rev() {
            let dropped = unit
                .writes
                .iter()
                .filter(|&&item| self.dropped[problem.items[item as usize].storage as usize]);
            let Some(needed) = dropped.map(|&item| first[item as usize]).min() else { continue };
            for &item in &unit.reads {
                first[item as usize] = first[item as usize].min(needed);
            }
        }
        let gap =
            |gap: &Gap| Some(Gap { before: before(problem, gap, &first).min(gap.before), ..*gap });
        self.moved.iter().filter_map(gap).filter(|gap| gap.before > gap.from).collect()
    }
}

/// The operation that a stage begins with in which a storage is needed first.
fn before(problem: &Problem, gap: &Gap, first: &[u32]) -> u32 {
    let Some(item) = problem.item(gap.storage) else { return gap.before };
    let unit = problem.units.get(first[item as usize] as usize);
    unit.and_then(|unit| unit.operations.first().copied()).unwrap_or(gap.before)
}

/// The fewest of some choices that fit, tried in steps of about a 32nd.
pub(in crate::relief) fn fewest(
    count: usize,
    mut choice: impl FnMut(usize) -> Option<(u64, Vec<Step>)>,
) -> Option<Vec<Step>> {
    let step = count.div_ceil(32).max(1);
    let mut tried = (0..count).step_by(step).chain([count]);
    tried.find_map(&mut choice).map(|found| found.1)
}
