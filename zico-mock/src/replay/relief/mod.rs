//! Jobs that carry plans of relief out: what runs again, what goes to the host and when.
//!
//! A [`Relieved`] job plays one recorded iteration again and again, as a plan of
//! [`zico_plan::relief`] has it. Its blocks are the pool's: what leaves is freed, and what comes
//! back is allocated anew, maybe elsewhere. Transfers are on streams of their own, one each way,
//! and take turns on the device's one link, which all jobs share; the job's stream waits for them
//! where its plan needs what they bring, or the memory that they free. The host never waits for the
//! device.
//!
//! The device's oracle sees what is in memory: each operation finds the versions that it read when
//! it was recorded, and each storage that stays has its last version when the iteration ends.
//! Versions are counted here anew, from what was recorded, and not taken from the plan.

mod carrier;
mod deeds;
mod fit;
#[cfg(test)]
mod tests;
mod versions;

pub use fit::{Plans, one_at_a_time, relieve, relieve_in_turns, relieve_within};

use zico_core::{Bytes, Ticks};
use zico_plan::relief::{
    Graph, Kind, Link, Operation, Outcome, Step as Planned, Strategy, Terms, check, simulate,
};

use super::{Machine, Op, ReplayError};
use crate::trace::{BlockId, Operations, OperationsError, Trace};

pub(super) use carrier::{Carrier, CarryError};
pub(super) use deeds::Deed;
use deeds::Made;
use versions::Versions;

/// How plans of relief are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Who plans.
    pub strategy: Strategy,
    /// The way to the host.
    pub link: Link,
    /// The steps that a planner of ours may work beyond its first plans.
    pub work: u64,
}

/// Why a job cannot be relieved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReliefError {
    /// It is not known what its launches read and write.
    #[error("{job}: {source}")]
    Operations {
        /// The job.
        job: String,
        /// Why.
        source: OperationsError,
    },
    /// No plan has been found that fits.
    #[error(
        "{job}: the strategy {strategy} has no plan for {budget}; no plan at all is below {least}"
    )]
    NoPlan {
        /// The job.
        job: String,
        /// Who planned.
        strategy: &'static str,
        /// What it may hold.
        budget: Bytes,
        /// What is always there, and the largest operation.
        least: Bytes,
    },
    /// There are plans, and their blocks do not lie in as much memory.
    #[error("{job}: the blocks of each plan found need more than {allowed}")]
    NoRoom {
        /// The job.
        job: String,
        /// What it may hold, in whole regions.
        allowed: Bytes,
    },
    /// A replay of the job alone could not be done.
    #[error(transparent)]
    Replay(Box<ReplayError>),
}

/// Some iterations one after the other, between which and the next turn nothing of a job is on the
/// device: what persists is on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    iterations: u64,
    /// The nanoseconds in which all comes back and leaves.
    switch: u64,
    /// All comes back, and the first iteration.
    first: Vec<Deed>,
    /// All leaves.
    last: Vec<Deed>,
}

/// The share of a turn that transfers between turns take, as one in so many.
const SWITCHING: u64 = 64;

/// The most iterations of a turn.
const LONGEST: u64 = 1024;

impl ReliefError {
    /// With more memory there may be a plan.
    const fn is_of_memory(&self) -> bool {
        matches!(self, Self::NoPlan { .. } | Self::NoRoom { .. })
    }
}

/// The iteration of a job under a plan of relief: its last recorded one, played again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relieved {
    means: Means,
    setup: Vec<Deed>,
    deeds: Vec<Deed>,
    /// It runs by turns, if it does.
    turn: Option<Turn>,
    /// How long each operation takes, as recorded.
    works: Vec<Ticks>,
    /// All that runs in an iteration, as recorded.
    work: Ticks,
    blocks: Vec<BlockId>,
    versions: Versions,
    budget: Bytes,
    outcome: Outcome,
}

impl Relieved {
    /// Plans the last iteration of `trace` within so many bytes, on this machine, and checks the
    /// plan.
    ///
    /// # Errors
    /// It is not known what its launches read and write, or there is no plan.
    pub fn plan(
        trace: &Trace,
        means: &Means,
        machine: &Machine,
        budget: Bytes,
    ) -> Result<Self, ReliefError> {
        Self::planned(trace, means, machine, (budget, false))
    }

