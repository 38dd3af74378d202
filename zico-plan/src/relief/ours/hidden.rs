//! Transfers that nothing waits for.

use alloc::vec::Vec;

use super::gaps;
use crate::relief::swap::{self, Ends, Gap, Move, Way};
use crate::relief::{Graph, Link};

/// Which transfers are chosen, and which first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// By the time in which the bytes would be made again, and not by place alone.
    pub(super) by_cost: bool,
    /// What was there before the iteration moves too.
    pub(super) state: bool,
}

/// What moves without anything waiting for it.
pub(super) fn moves(
    graph: &Graph,
    link: &Link,
    budget: u64,
    times: &[u64],
    order: Order,
) -> Vec<Move> {
    let largest = graph.storages.iter().map(|storage| storage.bytes).max().unwrap_or(0);
    let hosts = gaps::hosts(graph, budget);
    let plain = graph.live();
    let mut live = plain.clone();
    let mut chosen: Vec<Gap> = Vec::new();
    let mut moves: Vec<Move> = Vec::new();
    let all = swap::gaps_of_all(graph, largest / gaps::SMALL, hosts);
    let moves_it = |gap: &Gap| order.state || !graph.storages[gap.storage as usize].initial;
    let all = all.into_iter().filter(moves_it);
    let mut ranked: Vec<(f64, Gap)> = all.map(|gap| (0.0, gap)).collect();
    let away = |gap: Gap| {
        if hosts && gap.may_be_hosted(graph) { gap.hosted(graph) } else { alloc::vec![gap] }
    };
    // In rounds, since what has been chosen changes what is over.
    for _ in 0..8 {
        let crowd = crowd(&live, budget);
        for (rank, gap) in &mut ranked {
            let places = |gap: Gap| crowd[gap.before as usize] - crowd[gap.from as usize];
            let places: u32 = away(*gap).into_iter().map(places).sum();
            let worth =
                if order.by_cost { (1 + cost(graph, gap)) as f64 / gap.bytes as f64 } else { 1.0 };
            *rank = f64::from(places) * worth;
        }
        ranked.retain(|&(rank, _)| rank > 0.0);
        ranked.sort_by(|one, other| {
            let key = |gap: &Gap| (gap.from, gap.before, gap.storage);
            other.0.total_cmp(&one.0).then_with(|| key(&one.1).cmp(&key(&other.1)))
        });
        let part = (ranked.len() / 4).max(16).min(ranked.len());
        for (_, gap) in ranked.drain(..part) {
            let others = chosen.len();
            chosen.extend(away(gap));
            let placed = swap::place(graph, link, &chosen, times);
            let placed: Option<Vec<Move>> = placed.into_iter().collect();
            let Some(placed) = placed else {
                chosen.truncate(others);
                continue;
            };
            let before = excess(&live, budget);
            let with = without(graph, &placed, &plain);
            if excess(&with, budget) < before {
                (live, moves) = (with, placed);
            } else {
                chosen.truncate(others);
            }
        }
        if ranked.is_empty() || live.iter().all(|&bytes| bytes <= budget) {
            break;
        }
    }
    moves
}

/// The nanoseconds in which what is in a gap is made again: all of the iteration where it cannot
/// be.
fn cost(graph: &Graph, gap: &Gap) -> u64 {
    let writer = graph.writers[gap.storage as usize].first();
    let writer = writer.filter(|_| !graph.storages[gap.storage as usize].initial);
    writer.map_or_else(|| graph.nanos(), |&writer| graph.operations[writer as usize].nanos)
}

/// The bytes in use during each operation, of which these are there without moves.
fn without(graph: &Graph, moves: &[Move], live: &[u64]) -> Vec<u64> {
    let mut change = alloc::vec![0_i64; live.len() + 1];
    for one in moves {
        let bytes = i64::try_from(graph.storages[one.storage as usize].bytes).unwrap_or(i64::MAX);
        let ends = if let Way::Link(ends) = one.way { ends } else { Ends::Both };
        change[if ends.leaves() { one.gone as usize } else { 0 }] += bytes;
        change[if ends.comes_back() { one.back as usize } else { live.len() }] -= bytes;
    }
    let mut away = 0;
    let left = |(&live, change): (&u64, i64)| {
        away += change;
        live.saturating_sub(u64::try_from(away).unwrap_or(0))
    };
    live.iter().zip(change).map(left).collect()
}

fn excess(live: &[u64], budget: u64) -> u128 {
    live.iter().map(|&bytes| u128::from(bytes.saturating_sub(budget))).sum()
}

/// How many operations before each are over the budget.
pub(super) fn crowd(live: &[u64], budget: u64) -> Vec<u32> {
    let mut sum = 0;
    let mut all = alloc::vec![0];
    for &bytes in live {
        sum += u32::from(bytes > budget);
        all.push(sum);
    }
    all
}
