//! Plans for jobs that share a budget below what they need.

use std::sync::Arc;

use zico_core::Bytes;

use super::{Means, ReliefError, Relieved, iterations_of};
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

/// How much more jobs have to do by turns than side by side for that to be worth it: turns are
/// long.
const WORTH: f64 = 1.05;

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
    /// The jobs run by turns of some iterations, and what persists of the others is on the host:
    /// [`Relieved::turn`].
    pub in_turns: bool,
}

/// The plans with which jobs do most under a budget, whatever they need without.
///
/// What no job keeps between its iterations is there for all. Where each may have all of it, plans
/// are fast and one iteration runs at a time; where each may have a smaller share, plans are slower
/// and more iterations run side by side. Shares from 1 down are tried by short replays under the
/// policy of `config`, until one is worse than the one before.
///
/// Where that leaves jobs slower by a twentieth than one at a time would be, or without plans, they
/// run by turns: each has the whole budget for some iterations, and between turns what persists of
/// it is on the host. A replay says which is better, by a twentieth again. A strategy that moves
/// nothing makes no turns either.
///
/// # Errors
/// See [`ReliefError`]: if there is a job without a plan either way, that at a share of 1.
pub fn relieve(
    traces: &[&Trace],
    needs: &Needs,
    config: &ReplayConfig,
    means: &Means,
) -> Result<Plans, ReliefError> {
    let shared = relieve_shared(traces, needs, config, means);
    let slow = match &shared {
        Ok((throughput, _)) => throughput * WORTH < 1.0,
        Err(error) => error.is_of_memory(),
    };
    if traces.len() < 2 || !slow || !means.strategy.moves() {
        return shared.map(|(_, plans)| plans);
    }
    let jobs = match relieve_in_turns(traces, needs, config.budget, means, &config.machine) {
        Err(error) if error.is_of_memory() => return shared.map(|(_, plans)| plans),
        jobs => jobs?,
    };
    // More than a turn of each.
    let longest = jobs.iter().flatten().filter_map(|job| job.turn()).max().unwrap_or(1);
    let throughput = judged(traces, needs, config, &jobs, longest.saturating_add(1))?;
    match shared {
        Ok((before, plans)) if before * WORTH >= throughput => Ok(plans),
        _ => Ok(Plans { jobs, share: 1.0, in_turns: true }),
    }
}

/// The best share, and what the jobs do with it.
fn relieve_shared(
    traces: &[&Trace],
    needs: &Needs,
    config: &ReplayConfig,
    means: &Means,
) -> Result<(f64, Plans), ReliefError> {
    let mut best: Option<(f64, Plans)> = None;
    for share in SHARES {
        let plans = relieve_within(traces, needs, config.budget, share, means, &config.machine);
        let jobs = match plans {
            Err(error) if best.is_none() => return Err(error),
            Err(_) => break,
            Ok(jobs) => jobs,
        };
        let throughput = judged(traces, needs, config, &jobs, TRIAL.min(config.iterations))?;
        if best.as_ref().is_some_and(|(before, _)| throughput < *before) {
            break;
        }
        best = Some((throughput, Plans { jobs, share, in_turns: false }));
    }
    let none = || Plans { jobs: vec![None; traces.len()], share: 1.0, in_turns: false };
    Ok(best.unwrap_or_else(|| (0.0, none())))
}

/// The throughput of so many iterations with these plans; 0 where they do not run.
fn judged(
    traces: &[&Trace],
    needs: &Needs,
    config: &ReplayConfig,
    jobs: &[Option<Arc<Relieved>>],
    iterations: u64,
) -> Result<f64, ReliefError> {
    let short = ReplayConfig { iterations, relief: jobs.to_vec(), ..config.clone() };
    let policy = config.policy.policy(iterations);
    let done = trial(traces, &short, policy, &mut |_| {}).map_err(replay_failed)?;
    Ok(done.outcome().map_or(0.0, |outcome| Figures::new(outcome, needs).throughput))
}

