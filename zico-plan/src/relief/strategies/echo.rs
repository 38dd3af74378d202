//! Echo (Zheng et al., ISCA 2020): what is cheap to make runs again in the backward pass, where
//! that lowers the footprint with what the recomputation itself needs counted.
//!
//! Products of matrices and convolutions never run again. Each candidate is tried on the step
//! function of memory, so what it makes live for longer counts against it; it is taken if memory
//! over the budget becomes less, the one that frees most bytes for its time first. There the
//! footprint is estimated by region; here it is exact.

use alloc::vec::Vec;

use super::mixed;
use super::retain;
use crate::relief::problem::Problem;
use crate::relief::timeline::Timeline;
use crate::relief::{Graph, Relief, Step};

/// Rounds over all candidates: what one frees makes another worth it.
const ROUNDS: usize = 4;

/// The schedule, if it fits.
pub(in crate::relief) fn steps(graph: &Graph, budget: u64) -> Option<Vec<Step>> {
    let relief = Relief::new(graph);
    let problem = &relief.problem;
    let boundary = retain::boundary(graph, problem);
    let heavy = mixed::heavy(graph);
    let is_cheap = |item: &u32| {
        let unit = &problem.units[problem.items[*item as usize].writer as usize];
        retain::cost(problem, *item).is_some()
            && !unit.operations.iter().any(|&operation| heavy[operation as usize])
    };
    let mut candidates = retain::saved(problem, boundary);
    candidates.retain(is_cheap);
    let price = |item: u32| {
        let bytes = problem.items[item as usize].bytes.max(1) as f64;
        retain::cost(problem, item).unwrap_or(0) as f64 / bytes
    };
    candidates
        .sort_by(|&one, &other| price(one).total_cmp(&price(other)).then_with(|| one.cmp(&other)));
    let mut timeline = Timeline::new(problem, budget);
    for _ in 0..ROUNDS {
        let before = timeline.excess;
        for &item in &candidates {
            if timeline.excess == 0 {
                return Some(retain::steps(graph, &timeline, &[]));
            }
            consider(problem, &mut timeline, item, boundary);
        }
        if timeline.excess == before {
            break;
        }
    }
    (timeline.excess == 0).then(|| retain::steps(graph, &timeline, &[]))
}

/// Makes an item again before its first use in the backward pass, if that leaves less over the
/// budget.
fn consider(problem: &Problem, timeline: &mut Timeline<'_>, item: u32, boundary: u32) {
    let stage = retain::around(problem, item, boundary).1;
    // Another that runs again may need it before that.
    let unit = problem.items[item as usize].writer;
    let readers = problem.items[item as usize].readers.iter();
    let runs = readers.flat_map(|&reader| timeline.runs(reader).iter().copied());
    let stage = runs.filter(|&run| run >= boundary).min().unwrap_or(stage);
    if !problem.repeats(unit, stage) || timeline.has(stage, unit) {
        return;
    }
    let before = timeline.excess;
    timeline.add(stage, unit);
    if timeline.excess >= before {
        timeline.remove(stage, unit);
    }
}
