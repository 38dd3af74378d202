//! From an order of runs to a schedule: each storage leaves as soon as nothing needs it.

use alloc::vec::Vec;

use crate::relief::swap::{Move, Way};
use crate::relief::timeline::Timeline;
use crate::relief::{Graph, Step};

/// The runs of a timeline in order, and the moves between them: each comes back before what runs
/// again in a stage, and leaves after the operation that used it.
pub(in crate::relief) fn steps(timeline: &Timeline<'_>, moves: &[Move]) -> Vec<Step> {
    let units = &timeline.problem.units;
    let count = units.iter().map(|unit| unit.operations.len()).sum();
    let mut out = alloc::vec![Vec::new(); count];
    let mut back = alloc::vec![Vec::new(); count];
    for one in moves {
        let (leave, come) = match one.way {
            Way::Link => (Step::Out(one.storage), Step::In(one.storage)),
            Way::Encoded => (Step::Encode(one.storage), Step::Decode(one.storage)),
        };
        out[one.after as usize].push(leave);
        back[one.back as usize].push((one.before, one.storage, come));
    }
    // What is needed first comes first.
    back.iter_mut().for_each(|all: &mut Vec<(u32, u32, Step)>| {
        all.sort_unstable_by_key(|one| (one.0, one.1));
    });
    let mut all = Vec::new();
    for stage in 0..u32::try_from(units.len()).unwrap_or(u32::MAX) {
        let own = &units[stage as usize].operations;
        for &operation in own {
            all.extend(back[operation as usize].iter().map(|one| one.2));
        }
        for &unit in timeline.again(stage) {
            all.extend(units[unit as usize].operations.iter().map(|&run| Step::Run(run)));
        }
        for &operation in own {
            all.push(Step::Run(operation));
            all.extend_from_slice(&out[operation as usize]);
        }
    }
    all
}

/// Steps in this order, and drops: of each storage after its last use before it is made anew.
/// O(reads).
pub(in crate::relief) fn with_drops(graph: &Graph, all: &[Step]) -> Vec<Step> {
    let mut needed: Vec<bool> = graph.storages.iter().map(|storage| storage.kept).collect();
    let mut steps = Vec::with_capacity(3 * all.len());
    for &step in all.iter().rev() {
        let Step::Run(run) = step else {
            steps.push(step);
            continue;
        };
        let operation = &graph.operations[run as usize];
        for &storage in operation.writes.iter().chain(&operation.reads) {
            if !core::mem::replace(&mut needed[storage as usize], true) {
                steps.push(Step::Drop(storage));
            }
        }
        steps.push(step);
        for &(storage, version) in &graph.makes[run as usize] {
            let first = version == 0;
            needed[storage as usize] &= !first;
        }
    }
    steps.reverse();
    steps
}