/// A plan for each job where they run by turns, each with the whole budget. Turns take the same
/// time, such that transfers between them take a 64th of it.
///
/// # Errors
/// See [`ReliefError`]; the first job for which there is no plan.
pub fn relieve_in_turns(
    traces: &[&Trace],
    needs: &Needs,
    budget: Bytes,
    means: &Means,
    machine: &Machine,
) -> Result<Vec<Option<Arc<Relieved>>>, ReliefError> {
    let unit = needs.region.value().max(1);
    let allowed = Bytes::new(budget.value() / unit * unit);
    let fit = |trace: &&Trace| {
        let alone = Alone { trace, region: needs.region, allowed, machine, in_turns: true };
        alone.fit(means)
    };
    let mut jobs: Vec<Relieved> = traces.iter().map(fit).collect::<Result<_, _>>()?;
    let switches = jobs.iter().filter_map(|job| job.turn.as_ref()).map(|turn| turn.switch);
    let mean = switches.fold(0_u64, u64::saturating_add) / jobs.len().max(1) as u64;
    for job in &mut jobs {
        let nanos = job.outcome.nanos;
        job.turn.iter_mut().for_each(|turn| turn.iterations = iterations_of(mean, nanos));
    }
    Ok(jobs.into_iter().map(|job| Some(Arc::new(job))).collect())
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
    let alone = Alone { trace, region, allowed, machine, in_turns: false };
    alone.fit(means).map(|plan| Some(Arc::new(plan)))
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
            Err(error) if error.is_of_memory() => return Ok(None),
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

/// A job that is to run alone in so much memory.
struct Alone<'a> {
    trace: &'a Trace,
    region: Bytes,
    /// Whole regions.
    allowed: Bytes,
    machine: &'a Machine,
    in_turns: bool,
}

impl Alone<'_> {
    /// A plan with which it runs in that.
    fn fit(&self, means: &Means) -> Result<Relieved, ReliefError> {
        let (mut bytes, mut last, mut least) = (self.allowed, None, Bytes::ZERO);
        for _ in 0..ROUNDS {
            let plan = match (self.plan(means, bytes), last) {
                (Ok(plan), _) => Arc::new(plan),
                // Too few bytes: between these and the last ones.
                (Err(ReliefError::NoPlan { .. }), Some(last)) => {
                    least = bytes;
                    bytes = middle(least, last);
                    continue;
                }
                (Err(error), _) => return Err(error),
            };
            let over = self.over(&plan)?;
            if over.is_zero() {
                return Ok(Arc::unwrap_or_clone(plan));
            }
            let most = bytes.min(Bytes::new(plan.outcome().peak));
            last = Some(most);
            let fewer = most.saturating_sub(over);
            bytes = if fewer <= least { middle(least, most) } else { fewer };
        }
        Err(ReliefError::NoRoom { job: self.trace.name().to_owned(), allowed: self.allowed })
    }

    fn plan(&self, means: &Means, bytes: Bytes) -> Result<Relieved, ReliefError> {
        if self.in_turns {
            // More than one turn is to be seen.
            let mut plan = Relieved::plan_in_turns(self.trace, means, self.machine, bytes)?;
            plan.turn.iter_mut().for_each(|turn| turn.iterations = 2);
            Ok(plan)
        } else {
            Relieved::plan(self.trace, means, self.machine, bytes)
        }
    }

    /// How much more than what is allowed it needs: nothing if it runs in that.
    fn over(&self, plan: &Arc<Relieved>) -> Result<Bytes, ReliefError> {
        let alone = |budget| {
            let config = ReplayConfig {
                region: Some(self.region),
                iterations: ITERATIONS,
                machine: Machine { jitter: 0.0, ..self.machine.clone() },
                relief: vec![Some(plan.clone())],
                ..ReplayConfig::new(budget)
            };
            let policy = PolicyKind::Zico.policy(ITERATIONS);
            trial(&[self.trace], &config, policy, &mut |_| {}).map_err(replay_failed)
        };
        if matches!(alone(self.allowed)?, Trial::Done(_)) {
            return Ok(Bytes::ZERO);
        }
        let ample = self.allowed.saturating_add(self.allowed);
        let needed = match alone(ample)? {
            Trial::Done(outcome) => outcome.jobs[0].peak_leased,
            _ => ample,
        };
        Ok(needed.saturating_sub(self.allowed).at_least(self.region))
    }
}

fn middle(least: Bytes, most: Bytes) -> Bytes {
    least.saturating_add(Bytes::new(most.saturating_sub(least).value() / 2))
}
