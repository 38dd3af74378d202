//! Runs recorded training jobs together on the mock device, under one pool, or each under its own.
//!
//! Each job is a host thread in virtual time with one stream. It goes through its trace in program
//! order: it allocates and frees from the pool, and a launch costs the host a dispatch and the
//! device the recorded duration (scaled). The number of outstanding launches is limited, so the
//! host runs ahead of the device by a bounded amount. The earliest in virtual time goes first. Ties
//! go to the device, then to the job with fewer turns, then to the first in order. So the same
//! input gives exactly the same outcome.
//!
//! Launches of different jobs overlap and slow each other as [`Utilisation`](crate::Utilisation)
//! says. A trace recorded on a CPU does not contain utilisations: all figures of throughput depend
//! on that parameter.

mod actor;
mod elastic;
mod engine;
mod gaps;
mod handle;
mod machine;
mod outcome;
mod overflow;
mod pacer;
mod policies;
mod pools;
mod processes;
mod program;
mod progress;
mod relief;
mod sides;
mod solo;
mod source;
mod state;
mod trial;
mod usage;
mod vary;
mod wave;

pub use machine::{Machine, MemoryCallCosts};
pub use outcome::{JobOutcome, Outcome, Span};
pub use pacer::{Pacing, Priority};
pub use policies::PolicyKind;
pub use processes::Restart;
pub use program::{Op, Program};
pub use relief::{
    Means, Plans, ReliefError, Relieved, one_at_a_time, relieve, relieve_in_turns, relieve_within,
};
pub use solo::{Needs, Solo, needs, solo};
pub use trial::{Figures, Trial, fairness, trial};
pub use usage::{Phase, Usage};
pub use vary::varied;
pub use wave::{Sample, Wave};

use std::sync::Arc;

use engine::Replay;
use zico_core::policy::Policy;
use zico_core::{Bytes, FreeError, HandOver, JobConfig, JoinError, PoolConfig, PoolError, Ticks};

use crate::MockError;
use crate::trace::Trace;

/// The granularity of the device that jobs are replayed on: that of CUDA.
const GRANULARITY: Bytes = Bytes::mib(2);

/// How many iterations all jobs together may do while one job waits.
const PATIENCE: u64 = 10_000;

/// What to replay under.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayConfig {
    /// The pool's budget.
    pub budget: Bytes,
    /// The size of a region, if not the pool's own choice.
    pub region: Option<Bytes>,
    /// The scheduling policy.
    pub policy: PolicyKind,
    /// How memory passes from one job to another.
    pub hand_over: HandOver,
    /// Fewer calls of the device rather than least memory
    /// ([`PoolConfig::fewest_calls`](zico_core::PoolConfig::fewest_calls)).
    pub fewest_calls: bool,
    /// How many iterations each job does at least.
    pub iterations: u64,
    /// The jobs' configurations, in the order of the traces. A job without one gets the default.
    /// Names are those of the traces.
    pub jobs: Vec<JobConfig>,
    /// The jobs do not mark their iterations: the pool detects them.
    pub detect: bool,
    /// The jobs do not say how long blocks live: the pool learns it.
    pub learned: bool,
    /// Each iteration is over when the next one begins ([`Job::end_with_next`]), as where a step of
    /// an optimizer marks it.
    ///
    /// [`Job::end_with_next`]: zico_core::Job::end_with_next
    pub ends_with_next: bool,
    /// The pool may plan iterations that repeat.
    pub plans: bool,
    /// Each job is a process of its own, and one broker has the books of all. A message takes no
    /// time.
    pub processes: bool,
    /// When the broker of these processes dies, and another one comes. That one decides by
    /// [`policy`](Self::policy), whatever the first one did.
    pub restarts: Vec<Restart>,
    /// The plans of relief that jobs carry out, in the order of the traces. A job without one runs
    /// as it was recorded.
    pub relief: Vec<Option<Arc<Relieved>>>,
    /// What matters more, in the order of the traces. A job without one is of production.
    pub priorities: Vec<Priority>,
    /// The jobs take turns on the device where they keep more than the budget, each for at least so
    /// long. What a job has it keeps on the host between its turns.
    pub slice: Option<Ticks>,
    /// How jobs of low priority are paced, if they are.
    pub pacing: Option<Pacing>,
    /// Each job has an elastic cap, as under [AntMan](crate::policy::antman): what it has beyond
    /// that is on the host, and opportunistic jobs have the time that production leaves. Of use with
    /// [`PolicyKind::Unmanaged`], and on a device with a link.
    pub elastic: bool,
    /// When jobs come, and when they rest, in the order of the traces. A job without one comes at
    /// once and never rests.
    pub usage: Vec<Usage>,
    /// The window closes then, however many iterations each job has done.
    pub length: Option<Ticks>,
    /// The parameters of the simulated host and device.
    pub machine: Machine,
}

