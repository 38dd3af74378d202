//! Rockmate's cheap rule (Zhao et al., ICML 2023; `solvers/cheap.py` in `topal-team/rockmate`):
//! what is made again in less than half the time of its transfer runs again, all else is offloaded.
//!
//! There the rule holds for all of a block. Here it is applied to what the backward pass reads, the
//! earliest first, as far as the budget asks.

use alloc::vec::Vec;

use super::mixed::{self, Choice};
use super::retain;
use crate::relief::{Graph, Link, Relief, Step};

/// The schedule, if it fits.
pub(in crate::relief) fn steps(graph: &Graph, link: &Link, budget: u64) -> Option<Vec<Step>> {
    let relief = Relief::new(graph);
    let gaps = mixed::saved_gaps(graph);
    let cost = |storage: u32| {
        relief.problem.item(storage).and_then(|item| retain::cost(&relief.problem, item))
    };
    mixed::fewest(gaps.len(), |first| {
        let mut choice = Choice::nothing(graph);
        for gap in &gaps[..first] {
            let cheap = cost(gap.storage).is_some_and(|cost| cost < link.nanos_out(gap.bytes) / 2);
            if cheap {
                choice.dropped[gap.storage as usize] = true;
            } else {
                choice.moved.push(*gap);
            }
        }
        choice.steps(graph, link, budget)
    })
}
