//! Plans for jobs that share a budget below what they need.

use std::sync::Arc;

use zico_core::Bytes;

use super::{Means, ReliefError, Relieved};
use crate::replay::{
    Figures, Machine, Needs, PolicyKind, ReplayConfig, ReplayError, Solo, Trial, trial,
};
use crate::trace::Trace;

/// How often a plan is made anew for fewer bytes, because its blocks do not lie in the memory that
/// they may have.
const ROUNDS: usize = 10;

/// How many iterations a job does alone to show that it runs in its memory.
const ITERATIONS: u64 = 5;

/// The shares of the common memory that are tried, from the largest down.
const SHARES: [f64; 5] = [1.0, 0.85, 0.7, 0.6, 0.5];

/// How many iterations a share is judged by.
const TRIAL: u64 = 6;

/// Plans for jobs that run together.
#[derive(Clone, Debug, PartialEq)]
pub struct Plans {
    /// Each job's plan, in the order of the traces; `None` for those that run as they were
    /// recorded.
    pub jobs: Vec<Option<Arc<Relieved>>>,
    /// The share of what no job keeps that each of them may have at once.
    pub share: f64,
}

/// The plans with which jobs do most under a budget, whatever they need without.
///
/// What no job keeps between its iterations is there for all. Where each may have all of it, plans
/// are fast and one iteration runs at a time; where each may have a smaller share, plans are slower
/// and more iterations run side by side. Shares from 1 down are tried by short replays under the
/// policy of `config`, until one is worse than the one before.
///
/// # Errors
/// See [`ReliefError`]: if at a share of 1 there is a job without a plan.
pub fn relieve(
    traces: &[&Trace],
    needs: &Needs,
    config: &ReplayConfig,
    means: &Means,
) -> Result<Plans, ReliefError> {
    let mut best: Option<(f64, Plans)> = None;
    for share in SHARES {
        let plans = relieve_within(traces, needs, config.budget, share, means, &config.machine);
        let jobs = match plans {
            Err(error) if best.is_none() => return Err(error),
            Err(_) => break,
            Ok(jobs) => jobs,
        };
        let short = ReplayConfig {
            iterations: TRIAL.min(config.iterations),
            relief: jobs.clone(),
            ..config.clone()
        };
        let policy = config.policy.policy(short.iterations);
        let done = trial(traces, &short, policy, &mut |_| {}).map_err(replay_failed)?;
        let throughput =
            done.outcome().map_or(0.0, |outcome| Figures::new(outcome, needs).throughput);
        if best.as_ref().is_some_and(|(before, _)| throughput < *before) {
            break;
        }
        best = Some((throughput, Plans { jobs, share }));
    }
    let none = || Plans { jobs: vec![None; traces.len()], share: 1.0 };
    Ok(best.map_or_else(none, |(_, plans)| plans))
}

/// A plan for each job that needs one where each may have such a share, from 0 to 1, of what no job
/// keeps, beside what it keeps itself. `None` for those that run as they were recorded.
///
/// A plan counts bytes and memory is handed over in regions, so a plan is made for ever fewer bytes
/// until the job alone runs within what it may have.
///
/// # Errors
/// See [`ReliefError`]; the first job for which there is no plan.
pub fn relieve_within(
    traces: &[&Trace],
    needs: &Needs,
    budget: Bytes,
    share: f64,
    means: &Means,
    machine: &Machine,
) -> Result<Vec<Option<Arc<Relieved>>>, ReliefError> {
    let kept = needs.solos.iter().fold(Bytes::ZERO, |sum, solo| sum.saturating_add(solo.kept));
    let room = budget.saturating_sub(kept).value() as f64 * share.clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    let room = Bytes::new(room as u64);
    let plan = |(trace, solo): (&&Trace, &Solo)| {
        relieve_one(trace, solo, solo.kept.saturating_add(room), needs.region, means, machine)
    };
    traces.iter().zip(&needs.solos).map(plan).collect()
}

