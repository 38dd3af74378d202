//! Jobs of low priority are paced by what becomes of those of high priority.
//!
//! At the end of each of a [`Controller`]'s windows it is told what the production jobs and the
//! opportunistic ones have made, as recorded, of what the device has finished; and what it allows
//! becomes the opportunistic jobs' [paces](zico_core::Pool::set_pace), shared alike. A block of
//! work is so many operations as the job's last recorded iteration has for it. For a controller
//! that [fills gaps](Controller::fills_gaps) a window has only the time in which production runs.

use zico_core::{Pace, Ticks};

use super::actor::Actor;
use super::gaps::{Activity, Filling, Gaps};
use super::pools::Pools;
use super::{Machine, ReplayConfig, names};
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
/// The same while production rests: what is enqueued when it goes on stands in its way.
const SAVED_IN_GAPS: f64 = 0.01;

/// In so many first iterations a job may need whatever there is, and waits for it.
const UNKNOWN: u64 = 10;

/// Paces some of the jobs of a replay.
pub(super) struct Pacer {
    controller: Box<dyn Controller>,
    priorities: Vec<Priority>,
    /// When the jobs come.
    arrive: Vec<Ticks>,
    /// Operations for each block.
    operations: Vec<f64>,
    machine: Machine,
    /// When the first of those that are paced comes.
    starts: Ticks,
    /// What the controller has said last; nothing before the first of them has come.
    limit: Option<Limit>,
    window: Window,
    /// What each job had made when it was looked at last, and when that was.
    before: (Vec<Ticks>, Ticks),
    /// If the controller has the opportunistic jobs fill production's gaps.
    gaps: Option<Gaps>,
    /// What production did then, if it matters.
    activity: Activity,
}

/// A window under way: what it has of time, and of each job's work.
#[derive(Default)]
struct Window {
    time: Ticks,
    work: Vec<Ticks>,
}

