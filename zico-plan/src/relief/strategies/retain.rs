//! Plans by retention: a rule says what stays after each stage, and what is missing where it is
//! read runs again (Checkmate's R of its S: Jain et al., `MLSys` 2020, section 4.8).

use alloc::vec::Vec;

use crate::relief::problem::Problem;
use crate::relief::sequence;
use crate::relief::swap::Move;
use crate::relief::timeline::Timeline;
use crate::relief::{Graph, Relief, Step};

/// Stages and units that run again.
pub(in crate::relief) type Runs = Vec<(u32, u32)>;

/// Where forward ends and backward begins, in stages.
pub(in crate::relief) fn boundary(graph: &Graph, problem: &Problem) -> u32 {
    let count = u32::try_from(problem.units.len()).unwrap_or(u32::MAX);
    problem.stage(graph.backward()).unwrap_or(count)
}

/// Items of the forward pass that the backward pass reads: what frameworks save for backward.
pub(in crate::relief) fn saved(problem: &Problem, boundary: u32) -> Vec<u32> {
    let is_saved = |item: &u32| {
        let known = &problem.items[*item as usize];
        known.writer > 0
            && known.writer < boundary
            && known.readers.last().is_some_and(|&last| last >= boundary)
    };
    (0..u32::try_from(problem.items.len()).unwrap_or(u32::MAX)).filter(is_saved).collect()
}

/// The last stage below the boundary in which an item is made or read, and the first from there on.
pub(in crate::relief) fn around(problem: &Problem, item: u32, boundary: u32) -> (u32, u32) {
    let known = &problem.items[item as usize];
    let first = known.readers.partition_point(|&reader| reader < boundary);
    let before = if first == 0 { known.writer } else { known.readers[first - 1] };
    (before, known.readers.get(first).copied().unwrap_or(u32::MAX))
}

/// The time of its writer, if that can run again at any time.
pub(in crate::relief) fn cost(problem: &Problem, item: u32) -> Option<u64> {
    let unit = &problem.units[problem.items[item as usize].writer as usize];
    (unit.until == u32::MAX && problem.items[item as usize].writer > 0).then_some(unit.cost)
}

/// The runs that a rule leads to: `stays(item, stage)` says whether an item that is there after a
/// stage is there before the next. What cannot be made again stays in any case.
pub(in crate::relief) fn runs(problem: &Problem, stays: &dyn Fn(u32, u32) -> bool) -> Runs {
    let mut here = alloc::vec![false; problem.items.len()];
    // Unit 0 runs nothing: what it makes is there before.
    problem.units[0].writes.iter().for_each(|&item| here[item as usize] = true);
    let mut open: Vec<u32> = Vec::new();
    let mut runs = Runs::new();
    let again = |item: u32| {
        cost(problem, item).is_some() && !problem.items[item as usize].readers.is_empty()
    };
    for stage in 1..u32::try_from(problem.units.len()).unwrap_or(u32::MAX) {
        let mut needs = alloc::vec![stage];
        let mut queued = Runs::new();
        while let Some(unit) = needs.pop() {
            for &item in &problem.units[unit as usize].reads {
                let writer = problem.items[item as usize].writer;
                if !core::mem::replace(&mut here[item as usize], true) {
                    open.push(item);
                    if problem.repeats(writer, stage) && !queued.contains(&(stage, writer)) {
                        queued.push((stage, writer));
                        needs.push(writer);
                    }
                }
            }
        }
        for &(_, unit) in queued.iter().chain([&(stage, stage)]) {
            for &item in &problem.units[unit as usize].writes {
                if !core::mem::replace(&mut here[item as usize], true) {
                    open.push(item);
                }
            }
        }
        runs.extend(queued);
        open.retain(|&item| {
            let known = &problem.items[item as usize];
            let over = known.readers.last().is_none_or(|&last| last <= stage) && !known.kept;
            if !again(item) {
                return false;
            }
            let gone = !over && !known.kept && !stays(item, stage);
            here[item as usize] = !gone;
            !gone && !over
        });
    }
    runs
}

/// A timeline with these runs, those left out that nothing reads.
pub(in crate::relief) fn timeline<'p>(
    problem: &'p Problem,
    budget: u64,
    runs: &Runs,
) -> Timeline<'p> {
    let mut timeline = Timeline::new(problem, budget);
    for &(stage, unit) in runs {
        if problem.repeats(unit, stage) && !timeline.has(stage, unit) {
            timeline.add(stage, unit);
        }
    }
    let mut all = runs.clone();
    all.sort_unstable_by(|one, other| other.cmp(one));
    for (stage, unit) in all {
        if unit != stage && timeline.has(stage, unit) && timeline.useless(stage, unit) {
            timeline.remove(stage, unit);
        }
    }
    timeline
}

/// Of several sets of runs the one that fits in the budget in the least time.
pub(in crate::relief) fn cheapest(
    graph: &Graph,
    budget: u64,
    all: impl Iterator<Item = Runs>,
    relief: &Relief<'_>,
) -> Option<Vec<Step>> {
    let mut best: Option<(u64, Vec<Step>)> = None;
    for runs in all {
        let timeline = timeline(&relief.problem, budget, &runs);
        let better = best.as_ref().is_none_or(|best| timeline.cost < best.0);
        if timeline.excess == 0 && better {
            best = Some((timeline.cost, steps(graph, &timeline, &relief.moves)));
        }
    }
    best.map(|best| best.1)
}

/// The schedule of a timeline.
pub(in crate::relief) fn steps(
    graph: &Graph,
    timeline: &Timeline<'_>,
    moves: &[Move],
) -> Vec<Step> {
    sequence::with_drops(graph, &sequence::steps(timeline, moves))
}