/// A plan for one job, if it needs one to run within so much memory.
fn relieve_one(
    trace: &Trace,
    solo: &Solo,
    allowed: Bytes,
    region: Bytes,
    means: &Means,
    machine: &Machine,
) -> Result<Option<Arc<Relieved>>, ReliefError> {
    let unit = region.value().max(1);
    let allowed = Bytes::new(allowed.value() / unit * unit);
    if solo.peak <= allowed {
        return Ok(None);
    }
    fit(trace, region, allowed, means, machine).map(|plan| Some(Arc::new(plan)))
}

/// What one job at a time does, alone in the budget and with a plan if it needs one: the mean of
/// the jobs' rates over those without a budget. `None` where there is no plan for one of them.
///
/// # Errors
/// A replay could not be done, or it is not known what a job's launches read and write.
pub fn one_at_a_time(
    traces: &[&Trace],
    needs: &Needs,
    config: &ReplayConfig,
    means: &Means,
) -> Result<Option<f64>, ReliefError> {
    let mut sum = 0.0;
    for (trace, solo) in traces.iter().zip(&needs.solos) {
        let (region, machine) = (needs.region, &config.machine);
        let plan = match relieve_one(trace, solo, config.budget, region, means, machine) {
            Err(ReliefError::NoPlan { .. } | ReliefError::NoRoom { .. }) => return Ok(None),
            plan => plan?,
        };
        let alone = ReplayConfig { policy: PolicyKind::Zico, relief: vec![plan], ..config.clone() };
        let policy = alone.policy.policy(alone.iterations);
        let done = trial(&[trace], &alone, policy, &mut |_| {}).map_err(replay_failed)?;
        let Some(outcome) = done.outcome() else { return Ok(None) };
        sum += outcome.rate(&outcome.jobs[0]) / solo.rate;
    }
    Ok(Some(sum / traces.len().max(1) as f64))
}

fn replay_failed(error: ReplayError) -> ReliefError {
    ReliefError::Replay(Box::new(error))
}

/// A plan with which a job alone runs in so much memory.
fn fit(
    trace: &Trace,
    region: Bytes,
    allowed: Bytes,
    means: &Means,
    machine: &Machine,
) -> Result<Relieved, ReliefError> {
    let (mut bytes, mut last, mut least) = (allowed, None, Bytes::ZERO);
    for _ in 0..ROUNDS {
        let plan = match (Relieved::plan(trace, means, machine, bytes), last) {
            (Ok(plan), _) => Arc::new(plan),
            // Too few bytes: between these and the last ones.
            (Err(ReliefError::NoPlan { .. }), Some(last)) => {
                least = bytes;
                bytes = middle(least, last);
                continue;
            }
            (Err(error), _) => return Err(error),
        };
        let over = over(trace, region, allowed, &plan, machine)?;
        if over.is_zero() {
            return Ok(Arc::unwrap_or_clone(plan));
        }
        let most = bytes.min(Bytes::new(plan.outcome().peak));
        last = Some(most);
        let fewer = most.saturating_sub(over);
        bytes = if fewer <= least { middle(least, most) } else { fewer };
    }
    Err(ReliefError::NoRoom { job: trace.name().to_owned(), allowed })
}

fn middle(least: Bytes, most: Bytes) -> Bytes {
    least.saturating_add(Bytes::new(most.saturating_sub(least).value() / 2))
}

/// How much more than what is allowed a job needs alone: nothing if it runs in that.
fn over(
    trace: &Trace,
    region: Bytes,
    allowed: Bytes,
    plan: &Arc<Relieved>,
    machine: &Machine,
) -> Result<Bytes, ReliefError> {
    let alone = |budget| {
        let config = ReplayConfig {
            region: Some(region),
            iterations: ITERATIONS,
            machine: Machine { jitter: 0.0, ..machine.clone() },
            relief: vec![Some(plan.clone())],
            ..ReplayConfig::new(budget)
        };
        let policy = PolicyKind::Zico.policy(ITERATIONS);
        trial(&[trace], &config, policy, &mut |_| {}).map_err(replay_failed)
    };
    if matches!(alone(allowed)?, Trial::Done(_)) {
        return Ok(Bytes::ZERO);
    }
    let ample = allowed.saturating_add(allowed);
    let needed = match alone(ample)? {
        Trial::Done(outcome) => outcome.jobs[0].peak_leased,
        _ => ample,
    };
    Ok(needed.saturating_sub(allowed).at_least(region))
}
