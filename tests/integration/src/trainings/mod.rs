//! Trainings that nobody has looked at, in every setting of the pool and of the machine.
//!
//! A seed draws two to four [trainings](Training), and [what they run under](Setting): what the
//! pool knows of them and is told to do, the machine, and a budget. They are replayed together,
//! one pool for all or a process each, whose broker may die, and any may end before it is done.
//! Whatever the setting: the oracle sees no byte with two owners and none reused before its fence
//! (I2, I3), the device never gives out more than the budget (I1), nobody waits for ever (I4) or
//! is passed over (I5). Where there is plenty nobody is out of memory.
//!
//! Every setting of a replay is drawn here but for plans of relief, elastic caps and a fixed
//! length: one that is added has to be drawn as well.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod job;
mod setting;

use std::fmt;

use fastrand::Rng;
use zico_core::Bytes;
use zico_mock::replay::{Outcome, PolicyKind, ReplayConfig, ReplayError, needs, replay};
use zico_mock::trace::Trace;

pub use job::Training;
pub use setting::Setting;

use crate::seeds;

/// A case: trainings, and what they run under.
#[derive(Debug)]
pub struct Case {
    /// The trainings.
    pub trainings: Vec<Training>,
    /// What they run under.
    pub setting: Setting,
    traces: Vec<Trace>,
    config: ReplayConfig,
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The oracle has seen two owners of a byte, or memory in use that is not there.
    Violation,
    /// The device has given out more than the budget.
    Budget,
    /// All jobs wait, and nothing can happen any more.
    Deadlock,
    /// One waits while the others go on.
    Starved,
    /// There is room for all peaks, and a job is out of memory.
    Told,
    /// A call failed that must not.
    Error,
    /// The pool panicked.
    Panic,
}

/// A run that broke a promise.
pub type Failure = crate::seeds::Failure<Kind>;

/// What came of a case.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Steps replayed.
    pub steps: u64,
    /// Blocks that lay where a plan had them.
    pub planned: u64,
    /// Jobs that were out of memory, and why.
    pub out_of_memory: Vec<String>,
    /// Brokers that have died.
    pub restarts: u64,
}

impl Case {
    /// The case of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(2..5).min(rng.usize(2..5));
        let mut trainings: Vec<Training> = (0..count).map(|_| Training::draw(&mut rng)).collect();
        if rng.u8(..6) == 0 {
            trainings[1] = trainings[0].clone();
        }
        let setting = Setting::draw(&mut rng, count);
        let name = |at: usize| format!("training {at}");
        let traces: Vec<Trace> =
            (0..).zip(&trainings).map(|(at, training)| training.trace(&name(at))).collect();
        let config = setting.config(&traces.iter().collect::<Vec<_>>());
        Self { trainings, setting, traces, config }
    }

    /// The same where no broker dies, no job ends before it is done and no iteration is
    /// interrupted: what was drawn of a seed before there were such things.
    #[must_use]
    pub fn undisturbed(mut self) -> Self {
        self.config.restarts.clear();
        self.config.usage.iter_mut().for_each(|usage| usage.ends = None);
        self.with_interruptible(false)
    }

    /// The same where all iterations may be interrupted, or none.
    #[must_use]
    pub fn with_interruptible(mut self, interruptible: bool) -> Self {
        self.setting.set_interruptible(interruptible);
        self.config.jobs = self.setting.jobs();
        self
    }

    /// Replays it.
    ///
    /// # Errors
    /// If a promise is broken.
    pub fn run(&self) -> Result<Report, Failure> {
        self.run_as(&self.config)
    }

    /// Whether all jobs get through one at a time.
    #[must_use]
    pub fn is_enough_for_one(&self) -> bool {
        let config = ReplayConfig { policy: PolicyKind::Exclusive, ..self.config.clone() };
        self.run_as(&config).is_ok_and(|report| report.out_of_memory.is_empty())
    }

    fn run_as(&self, config: &ReplayConfig) -> Result<Report, Failure> {
        let traces: Vec<&Trace> = self.traces.iter().collect();
        seeds::caught(Kind::Panic, || match replay(&traces, config, &mut |_| {}) {
            Ok(outcome) => self.judge(&outcome),
            Err(error) => Err(Failure { kind: kind_of(&error), text: error.to_string() }),
        })
    }

    fn judge(&self, outcome: &Outcome) -> Result<Report, Failure> {
        let fails = |kind, text| Err(Failure { kind, text });
        if outcome.violation_count > 0 {
            return fails(Kind::Violation, format!("{:?}", outcome.violations.first()));
        }
        if outcome.peak_held > outcome.budget {
            let text = format!("{} held of {}", outcome.peak_held, outcome.budget);
            return fails(Kind::Budget, text);
        }
        let failures = outcome.jobs.iter().filter_map(|job| Some((job, job.failure.as_ref()?)));
        let out_of_memory: Vec<String> = failures
            .map(|(job, why)| format!("{} after {} iterations: {why}", job.name, job.iterations))
            .collect();
        if self.setting.is_plenty() && !out_of_memory.is_empty() {
            return fails(Kind::Told, out_of_memory.join("\n"));
        }
        let planned = outcome.jobs.iter().map(|job| job.planning.placed).sum();
        let (steps, restarts) = (outcome.steps, outcome.restarts);
        Ok(Report { steps, planned, out_of_memory, restarts })
    }
}

fn kind_of(error: &ReplayError) -> Kind {
    match error {
        ReplayError::Deadlock { .. } => Kind::Deadlock,
        ReplayError::Starved { .. } => Kind::Starved,
        _ => Kind::Error,
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} for {:?}", self.config.budget, self.setting)?;
        for training in &self.trainings {
            writeln!(f, "  {training:?}")?;
        }
        Ok(())
    }
}

/// The budget of a share of what jobs need, run alone for as long as it takes to see all that they
/// do. Plenty is twice the sum of that, and some regions for each: what is learned, and blocks that
/// lie otherwise, need more than what is told.
fn budget(traces: &[&Trace], f: Option<f64>, config: &ReplayConfig) -> Bytes {
    let iterations = traces.iter().map(|trace| trace.iterations().len() as u64 + 2).max();
    let needs = needs(traces, config.region, iterations.unwrap_or(1), &config.machine).unwrap();
    let spare = Bytes::new(needs.region.value() * 16 * traces.len() as u64);
    let plenty = || needs.sum.saturating_add(needs.sum).saturating_add(spare);
    f.map_or_else(plenty, |f| needs.budget_at(f))
}
