//! Planners by name.

mod autoswap;
mod capuchin;
mod dtr;

use alloc::vec::Vec;

use autoswap::Score;
use dtr::Heuristic;

use crate::relief::{Found, Graph, Link, Relief, Step, joint, sequence, simulate};

/// A way to fit below what an iteration keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// Each storage leaves after its last use, and nothing else.
    Liveness,
    /// `AutoSwap` by the duration of absence (Zhang et al., arXiv 1903.06631).
    AutoSwapDoa,
    /// `AutoSwap` by the area of absence.
    AutoSwapAoa,
    /// `AutoSwap` by the weighted duration of absence.
    AutoSwapWdoa,
    /// `AutoSwap` by the submodular weighted duration of absence.
    AutoSwapSwdoa,
    /// `AutoSwap` by the sum of ranks.
    AutoSwap,
    /// Capuchin (Peng et al., ASPLOS 2020).
    Capuchin,
    /// DTR with the exact evicted neighbourhood (Kirisame et al., ICLR 2021).
    Dtr,
    /// DTR with the neighbourhood by union-find.
    DtrEq,
    /// DTR with its own cost only.
    DtrLocal,
    /// DTR's machinery, least recently used first.
    DtrLru,
    /// DTR's machinery, largest first.
    DtrSize,
    /// Ours, recomputation alone: [`Recompute`](crate::relief::Recompute).
    Recompute,
    /// Ours, with the link: [`joint`](crate::relief::joint()).
    Zico,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Liveness,
        Self::AutoSwapDoa,
        Self::AutoSwapAoa,
        Self::AutoSwapWdoa,
        Self::AutoSwapSwdoa,
        Self::AutoSwap,
        Self::Capuchin,
        Self::Dtr,
        Self::DtrEq,
        Self::DtrLocal,
        Self::DtrLru,
        Self::DtrSize,
        Self::Recompute,
        Self::Zico,
    ];

    /// Its name in commands and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Liveness => "liveness",
            Self::AutoSwapDoa => "autoswap-doa",
            Self::AutoSwapAoa => "autoswap-aoa",
            Self::AutoSwapWdoa => "autoswap-wdoa",
            Self::AutoSwapSwdoa => "autoswap-swdoa",
            Self::AutoSwap => "autoswap",
            Self::Capuchin => "capuchin",
            Self::Dtr => "dtr",
            Self::DtrEq => "dtr-eq",
            Self::DtrLocal => "dtr-local",
            Self::DtrLru => "dtr-lru",
            Self::DtrSize => "dtr-size",
            Self::Recompute => "recompute",
            Self::Zico => "zico",
        }
    }

    /// Whether it uses the link.
    #[must_use]
    pub const fn moves(self) -> bool {
        matches!(
            self,
            Self::AutoSwapDoa
                | Self::AutoSwapAoa
                | Self::AutoSwapWdoa
                | Self::AutoSwapSwdoa
                | Self::AutoSwap
                | Self::Capuchin
                | Self::Zico
        )
    }

    /// The schedule that it comes to; `None` where that does not fit in the budget. Ours take so
    /// much work beyond their first plans; the others take what they take: up to O(n^2) for n
    /// operations.
    #[must_use]
    pub fn plan(self, graph: &Graph, link: &Link, budget: u64, work: u64) -> Option<Found> {
        let swaps = |score| {
            let moves = autoswap::moves(graph, link, budget, score);
            let relief = Relief::with_moves(graph, moves);
            let timeline = crate::relief::timeline::Timeline::new(&relief.problem, budget);
            sequence::with_drops(graph, &sequence::steps(&timeline, &relief.moves))
        };
        let steps = match self {
            Self::Liveness => {
                let count = u32::try_from(graph.operations.len()).ok()?;
                sequence::with_drops(graph, &(0..count).map(Step::Run).collect::<Vec<_>>())
            }
            Self::AutoSwapDoa => swaps(Score::Doa),
            Self::AutoSwapAoa => swaps(Score::Aoa),
            Self::AutoSwapWdoa => swaps(Score::Wdoa),
            Self::AutoSwapSwdoa => swaps(Score::Swdoa),
            Self::AutoSwap => swaps(Score::Combined),
            Self::Capuchin => capuchin::steps(graph, link, budget),
            Self::Dtr => online(graph, budget, Heuristic::Full)?,
            Self::DtrEq => online(graph, budget, Heuristic::Eq)?,
            Self::DtrLocal => online(graph, budget, Heuristic::Local)?,
            Self::DtrLru => online(graph, budget, Heuristic::Lru)?,
            Self::DtrSize => online(graph, budget, Heuristic::Size)?,
            Self::Recompute => {
                let relief = Relief::new(graph);
                return Some(relief.recompute(budget).run(work)).filter(|found| found.feasible);
            }
            Self::Zico => return joint(graph, link, budget, work),
        };
        let nanos = simulate(graph, link, &steps, budget).ok()?.nanos;
        Some(Found { steps, feasible: true, nanos, work: 0 })
    }
}

fn online(graph: &Graph, budget: u64, heuristic: Heuristic) -> Option<Vec<Step>> {
    let relief = Relief::new(graph);
    let units = dtr::run(&relief.problem, budget, heuristic)?;
    let operations = units.iter().flat_map(|&unit| &relief.problem.units[unit as usize].operations);
    Some(sequence::with_drops(graph, &operations.map(|&run| Step::Run(run)).collect::<Vec<_>>()))
}
