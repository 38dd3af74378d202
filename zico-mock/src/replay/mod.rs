//! Runs recorded training jobs together on the mock device, under one pool, or each under its own.
//!
//! Each job is a host thread in virtual time with one stream. It goes through its trace in program
//! order: it allocates and frees from the pool, and a launch costs the host a dispatch and the
//! device the recorded duration (scaled). At most so many launches may be outstanding, so the host
//! runs ahead of the device by a bounded amount. Whoever comes first in virtual time goes first;
//! ties go to the device, then to the job that has had fewer turns, then to the one named first: the same input gives the same
//! outcome to the last digit.
//!
//! Launches of different jobs overlap and slow each other as [`Utilisation`] says. A trace recorded
//! on a CPU does not tell a launch's utilisation: all figures of throughput depend on that
//! parameter.

mod actor;
mod outcome;
mod pace;
mod policies;
mod pools;
mod program;
mod solo;
mod trial;
mod vary;
mod wave;

pub use outcome::{JobOutcome, Outcome, Span};
pub use policies::PolicyKind;
pub use program::{Op, Program};
pub use solo::{Needs, Solo, needs, solo};
pub use trial::{Figures, Trial, fairness, trial};
pub use vary::varied;
pub use wave::{Sample, Wave};

use actor::Actor;
use pools::Pools;
use zico_core::policy::Policy;
use zico_core::{Bytes, FreeError, HandOver, JobConfig, JoinError, PoolError, Ticks};

use crate::trace::Trace;
use crate::{Calls, MockConfig, MockDevice, MockError, Operation, Utilisation};

/// The granularity of the device that jobs are replayed on: that of CUDA.
const GRANULARITY: Bytes = Bytes::mib(2);

/// How often jobs may look again at one moment with nothing coming of it.
const VAIN_ROUNDS: u32 = 10_000;

/// How many iterations all jobs together may do while one job waits.
const PATIENCE: u64 = 10_000;

/// How the recorded jobs meet the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The length of a launch on the device over its recorded length.
    pub time_scale: f64,
    /// What a launch costs the host.
    pub dispatch: Ticks,
    /// What calls that change the device's memory cost the host that makes them.
    pub memory_calls: MemoryCallCosts,
    /// How many launches of a job may be enqueued and not finished.
    pub run_ahead: u64,
    /// How much of the device one launch takes up while it runs.
    pub utilisation: Utilisation,
    /// Each launch's length is off by up to this share of it, at random ...
    pub jitter: f64,
    /// ... from this seed.
    pub seed: u64,
}

impl Default for Machine {
    /// 1/50 of the recorded CPU time, 5 us to dispatch, 64 launches ahead, a utilisation of 0.6,
    /// lengths off by up to 5%.
    fn default() -> Self {
        Self {
            time_scale: 0.02,
            dispatch: Ticks::micros(5),
            memory_calls: MemoryCallCosts::default(),
            run_ahead: 64,
            utilisation: Utilisation::new(600).unwrap_or(Utilisation::FULL),
            jitter: 0.05,
            seed: 1,
        }
    }
}

/// The time that calls which change the device's memory take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCallCosts {
    /// Physical memory is created,
    pub create: Ticks,
    /// destroyed,
    pub destroy: Ticks,
    /// made accessible at new addresses,
    pub map: Ticks,
    /// for each of its pieces,
    pub piece: Ticks,
    /// unmapped.
    pub unmap: Ticks,
}

impl MemoryCallCosts {
    /// They cost nothing.
    pub const NONE: Self = Self {
        create: Ticks::ZERO,
        destroy: Ticks::ZERO,
        map: Ticks::ZERO,
        piece: Ticks::ZERO,
        unmap: Ticks::ZERO,
    };

    /// The cost of these calls, and of so many pieces mapped.
    fn of(&self, calls: &Calls, pieces: u64) -> Ticks {
        let costs = [
            (calls.of(Operation::Create), self.create),
            (calls.of(Operation::Destroy), self.destroy),
            (calls.of(Operation::Map), self.map),
            (pieces, self.piece),
            (calls.of(Operation::Unmap), self.unmap),
        ];
        Ticks::new(costs.into_iter().map(|(count, each)| count * each.value()).sum())
    }
}

