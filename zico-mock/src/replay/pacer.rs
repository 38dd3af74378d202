//! Jobs of low priority are paced by what becomes of those of high priority.
//!
//! At the end of each of a [`Controller`]'s windows it is told what the production jobs and the
//! opportunistic ones have made, as recorded, of what the device has finished; and what it allows
//! becomes the opportunistic jobs' [paces](zico_core::Pool::set_pace), shared alike. A block of
//! work is so many operations as the job's last recorded iteration has for it.

use zico_core::{Pace, Ticks};

use super::actor::Actor;
use super::pools::Pools;
use super::{ReplayConfig, names};
use crate::policy::pacing::{BLOCK, Controller, Estimating, Limit, Seen, Tgs};
use crate::trace::Trace;

/// What matters more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// A job that is never to be slowed.
    #[default]
    Production,
    /// One that takes what is left.
    Opportunistic,
}

/// How jobs of low priority are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// By TGS's controller, as published.
    Tgs,
    /// By ours.
    Estimating,
}

impl Pacing {
    /// The name by which people choose it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.controller().name()
    }

    /// The controller.
    #[must_use]
    pub fn controller(self) -> Box<dyn Controller> {
        match self {
            Self::Tgs => Box::new(Tgs::default()),
            Self::Estimating => Box::new(Estimating::default()),
        }
    }
}

/// For how long a pace says how many operations: so that it is exact for slow jobs as well.
const PERIOD: Ticks = Ticks::millis(10_000);
/// What may be saved up: TGS's window of an opportunistic job.
const SAVED: f64 = 0.05;

/// Paces some of the jobs of a replay.
pub(super) struct Pacer {
    controller: Box<dyn Controller>,
    priorities: Vec<Priority>,
    /// When the jobs come.
    arrive: Vec<Ticks>,
    /// Operations for each block.
    operations: Vec<f64>,
    time_scale: f64,
    /// What each job had made at the end of the last window, and when that was.
    before: Option<(Vec<Ticks>, Ticks)>,
    next: Ticks,
}

impl Pacer {
    /// For the opportunistic jobs among these, if there are any and they are to be paced. It begins
    /// when the first of them comes.
    pub(super) fn new(traces: &[&Trace], config: &ReplayConfig) -> Option<Self> {
        let controller = config.pacing?.controller();
        let priority = |i: usize| config.priorities.get(i).copied().unwrap_or_default();
        let priorities: Vec<Priority> = (0..traces.len()).map(priority).collect();
        let arrives = |i: usize| config.usage.get(i).map_or(Ticks::ZERO, |usage| usage.arrives);
        let arrive: Vec<Ticks> = (0..names(traces).len()).map(arrives).collect();
        let paced = arrive.iter().zip(&priorities);
        let paced = paced.filter(|(_, priority)| **priority == Priority::Opportunistic);
        let next = paced.map(|(at, _)| *at).min()?;
        let operations = traces.iter().map(|trace| operations(trace, config.machine.time_scale));
        Some(Self {
            controller,
            operations: operations.collect(),
            priorities,
            arrive,
            time_scale: config.machine.time_scale,
            before: None,
            next,
        })
    }

    /// Whether a job is paced.
    pub(super) fn paces(&self, job: usize) -> bool {
        self.priorities.get(job) == Some(&Priority::Opportunistic)
    }

    /// When it looks next.
    pub(super) fn next(&self) -> Ticks {
        self.next
    }