impl ReplayConfig {
    /// Twenty iterations of each job within `budget`, with zico deciding.
    #[must_use]
    pub fn new(budget: Bytes) -> Self {
        Self {
            budget,
            region: None,
            policy: PolicyKind::default(),
            hand_over: HandOver::default(),
            fewest_calls: false,
            iterations: 20,
            jobs: Vec::new(),
            detect: false,
            learned: false,
            ends_with_next: false,
            plans: true,
            processes: false,
            restarts: Vec::new(),
            relief: Vec::new(),
            priorities: Vec::new(),
            slice: None,
            pacing: None,
            elastic: false,
            usage: Vec::new(),
            length: None,
            machine: Machine::default(),
        }
    }

    /// What a pool is made of that is under this policy.
    fn pool(&self, policy: Option<Box<dyn Policy>>) -> PoolConfig {
        let mut pool =
            PoolConfig::new(self.budget).hand_over(self.hand_over).fewest_calls(self.fewest_calls);
        if let Some(region) = self.region {
            pool = pool.region_size(region);
        }
        match policy {
            Some(policy) => pool.policy(policy),
            None => pool,
        }
    }
}

/// A replay could not be done, or came to a stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The pool could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError<MockError>),
    /// A job could not join.
    #[error(transparent)]
    Join(#[from] JoinError<MockError>),
    /// The mock device refused a call that it should not have: a defect.
    #[error("the mock device refused")]
    Device(#[from] MockError),
    /// The pool refused to take back a block that it had given out: a defect.
    #[error("the pool refused a free")]
    Free(#[from] FreeError),
    /// A process asked its broker for what no correct one would: a defect.
    #[error("a process asked its broker for what no correct one would: {0}")]
    Client(String),
    /// A job waits for ever while the others go on: a breach of promise I5.
    #[error("{job} has waited while the other jobs did {PATIENCE} iterations:\n{snapshot}")]
    Starved {
        /// The job.
        job: String,
        /// The pool's snapshot.
        snapshot: String,
    },
    /// Every job waits, whatever happens, if anything still can: a breach of promise I4.
    #[error("at {at} every job waits, and no longer for the device:\n{snapshot}")]
    Deadlock {
        /// When.
        at: Ticks,
        /// The pool's snapshot.
        snapshot: String,
    },
}

/// Replays `traces` together until each job has done its iterations, but for those that are paced.
/// A job that is done goes on until the last one is, so that all run over the whole window.
///
/// `progress` is told how many of the iterations asked for have been done, of all jobs together.
///
/// # Errors
/// If the pool cannot be made, or no job can go on. A job that runs out of memory stops alone; its
/// outcome says why.
pub fn replay(
    traces: &[&Trace],
    config: &ReplayConfig,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, ReplayError> {
    replay_under(config.policy.policy(config.iterations), traces, config, progress)
}

/// The same under any `policy`, whatever `config` says of it: one of your own, or one that is
/// looked at while it decides. Without one each job has a pool of its own on the one device
/// ([`PolicyKind::Unmanaged`]).
///
/// # Errors
/// As [`replay`].
pub fn replay_under(
    policy: Option<Box<dyn Policy>>,
    traces: &[&Trace],
    config: &ReplayConfig,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, ReplayError> {
    Replay::new(policy, traces, config)?.run(progress)
}

/// The names of the jobs: those of their traces, numbered where one runs twice.
#[must_use]
pub fn names(traces: &[&Trace]) -> Vec<String> {
    let name = |(i, trace): (usize, &&Trace)| {
        let same = traces[..i].iter().filter(|other| other.name() == trace.name()).count();
        match same {
            0 => trace.name().to_owned(),
            n => format!("{} #{}", trace.name(), n + 1),
        }
    };
    traces.iter().enumerate().map(name).collect()
}
