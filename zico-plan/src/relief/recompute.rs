//! Our planner of recomputation.

use alloc::vec::Vec;

use super::problem::Problem;
use super::search::Search;
use super::{Graph, Step, sequence};

/// A graph as the planners of recomputation see it.
#[derive(Debug)]
pub struct Relief<'a> {
    graph: &'a Graph,
    pub(super) problem: Problem,
}

impl<'a> Relief<'a> {
    /// Prepares a graph. O(sizes).
    #[must_use]
    pub fn new(graph: &'a Graph) -> Self {
        Self { graph, problem: Problem::new(graph) }
    }

    /// A planner for so many bytes, which has done nothing yet.
    #[must_use]
    pub fn recompute(&self, budget: u64) -> Recompute<'_> {
        Recompute { graph: self.graph, search: Search::new(&self.problem, budget), begun: false }
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

/// Plans which operations run again, and when, so that an iteration fits in a budget in as little time as
/// can be.
///
/// A set of runs decides everything else: what is read is what the latest run of its writer has made, and each
/// storage leaves after the last read of what is in it. The first plan is a dual ascent: the price of a
/// byte over the budget rises, and storages leave before reads as soon as that costs less than their bytes are
/// worth. It takes milliseconds and is mostly within a percent of the best that is known. What is left of
/// the work goes by turns into simulated annealing and into taking parts out and making them anew.
/// Deterministic: the same graph, budget and work give the same schedule, and
/// [`run`](Self::run) can be called again to go on.
#[derive(Debug)]
pub struct Recompute<'a> {
    graph: &'a Graph,
    search: Search<'a>,
    begun: bool,
}

impl Recompute<'_> {
    /// The work that a first plan may take: of the order of a second.
    pub const FIRST: u64 = 1 << 29;

    /// Works for so many steps more, after the first plan where there is none yet, and gives the best
    /// schedule so far.
    pub fn run(&mut self, work: u64) -> Found {
        if !self.begun {
            self.begun = true;
            self.search.first(Self::FIRST);
        }
        self.search.improve(work);
        self.search.restore();
        let timeline = &self.search.timeline;
        Found {
            steps: sequence::with_drops(self.graph, &sequence::runs(timeline)),
            feasible: timeline.excess == 0,
            nanos: timeline.cost,
            work: timeline.work,
        }
    }
}