impl Default for MemoryCallCosts {
    /// What CUDA's driver takes for 2 MiB on an A100, as measured by Prabhu et al., "vAttention"
    /// (ASPLOS 2025), Table 3.
    fn default() -> Self {
        let [create, destroy, map, piece, unmap] = [29, 23, 38, 2, 34].map(Ticks::micros);
        Self { create, destroy, map, piece, unmap }
    }
}

impl Machine {
    /// The length on the device of a launch that was recorded with length `recorded`, and is `off`
    /// times as long as usual.
    #[must_use]
    pub fn scaled(&self, recorded: Ticks, off: f64) -> Ticks {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        Ticks::new((recorded.value() as f64 * self.time_scale * off).round() as u64)
    }
}

/// What to replay under.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayConfig {
    /// The pool's budget.
    pub budget: Bytes,
    /// The size of a region, if not the pool's own choice.
    pub region: Option<Bytes>,
    /// Who decides.
    pub policy: PolicyKind,
    /// How memory passes from one job to another.
    pub hand_over: HandOver,
    /// How many iterations each job does at least.
    pub iterations: u64,
    /// On which terms the jobs join, in the order of the traces. One that is not here has none. Names
    /// are those of the traces.
    pub jobs: Vec<JobConfig>,
    /// The jobs do not mark their iterations: the pool detects them.
    pub detect: bool,
    /// The pool may plan iterations that repeat.
    pub plans: bool,
    /// How the jobs meet the device.
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
            iterations: 20,
            jobs: Vec::new(),
            detect: false,
            plans: true,
            machine: Machine::default(),
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
    /// A job waits for ever while the others go on: a breach of promise I5.
    #[error("{job} has waited while the other jobs did {PATIENCE} iterations:\n{books}")]
    Starved {
        /// The job.
        job: String,
        /// The pool's books.
        books: String,
    },
    /// Every job waits and nothing can happen any more: a breach of promise I4.
    #[error("at {at} every job waits and the device has nothing left to do:\n{books}")]
    Deadlock {
        /// When.
        at: Ticks,
        /// The pool's books.
        books: String,
    },
}

/// Replays `traces` together until each job has done its iterations. A job that is done goes on
/// until the last one is, so that all run over the whole window.
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

/// The same under any `policy`, whatever `config` says of it: one of your own, or one that is looked
/// at while it decides. Under none each job has a pool of its own on the one device
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

/// A replay under way.
struct Replay<'t> {
    device: MockDevice,
    pools: Pools,
    actors: Vec<Actor<'t>>,
    wave: Wave,
    peak_live: Bytes,
    /// When each job had done its first iteration.
    settled: Option<Ticks>,
    /// The pools' generation when waiting jobs were last let look again.
    seen: u32,
}