impl Window {
    fn add(&mut self, time: Ticks, work: impl Iterator<Item = Ticks>) {
        self.time = self.time.saturating_add(time);
        for (i, work) in work.enumerate() {
            match self.work.get_mut(i) {
                Some(sum) => *sum = sum.saturating_add(work),
                None => self.work.push(work),
            }
        }
    }
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
        let starts = paced.map(|(at, _)| *at).min()?;
        let operations = traces.iter().map(|trace| operations(trace, config.machine.time_scale));
        let gaps = controller.fills_gaps().then(Gaps::default);
        Some(Self {
            controller,
            operations: operations.collect(),
            priorities,
            arrive,
            machine: config.machine.clone(),
            starts,
            limit: None,
            window: Window::default(),
            before: (Vec::new(), Ticks::ZERO),
            gaps,
            activity: Activity::Runs,
        })
    }

    /// Whether a job is paced.
    pub(super) fn paces(&self, job: usize) -> bool {
        self.priorities.get(job) == Some(&Priority::Opportunistic)
    }

    /// When it has to look next, whatever happens until then.
    pub(super) fn next(&self) -> Option<Ticks> {
        let at = self.before.1;
        let left = self.controller.window().saturating_sub(self.window.time);
        let ends = (self.activity == Activity::Runs).then(|| at.saturating_add(left));
        let changes = self.gaps.as_ref().and_then(|gaps| gaps.next(at));
        match self.limit {
            None => Some(self.starts),
            Some(_) => ends.into_iter().chain(changes).min(),
        }
    }

    /// Looks at the jobs: something has happened, or a window has ended.
    pub(super) fn look(&mut self, now: Ticks, actors: &[Actor<'_>], pools: &Pools) {
        if now < self.starts {
            return;
        }
        let made: Vec<Ticks> = actors.iter().map(Actor::made).collect();
        let (before, since) = std::mem::replace(&mut self.before, (made.clone(), now));
        if self.activity == Activity::Runs {
            let work = made.iter().zip(&before).map(|(made, before)| made.saturating_sub(*before));
            self.window.add(now.saturating_sub(since), work);
        }
        let is_there = |&i: &usize| self.arrive[i] < now && !actors[i].has_left();
        let there: Vec<usize> = self.of(Priority::Production).filter(is_there).collect();
        let is_over = self.window.time >= self.controller.window();
        // With nobody there to be slowed the controller is told so, and begins anew.
        let is_gone = there.is_empty() && self.limit != Some(Limit::Free);
        let limit = match self.limit {
            None => self.controller.first(),
            Some(Limit::Free) if !there.is_empty() => self.controller.first(),
            Some(_) if is_gone || is_over => self.controller.next(self.seen(&there)),
            Some(limit) => limit,
        };
        let activity = self.activity_of(&there, actors, now);
        if (self.limit, self.activity) == (Some(limit), activity) && !is_over {
            return;
        }
        if is_over || is_gone {
            self.window = Window::default();
        }
        (self.limit, self.activity) = (Some(limit), activity);
        let paced = self.of(Priority::Opportunistic).count() as f64;
        for i in self.of(Priority::Opportunistic) {
            let pace = match (limit, activity) {
                (Limit::Free, _) | (_, Activity::Idle | Activity::Waits) => None,
                (Limit::Rate(rate), Activity::Runs) => Some(self.pace(i, rate / paced, SAVED)),
                // A stream makes no more than a second's work in a second.
                (_, Activity::Rests) => {
                    Some(self.pace(i, 1.0 / BLOCK.seconds() / paced, SAVED_IN_GAPS))
                }
                (_, Activity::Returns | Activity::Alternates) => Some(Pace::HALT),
            };
            if let (Some(id), Some(pool)) = (actors[i].id(), pools.of(i)) {
                pool.set_pace(id, pace);
            }
        }
    }

    /// What the production jobs that are there do. Where gaps are not filled they always run.
    fn activity_of(&mut self, there: &[usize], actors: &[Actor<'_>], now: Ticks) -> Activity {
        let Some(gaps) = &mut self.gaps else { return Activity::Runs };
        let paced = |&i: &usize| self.priorities[i] == Priority::Opportunistic;
        let paced = (0..actors.len()).filter(paced).map(|i| &actors[i]);
        let made = paced.clone().map(Actor::made).fold(Ticks::ZERO, Ticks::saturating_add);
        let made = self.machine.scaled(made, 1.0);
        let others = Filling { made, rests: paced.into_iter().all(Actor::rests) };
        gaps.note(there.iter().any(|&i| actors[i].is_at_iteration()), others, now);
        let waits = |&i: &usize| actors[i].iterations() < UNKNOWN && actors[i].rests();
        match !there.is_empty() && there.iter().all(waits) {
            true => Activity::Waits,
            false => gaps.activity(now),
        }
    }

    fn of(&self, priority: Priority) -> impl Iterator<Item = usize> + '_ {
        (0..self.priorities.len()).filter(move |&i| self.priorities[i] == priority)
    }

    /// What the window has shown of the production jobs that are there, and of the others.
    fn seen(&self, production: &[usize]) -> Seen {
        let time = self.window.time.seconds();
        let rate = |i: usize| {
            let work = self.window.work.get(i).map_or(0.0, |work| work.seconds());
            if time > 0.0 { work * self.machine.time_scale / BLOCK.seconds() / time } else { 0.0 }
        };
        Seen {
            production: (!production.is_empty())
                .then(|| production.iter().copied().map(rate).sum()),
            own: self.of(Priority::Opportunistic).map(rate).sum(),
        }
    }

    /// The pace of a job that makes so many blocks in a second, and saves up those of so many
    /// seconds.
    fn pace(&self, job: usize, rate: f64, saved: f64) -> Pace {
        let each = rate * self.operations[job];
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        let whole = |operations: f64| operations.round() as u32;
        Pace::new(whole(each * PERIOD.seconds()), PERIOD).burst(whole(each * saved))
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
    use crate::replay::{Outcome, Phase, Usage, replay};
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