    /// The same for a job that runs by turns of some iterations. Between them nothing of it is on
    /// the device: what persists goes to the host, and comes back. A turn is as long as it takes
    /// for that to be a 64th of its time, and at most 1024 iterations.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub fn plan_in_turns(
        trace: &Trace,
        means: &Means,
        machine: &Machine,
        budget: Bytes,
    ) -> Result<Self, ReliefError> {
        Self::planned(trace, means, machine, (budget, true))
    }

    fn planned(
        trace: &Trace,
        means: &Means,
        machine: &Machine,
        (budget, in_turns): (Bytes, bool),
    ) -> Result<Self, ReliefError> {
        let operations = Recorded::new(trace, machine)?;
        let none = || ReliefError::NoPlan {
            job: trace.name().to_owned(),
            strategy: means.strategy.name(),
            budget,
            least: Bytes::new(operations.graph.working_set()),
        };
        let (graph, limit) = (&operations.graph, budget.value());
        let found = means.strategy.plan(graph, &means.link, limit, means.work).ok_or_else(none)?;
        let outcome = simulate(graph, &means.link, &found.steps, limit).map_err(|_| none())?;
        let terms = Terms { budget: limit, lossy: means.strategy.lossy() };
        check(graph, &means.link, &found.steps, &outcome.spans, terms).map_err(|_| none())?;
        let planned = (&found.steps[..], outcome);
        Ok(Self::carrying_out(&operations, means, (budget, in_turns), planned))
    }

    /// The job that carries out this schedule, be it right or wrong.
    fn carrying_out(
        recorded: &Recorded,
        means: &Means,
        (budget, in_turns): (Bytes, bool),
        (steps, outcome): (&[Planned], Outcome),
    ) -> Self {
        let new = || Made::new(&recorded.graph, &recorded.blocks, budget.value(), in_turns);
        let mut made = new();
        made.carry_out(steps, &outcome);
        let turn = in_turns.then(|| {
            let mut first = new();
            first.begin_turn();
            first.carry_out(steps, &outcome);
            let switch = recorded.switch(&means.link);
            let iterations = iterations_of(switch, outcome.nanos);
            Turn { iterations, switch, last: first.end_turn(), first: first.deeds }
        });
        let (setup, deeds) = (made.setup(), made.deeds);
        let runs = deeds.iter().filter_map(|deed| match *deed {
            Deed::Run(operation) => Some(recorded.works[operation as usize]),
            _ => None,
        });
        let work = runs.fold(Ticks::ZERO, Ticks::saturating_add);
        Self {
            means: *means,
            setup,
            deeds,
            turn,
            works: recorded.works.clone(),
            work,
            blocks: recorded.blocks.clone(),
            versions: Versions::new(&recorded.graph),
            budget,
            outcome,
        }
    }

    /// How it was planned.
    #[must_use]
    pub const fn means(&self) -> &Means {
        &self.means
    }

    /// The bytes that it was planned for.
    #[must_use]
    pub const fn budget(&self) -> Bytes {
        self.budget
    }

    /// How many iterations it does in a turn; `None` for a job that keeps what persists on the
    /// device.
    #[must_use]
    pub fn turn(&self) -> Option<u64> {
        self.turn.as_ref().map(|turn| turn.iterations)
    }

    /// What the plan comes to by itself: the time of an iteration on the device alone, its peak in
    /// bytes, what moves and what runs again.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

/// The last iteration of a trace.
struct Recorded {
    /// Its operations, with their times on the machine of the replay.
    graph: Graph,
    blocks: Vec<BlockId>,
    /// Their times as recorded.
    works: Vec<Ticks>,
}

impl Recorded {
    fn new(trace: &Trace, machine: &Machine) -> Result<Self, ReliefError> {
        let failed = |source| ReliefError::Operations { job: trace.name().to_owned(), source };
        let Operations { graph, blocks, names, backward } =
            trace.operations(trace.iterations().len() - 1).map_err(failed)?;
        let works: Vec<Ticks> =
            graph.operations().iter().map(|operation| Ticks::new(operation.nanos)).collect();
        let scaled = graph.operations().iter().map(|operation| Operation {
            nanos: machine.scaled(Ticks::new(operation.nanos), 1.0).value(),
            ..operation.clone()
        });
        let scaled = Graph::new(graph.storages().to_vec(), scaled.collect());
        // Its blocks are the pool's, and the pool has what persists in regions of its own.
        let graph = scaled.map_err(|source| failed(source.into()))?.with_resident_state();
        let graph = graph.with_kinds(names.iter().map(|name| Kind::of(name)).collect());
        let graph = match backward {
            Some(first) => graph.with_backward(first),
            None => graph,
        };
        Ok(Self { graph, blocks, works })
    }

    /// The nanoseconds in which all that persists comes back and leaves.
    fn switch(&self, link: &Link) -> u64 {
        let persist = self.graph.storages().iter().filter(|one| one.initial && one.kept);
        persist.fold(0_u64, |sum, one| {
            sum.saturating_add(link.nanos_out(one.bytes)).saturating_add(link.nanos_back(one.bytes))
        })
    }
}

/// How many iterations of so many nanoseconds a turn has.
fn iterations_of(switch: u64, nanos: u64) -> u64 {
    switch.saturating_mul(SWITCHING - 1).div_ceil(nanos.max(1)).clamp(1, LONGEST)
}

/// A relieved job as it is played: its setup, and then its turns without end, of one iteration each
/// where it does not say more.
#[derive(Clone, Debug)]
pub(super) struct Script {
    at: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Setup,
    Begin,
    /// So many iterations of the turn have gone before.
    Iteration(u64),
    Last,
}

impl Script {
    pub(super) const fn new() -> Self {
        Self { at: 0, part: Part::Setup }
    }

    pub(super) fn next(&mut self, of: &Relieved) -> Deed {
        loop {
            let deeds: &[Deed] = match (self.part, &of.turn) {
                (Part::Setup, _) => &of.setup,
                (Part::Begin, _) => &[],
                (Part::Iteration(0), Some(turn)) => &turn.first,
                (Part::Iteration(_), _) => &of.deeds,
                (Part::Last, turn) => turn.as_ref().map_or(&[], |turn| &turn.last),
            };
            if let Some(&deed) = deeds.get(self.at) {
                self.at += 1;
                return deed;
            }
            self.at = 0;
            if let Some(deed) = self.advance(of) {
                return deed;
            }
        }
    }

    /// What lies between this part and the next one.
    fn advance(&mut self, of: &Relieved) -> Option<Deed> {
        let iterations = of.turn().unwrap_or(1);
        let (next, deed) = match self.part {
            Part::Setup => (Part::Begin, None),
            Part::Begin => (Part::Iteration(0), Some(Deed::Op(Op::Begin { work: of.work }))),
            Part::Iteration(before) if before + 1 < iterations => {
                (Part::Iteration(before + 1), Some(Deed::Pass(of.work)))
            }
            Part::Iteration(_) => (Part::Last, None),
            Part::Last => (Part::Begin, Some(Deed::Op(Op::End))),
        };
        self.part = next;
        deed
    }
}
