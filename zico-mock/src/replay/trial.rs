//! One policy on a set of jobs under one budget: the figures by which policies are compared, or the
//! reason why there are none.

use zico_core::policy::Policy;

use super::{JobOutcome, Needs, Outcome, ReplayConfig, ReplayError, replay_under};
use crate::trace::Trace;

/// The result of a trial.
#[derive(Clone, Debug)]
pub enum Trial {
    /// Every job did its iterations.
    Done(Box<Outcome>),
    /// Under this policy the budget is not enough: a job ran out of memory or was not let in.
    Unfit {
        /// Which job, and why.
        reason: String,
        /// What the oracle saw meanwhile.
        violations: u64,
    },
    /// Jobs waited for ever: a breach of the promises that there is no deadlock and no starvation.
    Stuck {
        /// The jobs that waited, and the pool's snapshot.
        reason: String,
    },
}

impl Trial {
    /// The outcome, if every job did its iterations.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Done(outcome) => Some(outcome),
            Self::Unfit { .. } | Self::Stuck { .. } => None,
        }
    }

    /// Why there is none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Done(_) => None,
            Self::Unfit { reason, .. } | Self::Stuck { reason } => Some(reason),
        }
    }

    /// How many violations the oracle saw.
    #[must_use]
    pub fn violations(&self) -> u64 {
        match self {
            Self::Done(outcome) => outcome.violation_count,
            Self::Unfit { violations, .. } => *violations,
            Self::Stuck { .. } => 0,
        }
    }
}

/// Replays under `policy`, or under none, whatever `config` says of it.
///
/// # Errors
/// As [`replay`](super::replay), except for failures caused by the policy, which are results.
pub fn trial(
    traces: &[&Trace],
    config: &ReplayConfig,
    policy: Option<Box<dyn Policy>>,
    progress: &mut dyn FnMut(u64),
) -> Result<Trial, ReplayError> {
    let outcome = match replay_under(policy, traces, config, progress) {
        Ok(outcome) => outcome,
        Err(error @ (ReplayError::Deadlock { .. } | ReplayError::Starved { .. })) => {
            return Ok(Trial::Stuck { reason: error.to_string() });
        }
        Err(ReplayError::Join(error)) => {
            return Ok(Trial::Unfit { reason: error.to_string(), violations: 0 });
        }
        Err(error) => return Err(error),
    };
    let failed = |job: &JobOutcome| Some(format!("{}: {}", job.name, job.failure.as_ref()?));
    Ok(match outcome.jobs.iter().find_map(failed) {
        Some(reason) => Trial::Unfit { reason, violations: outcome.violation_count },
        None => Trial::Done(Box::new(outcome)),
    })
}

/// The summary of an outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The sum over jobs of the rate over the rate alone: 1 is one job's worth.
    pub throughput: f64,
    /// Each job's rate over its rate alone.
    pub relative: Vec<f64>,
    /// [`fairness`] of these.
    pub fairness: f64,
    /// The share of the time spent waiting for iterations to start, mean over jobs.
    pub start_delay: f64,
    /// The share of the time spent waiting for memory within iterations, mean over jobs.
    pub stalled: f64,
    /// Iterations that were completed, of all jobs together.
    pub iterations: u64,
    /// Device memory calls per iteration.
    pub memory_calls: f64,
}

impl Figures {
    /// The figures of an outcome of the jobs whose needs these are.
    #[must_use]
    pub fn new(outcome: &Outcome, needs: &Needs) -> Self {
        let jobs = outcome.jobs.iter().zip(&needs.solos);
        let over = |rate: f64, alone: f64| if alone > 0.0 { rate / alone } else { 0.0 };
        let relative: Vec<f64> =
            jobs.map(|(job, solo)| over(outcome.rate(job), solo.rate)).collect();
        let time = outcome.window.seconds() * outcome.jobs.len() as f64;
        let share = |of: fn(&JobOutcome) -> f64| over(outcome.jobs.iter().map(of).sum(), time);
        let done: f64 = outcome.jobs.iter().map(|job| job.iterations_done).sum();
        Self {
            throughput: relative.iter().sum(),
            fairness: fairness(&relative),
            relative,
            start_delay: share(|job| job.start_delay.seconds()),
            stalled: share(|job| job.stalled.seconds()),
            iterations: outcome.jobs.iter().map(|job| job.iterations).sum(),
            memory_calls: over(outcome.memory_calls as f64, done),
        }
    }
}

/// Jain's fairness index of what n users get: (sum x)^2 / (n sum x^2). It is 1 if all get the same
/// and k / n if k of them get the same and the others nothing. It is 1 for no users, and if all get
/// nothing.
///
/// R. Jain, D. Chiu, W. Hawe: *A Quantitative Measure of Fairness and Discrimination for Resource
/// Allocation in Shared Computer Systems*, DEC Research Report TR-301, 1984.
#[must_use]
pub fn fairness(shares: &[f64]) -> f64 {
    let (sum, squares) =
        shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

    use super::*;
    use crate::replay::{Machine, PolicyKind, needs};
    use crate::trace::bundled;

    #[test]
    fn fairness_is_between_one_nth_and_one() {
        let close = |shares: &[f64], index: f64| (fairness(shares) - index).abs() < 1e-12;
        assert!(close(&[0.7, 0.7, 0.7], 1.0));
        assert!(close(&[0.0, 0.3, 0.0, 0.0], 0.25));
        assert!(close(&[5.0, 5.0, 0.0, 0.0], 0.5));
        // (1 + 3)^2 / (2 (1 + 9)), and the same in any unit.
        assert!(close(&[1.0, 3.0], 0.8) && close(&[1e-9, 3e-9], 0.8));
        assert!(close(&[0.0, 0.0], 1.0) && close(&[], 1.0));
    }

    #[test]
    fn the_budget_may_be_too_small_for_a_policy_but_not_for_another() {
        let traces = [bundled::open("resnet50").unwrap(), bundled::open("mobilenet_v2").unwrap()];
        let jobs: Vec<&Trace> = traces.iter().collect();
        let needs = needs(&jobs, None, 3, &Machine::default()).unwrap();
        let under = |policy: PolicyKind| {
            let budget = needs.budget_at(0.25);
            let config = ReplayConfig {
                region: Some(needs.region),
                iterations: 3,
                jobs: needs.terms(policy, budget),
                ..ReplayConfig::new(budget)
            };
            trial(&jobs, &config, policy.policy(3), &mut |_| {}).unwrap()
        };
        let Trial::Unfit { reason, violations: 0 } = under(PolicyKind::Static) else {
            panic!("half of the sum of the peaks and more is needed");
        };
        assert!(reason.starts_with("resnet50: ") || reason.starts_with("mobilenet_v2: "));
        let exclusive = under(PolicyKind::Exclusive);
        let outcome = exclusive.outcome().unwrap();
        assert_eq!((outcome.policy, exclusive.reason()), ("exclusive", None));
        let figures = Figures::new(outcome, &needs);
        // Jobs that take turns have one job's worth together, and wait for their turns.
        assert!((figures.throughput - 1.0).abs() < 0.02, "{figures:?}");
        assert!(figures.start_delay > 0.4 && figures.stalled < 0.1, "{figures:?}");
        assert!(figures.iterations >= 6 && figures.relative.len() == 2, "{figures:?}");
    }
}
