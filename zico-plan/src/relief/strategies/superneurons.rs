//! `SuperNeurons` (Wang et al., `PPoPP` 2018): liveness; a tensor pool to which the outputs of
//! convolutions and fully connected layers are offloaded, the least recently used first, on
//! shortage; and cost-aware recomputation of the layers between them.
//!
//! A segment between two such layers that is no larger than the largest working set of a backward
//! layer runs again once and stays (speed-centric); a larger one runs again for each backward layer
//! (memory-centric). There segments run again from the start; here only where offloading alone does
//! not fit.

use alloc::vec::Vec;

use super::mixed::{self, Choice};
use crate::relief::swap::Gap;
use crate::relief::{Graph, Link, Step};

/// The schedule, if it fits.
pub(in crate::relief) fn steps(
    graph: &Graph,
    link: &Link,
    budget: u64,
    recomputes: bool,
) -> Option<Vec<Step>> {
    let heavy = mixed::heavy(graph);
    let of_heavy = |storage: u32| {
        graph.writers[storage as usize].first().is_some_and(|&one| heavy[one as usize])
    };
    let gaps = mixed::saved_gaps(graph);
    let (checkpoints, rest): (Vec<Gap>, Vec<Gap>) =
        gaps.into_iter().partition(|gap| of_heavy(gap.storage));
    let try_with = |choice: &Choice| {
        mixed::fewest(checkpoints.len(), |first| {
            let moved = checkpoints[..first].to_vec();
            Choice { moved, ..choice.clone() }.steps(graph, link, budget)
        })
    };
    let mut choice = Choice::nothing(graph);
    if let Some(steps) = try_with(&choice) {
        return Some(steps);
    }
    if !recomputes {
        return None;
    }
    let most = largest_backward(graph);
    let sizes = segments(graph, &heavy);
    for gap in &rest {
        let storage = gap.storage as usize;
        choice.dropped[storage] = true;
        let first = graph.writers[storage].first();
        choice.stays[storage] = first.is_none_or(|&first| sizes[first as usize] <= most);
    }
    try_with(&choice)
}

/// The most bytes that an operation of the backward pass reads and writes.
fn largest_backward(graph: &Graph) -> u64 {
    let bytes = |storage: &u32| graph.storages()[*storage as usize].bytes;
    let backward = graph.operations().iter().skip(graph.backward() as usize);
    backward.map(|one| one.reads.iter().chain(&one.writes).map(bytes).sum()).max().unwrap_or(0)
}

/// Of each operation of the forward pass the bytes that its segment makes.
fn segments(graph: &Graph, heavy: &[bool]) -> Vec<u64> {
    let mut sums = alloc::vec![0_u64];
    let mut of = Vec::new();
    for (operation, &heavy) in graph.operations().iter().zip(heavy) {
        if heavy {
            sums.push(0);
        }
        let made = operation.writes.iter().map(|&storage| graph.storages()[storage as usize].bytes);
        if let Some(sum) = sums.last_mut().filter(|_| !heavy) {
            *sum += made.sum::<u64>();
        }
        of.push(sums.len() - 1);
    }
    of.into_iter().map(|segment| sums[segment]).collect()
}
