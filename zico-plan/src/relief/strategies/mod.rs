//! Planners by name: ours, and those of the literature to compare with, each from its paper or its
//! published code.

pub(in crate::relief) mod autoswap;
mod capuchin;
pub(in crate::relief) mod checkmate;
mod echo;
mod gist;
mod griewank;
mod knapsack;
mod mixed;
mod retain;
mod rockmate;
mod segments;
mod superneurons;
mod swapadvisor;
mod vdnn;
mod zico;

use alloc::vec::Vec;

use autoswap::Score;
use segments::Rule;

pub use gist::Gist;
pub use zico::{joint, joint_within};

use crate::relief::dtr::{self, Heuristic};
use crate::relief::{Found, Graph, Link, Relief, Step, Terms, sequence, simulate, timeline};

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
    /// vDNN, all layers (Rhu et al., MICRO 2016).
    VdnnAll,
    /// vDNN, convolutions.
    VdnnConv,
    /// `SuperNeurons`: liveness and the tensor pool (Wang et al., `PPoPP` 2018).
    SuperNeuronsPool,
    /// `SuperNeurons` with cost-aware recomputation.
    SuperNeurons,
    /// Capuchin (Peng et al., ASPLOS 2020).
    Capuchin,
    /// `SwapAdvisor` (Huang, Jin and Li, ASPLOS 2020).
    SwapAdvisor,
    /// Checkpoints at every sqrt(n)th operation (Chen et al., arXiv 1604.06174).
    ChenSqrt,
    /// Checkpoints whenever so many bytes have been made.
    ChenGreedy,
    /// Checkpoints at every sqrt(n)th articulation point (Jain et al., `MLSys` 2020).
    ApSqrt,
    /// Checkpoints at articulation points, whenever so many bytes have been made.
    ApGreedy,
    /// REVOLVE over articulation points (Griewank and Walther, ACM TOMS 2000).
    Griewank,
    /// Checkmate's linear program, rounded in two phases (Jain et al., `MLSys` 2020).
    CheckmateLp,
    /// `PyTorch`'s activation memory budget: a knapsack over saved activations.
    Knapsack,
    /// Echo: cheap operations again, their own footprint counted (Zheng et al., ISCA 2020).
    Echo,
    /// Rockmate's cheap rule: by half of the time of a transfer (Zhao et al., ICML 2023).
    RockmateCheap,
    /// Gist, without loss (Jain et al., ISCA 2018): where storages have encodings.
    Gist,
    /// Gist with what changes the contents too.
    GistLossy,
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
    /// Ours, with the link and encodings: [`joint`](crate::relief::joint()).
    Zico,
    /// The same with encodings that change the contents too.
    ZicoLossy,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 31] = [
        Self::Liveness,
        Self::AutoSwapDoa,
        Self::AutoSwapAoa,
        Self::AutoSwapWdoa,
        Self::AutoSwapSwdoa,
        Self::AutoSwap,
        Self::VdnnAll,
        Self::VdnnConv,
        Self::SuperNeuronsPool,
        Self::SuperNeurons,
        Self::Capuchin,
        Self::SwapAdvisor,
        Self::ChenSqrt,
        Self::ChenGreedy,
        Self::ApSqrt,
        Self::ApGreedy,
        Self::Griewank,
        Self::CheckmateLp,
        Self::Knapsack,
        Self::Echo,
        Self::RockmateCheap,
        Self::Gist,
        Self::GistLossy,
        Self::Dtr,
        Self::DtrEq,
        Self::DtrLocal,
        Self::DtrLru,
        Self::DtrSize,
        Self::Recompute,
        Self::Zico,
        Self::ZicoLossy,
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
            Self::VdnnAll => "vdnn-all",
            Self::VdnnConv => "vdnn-conv",
            Self::SuperNeuronsPool => "superneurons-pool",
            Self::SuperNeurons => "superneurons",
            Self::Capuchin => "capuchin",
            Self::SwapAdvisor => "swapadvisor",
            Self::ChenSqrt => "chen-sqrt",
            Self::ChenGreedy => "chen-greedy",
            Self::ApSqrt => "ap-sqrt",
            Self::ApGreedy => "ap-greedy",
            Self::Griewank => "griewank",
            Self::CheckmateLp => "checkmate-lp",
            Self::Knapsack => "knapsack",
            Self::Echo => "echo",
            Self::RockmateCheap => "rockmate-cheap",
            Self::Gist => "gist",
            Self::GistLossy => "gist-lossy",
            Self::Dtr => "dtr",
            Self::DtrEq => "dtr-eq",
            Self::DtrLocal => "dtr-local",
            Self::DtrLru => "dtr-lru",
            Self::DtrSize => "dtr-size",
            Self::Recompute => "recompute",
            Self::Zico => "zico",
            Self::ZicoLossy => "zico-lossy",
        }
    }

    /// What it does, in a line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Liveness => "Each storage leaves after its last use, and nothing else",
            Self::AutoSwapDoa => {
                "AutoSwap by the duration of absence (Zhang et al., arXiv 1903.06631)"
            }
            Self::AutoSwapAoa => "AutoSwap by the area of absence",
            Self::AutoSwapWdoa => "AutoSwap by the weighted duration of absence",
            Self::AutoSwapSwdoa => "AutoSwap by the submodular weighted duration of absence",
            Self::AutoSwap => "AutoSwap by the sum of ranks",
            Self::VdnnAll => "vDNN, all layers (Rhu et al., MICRO 2016)",
            Self::VdnnConv => "vDNN, convolutions",
            Self::SuperNeuronsPool => {
                "SuperNeurons: liveness and the tensor pool (Wang et al., PPoPP 2018)"
            }
            Self::SuperNeurons => "SuperNeurons with cost-aware recomputation",
            Self::Capuchin => "Capuchin (Peng et al., ASPLOS 2020)",
            Self::SwapAdvisor => "SwapAdvisor (Huang, Jin and Li, ASPLOS 2020)",
            Self::ChenSqrt => {
                "Checkpoints at every sqrt(n)th operation (Chen et al., arXiv 1604.06174)"
            }
            Self::ChenGreedy => "Checkpoints whenever so many bytes have been made",
            Self::ApSqrt => {
                "Checkpoints at every sqrt(n)th articulation point (Jain et al., MLSys 2020)"
            }
            Self::ApGreedy => {
                "Checkpoints at articulation points, whenever so many bytes have been made"
            }
            Self::Griewank => {
                "REVOLVE over articulation points (Griewank and Walther, ACM TOMS 2000)"
            }
            Self::CheckmateLp => {
                "Checkmate's linear program, rounded in two phases (Jain et al., MLSys 2020)"
            }
            Self::Knapsack => {
                "PyTorch's activation memory budget: a knapsack over saved activations"
            }
            Self::Echo => {
                "Echo: cheap operations again, their own footprint counted (Zheng et al., ISCA 2020)"
            }
            Self::RockmateCheap => {
                "Rockmate's cheap rule: by half of the time of a transfer (Zhao et al., ICML 2023)"
            }
            Self::Gist => {
                "Gist, without loss (Jain et al., ISCA 2018): where storages have encodings"
            }
            Self::GistLossy => "Gist with what changes the contents too",
            Self::Dtr => "DTR with the exact evicted neighbourhood (Kirisame et al., ICLR 2021)",
            Self::DtrEq => "DTR with the neighbourhood by union-find",
            Self::DtrLocal => "DTR with its own cost only",
            Self::DtrLru => "DTR's machinery, least recently used first",
            Self::DtrSize => "DTR's machinery, largest first",
            Self::Recompute => "Ours, recomputation alone",
            Self::Zico => "Ours, with the link and encodings",
            Self::ZicoLossy => "The same with encodings that change the contents too",
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
                | Self::VdnnAll
                | Self::VdnnConv
                | Self::SuperNeuronsPool
                | Self::SuperNeurons
                | Self::Capuchin
                | Self::SwapAdvisor
                | Self::RockmateCheap
                | Self::Zico
                | Self::ZicoLossy
        )
    }

    /// Whether it may use encodings that change the contents.
    #[must_use]
    pub const fn lossy(self) -> bool {
        matches!(self, Self::GistLossy | Self::ZicoLossy)
    }

    /// The schedule that it comes to; `None` where that does not fit in the budget, at once where
    /// that is below the [working set](Graph::working_set) or, for all but `zico` and `zico-lossy`,
    /// which move what persists, the [resident set](Graph::resident_set). Ours take so much work
    /// beyond their first plans; the others take what they take: up to O(n^2) for n operations.
    #[must_use]
    pub fn plan(self, graph: &Graph, link: &Link, budget: u64, work: u64) -> Option<Found> {
        let moves_all = matches!(self, Self::Zico | Self::ZicoLossy);
        if budget < if moves_all { graph.working_set() } else { graph.resident_set() } {
            return None;
        }
        let swaps = |score| {
            let moves = autoswap::moves(graph, link, budget, score);
            let relief = Relief::with_moves(graph, moves);
            let timeline = timeline::Timeline::new(&relief.problem, budget);
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
            Self::VdnnAll => vdnn::steps(graph, link, budget, false)?,
            Self::VdnnConv => vdnn::steps(graph, link, budget, true)?,
            Self::SuperNeuronsPool => superneurons::steps(graph, link, budget, false)?,
            Self::SuperNeurons => superneurons::steps(graph, link, budget, true)?,
            Self::Capuchin => capuchin::steps(graph, link, budget),
            Self::SwapAdvisor => swapadvisor::steps(graph, link, budget, work)?,
            Self::ChenSqrt => segments::steps(graph, budget, Rule::Root)?,
            Self::ChenGreedy => segments::steps(graph, budget, Rule::Greedy)?,
            Self::ApSqrt => segments::steps(graph, budget, Rule::RootArticulated)?,
            Self::ApGreedy => segments::steps(graph, budget, Rule::GreedyArticulated)?,
            Self::Griewank => griewank::steps(graph, budget)?,
            Self::CheckmateLp => checkmate::steps(graph, budget)?,
            Self::Knapsack => knapsack::steps(graph, budget)?,
            Self::Echo => echo::steps(graph, budget)?,
            Self::RockmateCheap => rockmate::steps(graph, link, budget)?,
            Self::Gist => gist::steps(graph, link, budget, false)?,
            Self::GistLossy => gist::steps(graph, link, budget, true)?,
            Self::Dtr => online(graph, budget, Heuristic::Full)?,
            Self::DtrEq => online(graph, budget, Heuristic::Eq)?,
            Self::DtrLocal => online(graph, budget, Heuristic::Local)?,
            Self::DtrLru => online(graph, budget, Heuristic::Lru)?,
            Self::DtrSize => online(graph, budget, Heuristic::Size)?,
            Self::Recompute => {
                let relief = Relief::new(graph);
                return Some(relief.recompute(budget).run(work)).filter(|found| found.feasible);
            }
            Self::Zico | Self::ZicoLossy => {
                let terms = Terms { budget, lossy: self.lossy() };
                return joint_within(graph, link, terms, work);
            }
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
