//! How well recorded jobs share one budget under each policy: the tables of `docs/results.md` and
//! the picture beside it.
//!
//! Everything comes from [`zico_mock::replay::trial`], as in `zico compare`.

mod cases;
mod lagging;
mod parallel;
mod sweep;
mod tables;

pub use cases::{cases, triples};
pub use lagging::lagging;
pub use parallel::in_parallel;
pub use sweep::sweep;
pub use tables::{hand_overs, policies, sets};

use std::error::Error;

use zico_core::{Bytes, HandOver};
use zico_mock::bundled;
use zico_mock::replay::{
    Figures, Machine, Needs, PolicyKind, ReplayConfig, ReplayError, Trial, needs, trial,
};
use zico_mock::trace::Trace;

/// Jobs, and what they need.
pub struct Set<'t> {
    /// The traces' names.
    pub name: String,
    traces: Vec<&'t Trace>,
    needs: Needs,
    iterations: u64,
}

/// All bundled traces, in the order of their names.
///
/// # Errors
/// If one is damaged.
pub fn bundled_traces() -> Result<Vec<Trace>, Box<dyn Error>> {
    Ok(bundled::names().map(bundled::open).collect::<Result<_, _>>()?)
}

/// All pairs of so many.
#[must_use]
pub fn pairs(count: usize) -> Vec<Vec<usize>> {
    (0..count).flat_map(|i| (i + 1..count).map(move |j| vec![i, j])).collect()
}

impl<'t> Set<'t> {
    /// Runs each job alone, for as many iterations as all do together later.
    fn new(
        traces: Vec<&'t Trace>,
        iterations: u64,
        machine: &Machine,
    ) -> Result<Self, ReplayError> {
        let needs = needs(&traces, None, iterations, machine)?;
        let name = traces.iter().map(|trace| trace.name()).collect::<Vec<_>>().join(" + ");
        Ok(Self { name, traces, needs, iterations })
    }

    /// Sets of those of `traces` that have these numbers, in parallel.
    ///
    /// # Errors
    /// If one of the jobs cannot run alone: a defect.
    pub fn all(
        traces: &'t [Trace],
        numbers: &[Vec<usize>],
        iterations: u64,
    ) -> Result<Vec<Self>, ReplayError> {
        Self::all_on(traces, numbers, iterations, &Machine::default())
    }

    /// The same on such a machine.
    fn all_on(
        traces: &'t [Trace],
        numbers: &[Vec<usize>],
        iterations: u64,
        machine: &Machine,
    ) -> Result<Vec<Self>, ReplayError> {
        let set = |numbers: &Vec<usize>| {
            Self::new(numbers.iter().map(|&i| &traces[i]).collect(), iterations, machine)
        };
        in_parallel("jobs alone", numbers, set).into_iter().collect()
    }

    fn config(&self, policy: PolicyKind, f: f64) -> ReplayConfig {
        let budget = self.needs.budget_at(f);
        ReplayConfig {
            region: Some(self.needs.region),
            iterations: self.iterations,
            policy,
            jobs: self.needs.terms(policy, budget),
            ..ReplayConfig::new(budget)
        }
    }

    fn under(&self, policy: PolicyKind, f: f64) -> Result<Trial, ReplayError> {
        self.run(&self.config(policy, f))
    }

    fn handing_over(&self, hand_over: HandOver, f: f64) -> Result<Trial, ReplayError> {
        self.run(&ReplayConfig { hand_over, ..self.config(PolicyKind::Zico, f) })
    }

    fn run(&self, config: &ReplayConfig) -> Result<Trial, ReplayError> {
        trial(&self.traces, config, config.policy.policy(config.iterations), &mut |_| {})
    }

    fn figures(&self, trial: &Trial) -> Option<Figures> {
        trial.outcome().map(|outcome| Figures::new(outcome, &self.needs))
    }
}

fn gib(bytes: Bytes) -> f64 {
    bytes.value() as f64 / f64::from(1 << 30)
}

fn name(policy: PolicyKind) -> &'static str {
    policy.name()
}
