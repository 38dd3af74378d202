//! `AutoSwap` (Zhang et al., arXiv 1903.06631): storages with two uses that straddle the peak go to
//! the host between them, by one of its scores, until the load is within the limit.

use alloc::vec::Vec;

use crate::relief::swap::{self, Gap, Move};
use crate::relief::{Graph, Link};

/// What storages are ranked by; the highest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relief) enum Score {
    /// The time between the two uses less that of both transfers.
    Doa,
    /// That times the size where it is positive, and divided by it where it is not.
    Aoa,
    /// By how much the load is over the limit, over the absence.
    Wdoa,
    /// The same, anew after each pick.
    Swdoa,
    /// The sum of the ranks by the first three.
    Combined,
}

/// Smaller storages stay.
const LEAST: u64 = 1 << 20;

struct Loads<'a> {
    graph: &'a Graph,
    link: &'a Link,
    times: &'a [u64],
    live: Vec<u64>,
    limit: u64,
}

impl Loads<'_> {
    fn doa(&self, gap: &Gap) -> f64 {
        let from = self.times[gap.from as usize] as f64;
        let moves = self.link.nanos_out(gap.bytes).saturating_add(self.link.nanos_back(gap.bytes));
        self.times[gap.before as usize] as f64 - from - moves as f64
    }

    fn aoa(&self, gap: &Gap) -> f64 {
        let doa = self.doa(gap);
        if doa >= 0.0 { doa * gap.bytes as f64 } else { doa / gap.bytes as f64 }
    }

    fn wdoa(&self, gap: &Gap) -> f64 {
        let range = gap.from as usize..gap.before as usize;
        let over = |at: usize| {
            let over = self.live[at].saturating_sub(self.limit) as f64;
            over * self.graph.operations[at].nanos as f64
        };
        range.map(over).sum()
    }
}

/// The moves that it chooses for a limit. Storages leave as early as they can and come back as late
/// as they can, as if nothing stood in their way; what they wait for is for the simulator to say.
pub(in crate::relief) fn moves(graph: &Graph, link: &Link, limit: u64, score: Score) -> Vec<Move> {
    let (times, live) = (swap::times(graph), graph.live());
    let peak = (0..live.len()).max_by_key(|&at| (live[at], core::cmp::Reverse(at))).unwrap_or(0);
    let mut open = swap::gaps(graph, LEAST);
    open.retain(|gap| gap.from as usize <= peak && peak < gap.before as usize);
    let mut loads = Loads { graph, link, times: &times, live, limit };
    let mut chosen = Vec::new();
    let mut ranks = ranked(&loads, &open, score);
    while loads.live.iter().any(|&bytes| bytes > limit) {
        if score == Score::Swdoa {
            ranks = ranked(&loads, &open, score);
        }
        let best = (0..open.len()).max_by(|&one, &other| {
            ranks[one].total_cmp(&ranks[other]).then_with(|| open[other].cmp(&open[one]))
        });
        let Some(best) = best else { break };
        let gap = open.swap_remove(best);
        ranks.swap_remove(best);
        for live in &mut loads.live[gap.from as usize..gap.before as usize] {
            *live = live.saturating_sub(gap.bytes);
        }
        chosen.push(gap);
    }
    let placed = swap::place(graph, link, &chosen, &times);
    placed.into_iter().zip(chosen).map(|(one, gap)| one.unwrap_or_else(|| gap.late())).collect()
}

fn ranked(loads: &Loads<'_>, open: &[Gap], score: Score) -> Vec<f64> {
    let by = |value: &dyn Fn(&Gap) -> f64| -> Vec<f64> { open.iter().map(value).collect() };
    let doa = |gap: &Gap| loads.doa(gap);
    let aoa = |gap: &Gap| loads.aoa(gap);
    let wdoa = |gap: &Gap| loads.wdoa(gap);
    match score {
        Score::Doa => by(&doa),
        Score::Aoa => by(&aoa),
        Score::Wdoa | Score::Swdoa => by(&wdoa),
        Score::Combined => {
            let mut sum = alloc::vec![0.0; open.len()];
            for values in [by(&doa), by(&aoa), by(&wdoa)] {
                let mut order: Vec<usize> = (0..open.len()).collect();
                order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
                for (rank, at) in order.into_iter().enumerate() {
                    sum[at] += rank as f64;
                }
            }
            sum
        }
    }
}
