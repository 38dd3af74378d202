//! Transfers that nothing waits for.

use alloc::vec::Vec;

use crate::relief::swap::{self, Gap, Move};
use crate::relief::{Graph, Link};

/// Storages smaller than the largest by this factor are not worth a transfer.
pub(super) const SMALL: u64 = 1 << 10;

/// What moves without anything waiting for it.
pub(super) fn moves(
    graph: &Graph,
    link: &Link,
    budget: u64,
    times: &[u64],
    by_cost: bool,
) -> Vec<Move> {
    let largest = graph.storages.iter().map(|storage| storage.bytes).max().unwrap_or(0);
    let all = swap::gaps(graph, largest / SMALL);
    let mut live = graph.live();
    let mut chosen: Vec<Gap> = Vec::new();
    let mut moves: Vec<Move> = Vec::new();
    let mut ranked: Vec<(f64, Gap)> = all.into_iter().map(|gap| (0.0, gap)).collect();
    // In rounds, since what has been chosen changes what is over.
    for _ in 0..8 {
        let crowd = crowd(&live, budget);
        for (rank, gap) in &mut ranked {
            let places = crowd[gap.before as usize] - crowd[gap.after as usize + 1];
            let writer = graph.writers[gap.storage as usize].first();
            let cost = writer.map_or(0, |&writer| graph.operations[writer as usize].nanos);
            let worth = if by_cost { (1 + cost) as f64 / gap.bytes as f64 } else { 1.0 };
            *rank = f64::from(places) * worth;
        }
        ranked.retain(|&(rank, _)| rank > 0.0);
        ranked.sort_by(|one, other| {
            let key = |gap: &Gap| (gap.after, gap.before, gap.storage);
            other.0.total_cmp(&one.0).then_with(|| key(&one.1).cmp(&key(&other.1)))
        });
        let part = (ranked.len() / 4).max(16).min(ranked.len());
        for (_, gap) in ranked.drain(..part) {
            chosen.push(gap);
            let placed = swap::place(graph, link, &chosen, times);
            let placed: Option<Vec<Move>> = placed.into_iter().collect();
            let Some(placed) = placed else {
                chosen.pop();
                continue;
            };
            let before = excess(&live, budget);
            let with = without(graph, &placed);
            if excess(&with, budget) < before {
                (live, moves) = (with, placed);
            } else {
                chosen.pop();
            }
        }
        if ranked.is_empty() || live.iter().all(|&bytes| bytes <= budget) {
            break;
        }
    }
    moves
}

/// The bytes in use during each operation with moves.
fn without(graph: &Graph, moves: &[Move]) -> Vec<u64> {
    let mut live = graph.live();
    for one in moves {
        let bytes = graph.storages[one.storage as usize].bytes;
        live[one.gone as usize..one.back as usize].iter_mut().for_each(|live| *live -= bytes);
    }
    live
}

fn excess(live: &[u64], budget: u64) -> u128 {
    live.iter().map(|&bytes| u128::from(bytes.saturating_sub(budget))).sum()
}

/// How many operations before each are over the budget.
fn crowd(live: &[u64], budget: u64) -> Vec<u32> {
    let mut sum = 0;
    let mut all = alloc::vec![0];
    for &bytes in live {
        sum += u32::from(bytes > budget);
        all.push(sum);
    }
    all
}