impl<'t> Replay<'t> {
    fn new(
        policy: Option<Box<dyn Policy>>,
        traces: &[&'t Trace],
        config: &ReplayConfig,
    ) -> Result<Self, ReplayError> {
        let mock = MockConfig::new(config.budget).granularity(GRANULARITY).budget(config.budget);
        let device = MockDevice::new(mock)?;
        let pools = Pools::new(&device, policy, traces.len(), config)?;
        let mut actors = Vec::with_capacity(traces.len());
        for (i, (trace, name)) in traces.iter().zip(names(traces)).enumerate() {
            let tag = u32::try_from(i).unwrap_or(u32::MAX);
            let terms = config.jobs.get(i).cloned().unwrap_or_default();
            actors.push(Actor::new(tag, (name, terms), trace, config, pools.of(i))?);
        }
        let seen = pools.generation();
        Ok(Self {
            device,
            pools,
            actors,
            wave: Wave::new(),
            peak_live: Bytes::ZERO,
            settled: None,
            seen,
        })
    }

    fn run(mut self, progress: &mut dyn FnMut(u64)) -> Result<Outcome, ReplayError> {
        let mut reported = 0;
        let (mut last, mut rounds) = ((Ticks::ZERO, 0), 0);
        while !self.actors.iter().all(Actor::is_done) {
            let ready =
                |(i, actor): (usize, &Actor<'_>)| Some((actor.ready_at()?, actor.turns(), i));
            let next = self.actors.iter().enumerate().filter_map(ready).min();
            match (next, self.device.next_completion()) {
                (Some((at, _, i)), completion)
                    if completion.is_none_or(|completion| at < completion) =>
                {
                    self.device.advance_to(at);
                    self.actors[i].step(at)?;
                    self.note(at);
                }
                (_, Some(completion)) => self.complete(completion)?,
                (_, None) => self.nudge()?,
            }
            self.wake();
            if self.settled.is_none() && self.actors.iter().all(|actor| actor.iterations() > 0) {
                self.settled = Some(self.now());
                self.actors.iter_mut().for_each(Actor::settle);
            }
            // Time or a job's steps go on; if neither does for long, those who wait wake each other
            // in vain.
            let point = (self.now(), self.actors.iter().map(Actor::steps).sum::<u64>());
            rounds = if point == last { rounds + 1 } else { 0 };
            last = point;
            if rounds > VAIN_ROUNDS {
                return Err(self.deadlock());
            }
            self.check_patience()?;
            let done = self.actors.iter().map(Actor::iterations_wanted_done).sum();
            if done != reported {
                reported = done;
                progress(done);
            }
        }
        self.finish()
    }

    /// The device finishes a launch.
    fn complete(&mut self, at: Ticks) -> Result<(), ReplayError> {
        self.device.advance_to(at);
        for actor in &mut self.actors {
            actor.completed(at);
        }
        if self.actors.iter().any(Actor::waits_for_pool) {
            self.pools.poll()?;
        }
        let mut left = self.actors.iter().enumerate().filter(|(_, actor)| actor.has_left());
        left.try_for_each(|(i, _)| self.pools.has_left(i))?;
        Ok(())
    }

    /// Nobody is ready and the device is idle: there may be fences to look at. If that changes
    /// nothing, nothing ever will.
    fn nudge(&mut self) -> Result<(), ReplayError> {
        let before = self.pools.generation();
        self.pools.poll()?;
        if self.pools.generation() == before && self.seen == before {
            return Err(self.deadlock());
        }
        Ok(())
    }

    /// No job may wait for ever, however busy the others are.
    fn check_patience(&mut self) -> Result<(), ReplayError> {
        let total = self.actors.iter().map(Actor::iterations).sum();
        let starved = |actor: &mut Actor<'_>| actor.has_waited(total) > PATIENCE;
        let Some(job) = self.actors.iter_mut().position(starved) else { return Ok(()) };
        let (job, books) = (self.actors[job].name().to_owned(), self.pools.books());
        Err(ReplayError::Starved { job, books })
    }

    fn deadlock(&self) -> ReplayError {
        ReplayError::Deadlock { at: self.now(), books: self.pools.books() }
    }

    /// Lets those who wait for the pool look again if it has changed.
    fn wake(&mut self) {
        let generation = self.pools.generation();
        if generation != self.seen {
            self.seen = generation;
            let now = self.now();
            self.actors.iter_mut().for_each(|actor| actor.look_again(now));
        }
    }

    fn now(&self) -> Ticks {
        zico_core::Device::now(&self.device)
    }

    fn note(&mut self, now: Ticks) {
        let live =
            self.actors.iter().fold(Bytes::ZERO, |sum, actor| sum.saturating_add(actor.live()));
        self.peak_live = self.peak_live.at_least(live);
        self.wave.note(now, self.actors.iter().map(|actor| actor.held().total()));
    }

    /// Closes the window, lets all jobs leave, and sees to it that everything comes back.
    fn finish(self) -> Result<Outcome, ReplayError> {
        let window = self.now();
        let steps = self.actors.iter().map(Actor::steps).sum();
        let finished = self.actors.into_iter().map(|actor| actor.finish(window));
        let jobs: Vec<JobOutcome> = finished.collect::<Result<_, _>>()?;
        self.device.run_until_idle();
        self.pools.poll()?;
        let calls = self.device.calls();
        let memory = [Operation::Create, Operation::Destroy, Operation::Map, Operation::Unmap];
        Ok(Outcome {
            policy: self.pools.policy(),
            budget: self.pools.budget(),
            region: self.pools.region_size(),
            window,
            settled: self.settled,
            peak_held: self.device.usage().peak_physical,
            peak_live: self.peak_live,
            violations: self.device.violations(),
            violation_count: self.device.violation_count(),
            steps,
            memory_calls: memory.iter().map(|&operation| calls.of(operation)).sum(),
            jobs,
            wave: self.wave,
        })
    }
}
