//! Our planner of recomputation.

use alloc::vec::Vec;

use crate::relief::problem::Problem;
use crate::relief::search::Search;
use crate::relief::swap::Move;
use crate::relief::{Graph, Step, sequence};

/// A graph as the planners of recomputation see it.
#[derive(Debug)]
pub struct Relief<'a> {
    pub(in crate::relief) graph: &'a Graph,
    pub(in crate::relief) problem: Problem,
    pub(in crate::relief) moves: Vec<Move>,
}

impl<'a> Relief<'a> {
    /// Prepares a graph. O(sizes).
    #[must_use]
    pub fn new(graph: &'a Graph) -> Self {
        Self::with_moves(graph, Vec::new())
    }

    /// The same where some storages are on the host for some time.
    pub(in crate::relief) fn with_moves(graph: &'a Graph, moves: Vec<Move>) -> Self {
        Self { graph, problem: Problem::new(graph, &moves), moves }
    }

    /// A planner for so many bytes, which has done nothing yet.
    #[must_use]
    pub fn recompute(&self, budget: u64) -> Recompute<'_> {
        let search = Search::new(&self.problem, budget);
        Recompute { graph: self.graph, moves: &self.moves, budget, search, begun: false }
    }
}

/// A schedule that a planner has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the device does. It fits in the budget if it is [`Self::feasible`].
    pub steps: Vec<Step>,
    /// Whether the planner has come down to the budget.
    pub feasible: bool,
    /// The time of all runs, in nanoseconds.
    pub nanos: u64,
    /// The steps of work that the planner has taken so far.
    pub work: u64,
}

/// Plans which operations run again, and when, so that an iteration fits in a budget in as little
/// time as can be.
///
/// A set of runs decides everything else: what is read is what the latest run of its writer has
/// made, and each storage leaves after the last read of what is in it. The first plan is a dual
/// ascent: the price of a byte over the budget rises, and storages leave before reads as soon as
/// that costs less than their bytes are worth. It takes milliseconds and is mostly within a percent
/// of the best that is known. What is left of the work goes by turns into simulated annealing and
/// into taking parts out and making them anew. Deterministic: the same graph, budget and work give
/// the same schedule, and [`run`](Self::run) can be called again to go on.
#[derive(Debug)]
pub struct Recompute<'a> {
    graph: &'a Graph,
    moves: &'a [Move],
    budget: u64,
    search: Search<'a>,
    begun: bool,
}

impl Recompute<'_> {
    /// When each operation runs for the first time in the best schedule so far, in nanoseconds;
    /// with the end.
    pub(in crate::relief) fn times(&self) -> Vec<u64> {
        let mut times = Vec::with_capacity(self.graph.operations.len() + 1);
        let mut now = 0;
        let units = &self.search.timeline.problem.units;
        for (stage, unit) in (0..).zip(units) {
            let again = self.search.timeline.again(stage).iter();
            now += again.map(|&other| units[other as usize].cost).sum::<u64>();
            for &operation in &unit.operations {
                times.push(now);
                now += self.graph.operations[operation as usize].nanos;
            }
        }
        times.push(now);
        times
    }

    /// The bytes over the budget during each operation that the first plan could not free by running
    /// again; none where it fits.
    pub(in crate::relief) fn lacks(&self) -> Vec<u64> {
        let lack = |at: u32| {
            let stage = self.search.timeline.problem.stage(at);
            stage.and_then(|stage| self.search.lacks.get(stage as usize)).copied().unwrap_or(0)
        };
        if self.search.lacks.is_empty() {
            return Vec::new();
        }
        (0..).zip(&self.graph.operations).map(|(at, _)| lack(at)).collect()
    }

    /// The work that a first plan may take: of the order of a second.
    pub const FIRST: u64 = 1 << 29;

    /// The work that a first plan may take where it is known that it does not fit: it is to show
    /// what is left.
    const IN_VAIN: u64 = 1 << 24;

    /// Works for so many steps more, after the first plan where there is none yet, and gives the
    /// best schedule so far.
    pub fn run(&mut self, work: u64) -> Found {
        self.run_within(Self::FIRST, work, usize::MAX)
    }

    /// The same where the first plan may take only so much work, and what follows it ends sooner
    /// after so many turns in a row that found nothing.
    pub(in crate::relief) fn run_within(&mut self, first: u64, work: u64, in_vain: usize) -> Found {
        if !self.begun {
            self.begun = true;
            let may_fit = self.search.timeline.problem.may_fit(self.budget);
            self.search.first(if may_fit { first } else { first.min(Self::IN_VAIN) });
            if self.moves.is_empty() && may_fit {
                self.search.first_online(self.budget);
            }
        }
        if self.search.timeline.problem.may_fit(self.budget) {
            self.search.improve(work, in_vain);
        }
        self.search.restore();
        let timeline = &self.search.timeline;
        Found {
            steps: sequence::with_drops(self.graph, &sequence::steps(timeline, self.moves)),
            feasible: timeline.excess == 0,
            nanos: timeline.cost,
            work: timeline.work,
        }
    }
}
