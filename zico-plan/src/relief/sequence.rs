//! From an order of runs to a schedule: each storage leaves as soon as nothing needs it.

use alloc::vec::Vec;

use super::timeline::Timeline;
use super::{Graph, Step};

/// The runs of a timeline in order.
pub(super) fn runs(timeline: &Timeline<'_>) -> Vec<u32> {
    let units = &timeline.problem.units;
    let mut all = Vec::new();
    for stage in 0..u32::try_from(units.len()).unwrap_or(u32::MAX) {
        for &unit in timeline.again(stage).iter().chain([&stage]) {
            all.extend_from_slice(&units[unit as usize].operations);
        }
    }
    all
}

/// Runs in this order, and drops: of each storage after its last use before it is made anew. O(reads).
pub(super) fn with_drops(graph: &Graph, runs: &[u32]) -> Vec<Step> {
    let mut needed: Vec<bool> = graph.storages.iter().map(|storage| storage.kept).collect();
    let mut steps = Vec::with_capacity(3 * runs.len());
    for &run in runs.iter().rev() {
        let operation = &graph.operations[run as usize];
        for &storage in operation.writes.iter().chain(&operation.reads) {
            if !core::mem::replace(&mut needed[storage as usize], true) {
                steps.push(Step::Drop(storage));
            }
        }
        steps.push(Step::Run(run));
        for &(storage, version) in &graph.makes[run as usize] {
            let first = version == 0;
            needed[storage as usize] &= !first;
        }
    }
    steps.reverse();
    steps
}
