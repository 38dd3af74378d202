//! Where storages can be away.

use alloc::vec::Vec;

use crate::relief::swap::{self, Gap, Move};
use crate::relief::{Graph, Link, Relief, Terms, sequence, simulate};

/// Storages smaller than the largest by this factor are not worth a transfer.
pub(super) const SMALL: u64 = 1 << 10;

/// Whether there is more than the budget before the iteration or after it.
pub(super) fn hosts(graph: &Graph, budget: u64) -> bool {
    let live = if graph.resident { Vec::new() } else { graph.live() };
    live.first().is_some_and(|&first| first > budget)
        || live.last().is_some_and(|&last| last > budget)
}

/// Where storages can be away: large ones, or all of them where that is too little.
pub(super) fn of(graph: &Graph, link: &Link, terms: Terms) -> Vec<Gap> {
    let largest = graph.storages().iter().map(|storage| storage.bytes).max().unwrap_or(0);
    let (live, units) = (graph.live(), Relief::new(graph).problem);
    let hosts = hosts(graph, terms.budget);
    let at_least = |least| {
        let mut gaps = swap::gaps_of_all(graph, least, hosts);
        // Only what is away while something is over the budget can be worth it, and nothing moves
        // while its unit runs.
        gaps.retain(|gap| {
            let last = gap.from.checked_sub(1).and_then(|last| units.stage(last));
            last < units.stage(gap.before)
                && live[gap.from as usize..gap.before as usize]
                    .iter()
                    .any(|&bytes| bytes > terms.budget)
        });
        gaps
    };
    let gaps = at_least(largest / SMALL);
    let away = |gap: &Gap| {
        if hosts && gap.may_be_hosted(graph) { gap.hosted(graph) } else { alloc::vec![*gap] }
    };
    let moves: Vec<Move> = gaps.iter().flat_map(away).map(|gap| gap.waits()).collect();
    let steps = sequence::without_recomputation(graph, &moves);
    if simulate(graph, link, &steps, terms.budget).is_ok() { gaps } else { at_least(1) }
}
