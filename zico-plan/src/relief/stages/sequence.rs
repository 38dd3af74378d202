//! From an order of runs to a schedule: each storage leaves as soon as nothing needs it.

use alloc::vec::Vec;

use crate::relief::problem::Problem;
use crate::relief::swap::{Ends, Move, Way};
use crate::relief::timeline::Timeline;
use crate::relief::{Graph, Link, Step};

/// The runs of a timeline in order, and the moves between them: each comes back before what runs
/// again in a stage, and leaves after the operation that used it.
pub(in crate::relief) fn steps(timeline: &Timeline<'_>, moves: &[Move]) -> Vec<Step> {
    let units = &timeline.problem.units;
    let count: usize = units.iter().map(|unit| unit.operations.len()).sum();
    let mut out = alloc::vec![Vec::new(); count + 1];
    let mut back: Vec<Vec<(u32, u32, Step)>> = alloc::vec![Vec::new(); count + 1];
    let mut all = Vec::new();
    for one in moves {
        let (leave, come, ends) = match one.way {
            Way::Link(ends) => (Step::Out(one.storage), Step::In(one.storage), ends),
            Way::Encoded => (Step::Encode(one.storage), Step::Decode(one.storage), Ends::Both),
        };
        if matches!(ends, Ends::Back | Ends::Neither) {
            all.push(Step::Hosted(one.storage));
        }
        if ends.leaves() {
            out[one.from as usize].push(leave);
        }
        if ends.comes_back() {
            back[one.back as usize].push((one.before, one.storage, come));
        }
    }
    // What is needed first comes first.
    back.iter_mut().for_each(|all| all.sort_unstable_by_key(|one| (one.0, one.1)));
    all.extend_from_slice(&out[0]);
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
            all.extend_from_slice(&out[operation as usize + 1]);
        }
    }
    all.extend(back[count].iter().map(|one| one.2));
    all
}

/// The same steps where what the host has in its last version leaves without a transfer.
fn without_copies(graph: &Graph, steps: &mut [Step]) {
    let mut hosted = alloc::vec![false; graph.storages.len()];
    for step in steps {
        match *step {
            Step::Hosted(storage) => hosted[storage as usize] = true,
            Step::Out(storage) if hosted[storage as usize] => *step = Step::Drop(storage),
            Step::Out(storage) => hosted[storage as usize] = true,
            Step::Run(run) => {
                for &(storage, _) in &graph.makes[run as usize] {
                    hosted[storage as usize] = false;
                }
            }
            _ => {}
        }
    }
}

/// The schedule with these moves in which nothing runs again.
pub(in crate::relief) fn without_recomputation(graph: &Graph, moves: &[Move]) -> Vec<Step> {
    let problem = Problem::new(graph, &[]);
    with_drops(graph, &steps(&Timeline::new(&problem, u64::MAX), moves))
}

/// The same steps where what comes back does so earlier, as far as there is room in the order of
/// issue and until what runs meanwhile takes `lead` times as long as the transfer. Transfers back
/// stay in their order. O(s) for s steps, and the steps that transfers pass.
pub(in crate::relief) fn earlier(
    graph: &Graph,
    link: &Link,
    steps: &[Step],
    budget: u64,
    lead: u64,
) -> Vec<Step> {
    let mut held = held(graph, steps);
    // Of each storage the step after which it is away.
    let mut out = alloc::vec![0; graph.storages.len()];
    let mut before = alloc::vec![Vec::new(); steps.len()];
    // Where the one before comes back, and the bytes that do so there.
    let (mut last, mut beside) = (0, 0);
    for (at, &step) in steps.iter().enumerate() {
        let Step::In(storage) = step else {
            match step {
                Step::Out(storage) | Step::Drop(storage) => out[storage as usize] = at + 1,
                Step::Hosted(_) => last = at + 1,
                _ => {}
            }
            continue;
        };
        let bytes = graph.storages[storage as usize].bytes;
        let least = out[storage as usize].max(last);
        let (mut first, mut hidden) = (at, 0_u64);
        let enough = link.nanos_back(bytes).saturating_mul(lead);
        while first > least && hidden < enough && held[first - 1].saturating_add(bytes) <= budget {
            first -= 1;
            held[first] += bytes;
            if let Step::Run(run) = steps[first] {
                hidden += graph.operations[run as usize].nanos;
            }
        }
        let others = if first == last { beside } else { 0 };
        // There has to be room before the step that it comes before, too.
        let full = first > 0 && held[first - 1].saturating_add(others + bytes) > budget;
        if full && first < at {
            held[first] -= bytes;
            first += 1;
        }
        beside = if first == last { beside + bytes } else { bytes };
        last = first;
        before[first].push(step);
    }
    let mut all = Vec::with_capacity(steps.len());
    for (&step, before) in steps.iter().zip(before) {
        all.extend(before);
        if !matches!(step, Step::In(_)) {
            all.push(step);
        }
    }
    all
}

/// The bytes that are held after each step, in the order of issue.
fn held(graph: &Graph, steps: &[Step]) -> Vec<u64> {
    let bytes = |storage: u32| graph.storages[storage as usize].bytes;
    let encoded = |storage: u32| {
        graph.storages[storage as usize].encoding.map_or(0, |encoding| encoding.bytes)
    };
    let there = graph.storages.iter().filter(|one| one.initial && one.alias.is_none());
    let mut now: u64 = there.map(|one| one.bytes).sum();
    let mut is_encoded = alloc::vec![false; graph.storages.len()];
    let after = |&step: &Step| {
        match step {
            Step::Run(run) => {
                let fresh = graph.makes[run as usize].iter().filter(|one| one.1 == 0);
                let fresh = fresh.filter(|one| !graph.storages[one.0 as usize].initial);
                now += fresh.map(|one| bytes(one.0)).sum::<u64>();
            }
            Step::In(storage) => now += bytes(storage),
            Step::Hosted(storage) | Step::Out(storage) => now = now.saturating_sub(bytes(storage)),
            Step::Drop(storage) if is_encoded[storage as usize] => {
                now = now.saturating_sub(encoded(storage));
            }
            Step::Drop(storage) => now = now.saturating_sub(bytes(storage)),
            Step::Encode(storage) => now = (now + encoded(storage)).saturating_sub(bytes(storage)),
            Step::Decode(storage) => now = (now + bytes(storage)).saturating_sub(encoded(storage)),
        }
        match step {
            Step::Encode(storage) => is_encoded[storage as usize] = true,
            Step::Decode(storage) | Step::Drop(storage) => is_encoded[storage as usize] = false,
            _ => {}
        }
        now
    };
    steps.iter().map(after).collect()
}

/// Steps in this order, and drops: of each storage after its last use before it is made anew, and
/// of what the host has already in place of another transfer. O(reads).
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
    without_copies(graph, &mut steps);
    steps
}