    /// Looks at the jobs if a window has ended.
    pub(super) fn look(&mut self, now: Ticks, actors: &[Actor<'_>], pools: &Pools) {
        if now < self.next {
            return;
        }
        let made: Vec<Ticks> = actors.iter().map(Actor::made).collect();
        let before = self.before.replace((made.clone(), now));
        let limit = match before {
            None => self.controller.first(),
            Some((before, since)) => {
                let time = now.saturating_sub(since).seconds();
                let rate = |i: usize| {
                    let work = made[i].saturating_sub(before[i]).seconds() * self.time_scale;
                    work / BLOCK.seconds() / time
                };
                self.controller.next(self.seen(now, actors, rate))
            }
        };
        self.next = now.saturating_add(self.controller.window());
        let paced = (0..actors.len()).filter(|&i| self.paces(i)).count();
        for (i, actor) in actors.iter().enumerate().filter(|&(i, _)| self.paces(i)) {
            if let Some(id) = actor.id() {
                pools.of(i).set_pace(id, self.pace(i, limit, paced));
            }
        }
    }

    fn seen(&self, now: Ticks, actors: &[Actor<'_>], rate: impl Fn(usize) -> f64) -> Seen {
        let of = |priority: Priority| {
            let jobs = 0..self.priorities.len();
            jobs.filter(move |&i| self.priorities[i] == priority)
        };
        let is_there = |&i: &usize| self.arrive[i] < now && !actors[i].has_left();
        let production = of(Priority::Production).filter(is_there);
        let production: Vec<f64> = production.map(&rate).collect();
        let is_gone = production.is_empty();
        Seen {
            production: (!is_gone).then(|| production.iter().sum()),
            own: of(Priority::Opportunistic).map(&rate).sum(),
        }
    }

    /// The pace of one of so many jobs that share a limit.
    fn pace(&self, job: usize, limit: Limit, jobs: usize) -> Option<Pace> {
        let Limit::Rate(rate) = limit else { return None };
        let each = rate * self.operations[job] / jobs as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        let whole = |operations: f64| operations.round() as u32;
        Some(Pace::new(whole(each * PERIOD.seconds()), PERIOD).burst(whole(each * SAVED)))
    }
}

/// The operations of a job's last iteration, for each block of its work.
fn operations(trace: &Trace, time_scale: f64) -> f64 {
    trace.stats().iterations.last().map_or(0.0, |last| {
        let blocks = last.work.seconds() * time_scale / BLOCK.seconds();
        if blocks > 0.0 { (last.allocations + last.frees) as f64 / blocks } else { 0.0 }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_core::{Bytes, Lifetime};

    use super::*;
    use crate::Utilisation;
    use crate::replay::{Machine, Outcome, Phase, Usage, replay};
    use crate::trace::{BlockId, Iteration, Step};

    const LENGTH: Ticks = Ticks::millis(200_000);

    /// Iterations of ten launches of 5 ms, each with a block of its own.
    fn job() -> Trace {
        let iteration = |first: u32| {
            let steps = (first..first + 10).flat_map(|id| {
                let (block, bytes) = (BlockId::new(id), Bytes::mib(3));
                let alloc = Step::Alloc { block, bytes, lifetime: Lifetime::Iteration };
                [alloc, Step::Launch { work: Ticks::millis(5) }, Step::Free { block }]
            });
            Iteration::new(steps.collect(), Ticks::millis(50))
        };
        Trace::new("job".into(), String::new(), Vec::new(), [0, 10].map(iteration).to_vec())
            .unwrap()
    }

    fn config(pacing: Option<Pacing>, usage: &[Usage]) -> ReplayConfig {
        let machine =
            Machine { time_scale: 1.0, utilisation: Utilisation::FULL, ..Machine::default() };
        ReplayConfig {
            length: Some(LENGTH),
            priorities: vec![Priority::Production, Priority::Opportunistic],
            pacing,
            usage: usage.to_vec(),
            machine,
            ..ReplayConfig::new(Bytes::mib(256))
        }
    }

    fn together(pacing: Option<Pacing>, usage: &[Usage]) -> Outcome {
        let job = job();
        let outcome = replay(&[&job, &job], &config(pacing, usage), &mut |_| {}).unwrap();
        assert_eq!(outcome.violation_count, 0);
        outcome
    }

    /// What each has of what it makes alone.
    fn shares(pacing: Option<Pacing>, usage: &[Usage]) -> [f64; 2] {
        let alone = replay(&[&job()], &config(None, &[]), &mut |_| {}).unwrap();
        let outcome = together(pacing, usage);
        [0, 1].map(|i| outcome.jobs[i].iterations_done / alone.jobs[0].iterations_done)
    }

    #[test]
    fn a_production_job_is_not_slowed_and_the_other_takes_what_is_left() {
        let [one, other] = shares(None, &[]);
        assert!((one - 0.5).abs() < 0.02 && (other - 0.5).abs() < 0.02, "{one} {other}");
        for pacing in [Pacing::Tgs, Pacing::Estimating] {
            let [one, other] = shares(Some(pacing), &[]);
            assert!(one > 0.95, "{pacing:?}: {one}");
            assert!((0.01..0.06).contains(&other), "{pacing:?}: {other}");
        }
    }

    #[test]
    fn what_an_idle_job_leaves_is_taken() {
        let half = Ticks::new(LENGTH.value() / 2);
        let phases = vec![Phase { from: half, rest: Ticks::MAX }];
        let usage = [Usage { phases, ..Usage::default() }];
        for pacing in [Pacing::Tgs, Pacing::Estimating] {
            let [one, other] = shares(Some(pacing), &usage);
            assert!(one > 0.47 && other > 0.4, "{pacing:?}: {one} {other}");
        }
    }

    #[test]
    fn a_job_that_comes_later_is_not_paced_before() {
        let usage = [Usage { arrives: LENGTH, ..Usage::default() }];
        let [one, other] = shares(Some(Pacing::Estimating), &usage);
        assert!(one < 0.01 && other > 0.98, "{one} {other}");
    }

    #[test]
    fn a_paced_replay_repeats_exactly() {
        let again = || format!("{:?}", together(Some(Pacing::Estimating), &[]).jobs);
        assert_eq!(again(), again());
    }
}
