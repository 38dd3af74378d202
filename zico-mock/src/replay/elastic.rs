//! Jobs whose memory and time are scaled as they run: AntMan's coordinator.

use zico_core::{Bytes, Ticks};

use super::ReplayConfig;
use super::actor::Actor;
use super::overflow::Scale;
use super::pacer::Priority;
use crate::policy::antman::{Demand, Throttle, caps};
use crate::trace::Trace;

/// Looks at the jobs of a replay and scales each.
pub(super) struct Elastic {
    budget: Bytes,
    production: Vec<bool>,
    throttle: Throttle,
    /// How many iterations of each job the device had finished when it was last looked at, and when
    /// the last of them was.
    seen: Vec<(u64, Ticks)>,
}

impl Elastic {
    /// Of these jobs, if they are to be scaled.
    pub(super) fn new(traces: &[&Trace], config: &ReplayConfig) -> Option<Self> {
        let jobs = traces.len();
        let is_production =
            |i| config.priorities.get(i).copied().unwrap_or_default() == Priority::Production;
        config.elastic.then(|| Self {
            budget: config.budget,
            production: (0..jobs).map(is_production).collect(),
            throttle: Throttle::default(),
            seen: vec![(0, Ticks::ZERO); jobs],
        })
    }

    /// Whether a job has only what the others leave.
    pub(super) fn paces(&self, job: usize) -> bool {
        self.production.get(job) == Some(&false)
    }

    /// Something has happened: scales the jobs by what they have done and what they need.
    pub(super) fn look(&mut self, now: Ticks, actors: &mut [Actor<'_>]) {
        for (job, actor) in actors.iter().enumerate() {
            if self.production[job] {
                self.look_at(job, actor, now);
            }
        }
        let demand = |(actor, &production): (&Actor<'_>, &bool)| match actor.is_there(now) {
            true => Demand { production, need: actor.need() },
            false => Demand { production: false, need: Some(Bytes::ZERO) },
        };
        let demands: Vec<Demand> = actors.iter().zip(&self.production).map(demand).collect();
        let share = self.throttle.share(now);
        let caps = caps(self.budget, &demands);
        for ((actor, cap), production) in actors.iter_mut().zip(caps).zip(&self.production) {
            actor.scale(Scale { cap, share: if *production { 100 } else { share } });
        }
    }

    fn look_at(&mut self, job: usize, actor: &Actor<'_>, now: Ticks) {
        if !actor.is_there(now) {
            return self.throttle.leaves(job);
        }
        self.throttle.comes(job, now);
        let (seen, at) = self.seen[job];
        let done = actor.iterations();
        if let Some(began) = (seen..done).rev().find_map(|iteration| actor.began(iteration)) {
            self.seen[job] = (done, now);
            self.throttle.ended(job, now, now.saturating_sub(began.at_least(at)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_core::Lifetime;

    use super::*;
    use crate::Utilisation;
    use crate::replay::{Machine, Outcome, Phase, PolicyKind, Usage, replay};
    use crate::trace::{BlockId, Iteration, Step};

    const KEPT: Bytes = Bytes::mib(20);
    const PEAK: Bytes = Bytes::mib(60);
    const LENGTH: Ticks = Ticks::millis(40_000);

    /// Keeps one block of 20 MiB; an iteration has four of 10 MiB, and eight launches, 2 ms in all.
    fn job() -> Trace {
        let launch = Step::Launch { work: Ticks::micros(250) };
        let iteration = |first: u32| {
            let blocks = (first..first + 4).map(BlockId::new);
            let alloc = |block| {
                let bytes = Bytes::mib(10);
                [Step::Alloc { block, bytes, lifetime: Lifetime::Iteration }, launch]
            };
            let free = |block| [launch, Step::Free { block }];
            let steps = blocks.clone().flat_map(alloc).chain(blocks.rev().flat_map(free));
            Iteration::new(steps.collect(), Ticks::millis(2))
        };
        let block = BlockId::new(0);
        let setup = vec![Step::Alloc { block, bytes: KEPT, lifetime: Lifetime::Persistent }];
        let iterations = [1, 5].map(iteration).to_vec();
        Trace::new("job".into(), String::new(), setup, iterations).unwrap()
    }

    /// Production and an opportunistic job, of which each launch keeps so much of the device busy.
    fn together(budget: Bytes, utilisation: u16, usage: &[Usage]) -> Outcome {
        let job = job();
        let config = ReplayConfig {
            region: Some(Bytes::mib(2)),
            policy: PolicyKind::Unmanaged,
            elastic: true,
            priorities: vec![Priority::Production, Priority::Opportunistic],
            usage: usage.to_vec(),
            length: Some(LENGTH),
            machine: Machine {
                time_scale: 1.0,
                utilisation: Utilisation::new(utilisation).unwrap(),
                ..Machine::default()
            },
            ..ReplayConfig::new(budget)
        };
        let outcome = replay(&[&job, &job], &config, &mut |_| {}).unwrap();
        assert_eq!(outcome.violations, []);
        assert!(outcome.peak_held <= budget);
        assert!(outcome.jobs.iter().all(|job| job.failure.is_none()));
        outcome
    }

    /// Iterations of each, of those that fit in the time.
    fn shares(outcome: &Outcome) -> [f64; 2] {
        let all = LENGTH.seconds() / 0.002;
        [0, 1].map(|job| outcome.jobs[job].iterations_done / all)
    }

    #[test]
    fn where_all_has_room_nothing_goes_to_the_host() {
        let outcome = together(Bytes::mib(120), 500, &[]);
        // Until production's first iteration has ended the other one is on the host.
        assert!(outcome.jobs[0].moved.is_zero());
        assert!(outcome.jobs[1].moved < Bytes::mib(100), "{}", outcome.jobs[1].moved);
        let [one, other] = shares(&outcome);
        assert!(one > 0.97 && other > 0.5, "{one} {other}");
    }

    #[test]
    fn production_has_its_memory_and_the_other_one_goes_on_beside_it() {
        // 10 MiB beside its peak: less than what the other one keeps.
        let outcome = together(Bytes::mib(70), 500, &[]);
        assert!(outcome.jobs[0].moved.is_zero());
        let [one, other] = shares(&outcome);
        assert!(one > 0.97, "{one}");
        // 10 MiB take 0.42 ms of the link, a launch 0.25.
        assert!((0.2..0.6).contains(&other), "{other}");
        let iterations = outcome.jobs[1].iterations_done;
        let moved = outcome.jobs[1].moved.value() as f64 / iterations / f64::from(1 << 20);
        assert!((100.0..200.0).contains(&moved), "{moved} MiB an iteration");
    }

    #[test]
    fn production_is_not_slowed_where_launches_contend() {
        let [one, other] = shares(&together(Bytes::mib(120), 1000, &[]));
        assert!(one > 0.94 && (0.01..0.1).contains(&other), "{one} {other}");
    }

    #[test]
    fn memory_and_time_come_back_when_production_has_left_them() {
        let half = Ticks::new(LENGTH.value() / 2);
        let phases = vec![Phase { from: half, rest: Ticks::MAX }];
        let usage = [Usage { phases, ..Usage::default() }];
        let outcome = together(Bytes::mib(70), 1000, &usage);
        let [one, other] = shares(&outcome);
        assert!(one > 0.46 && other > 0.23, "{one} {other}");
    }

    #[test]
    fn a_production_job_that_comes_later_takes_what_it_needs() {
        let half = Ticks::new(LENGTH.value() / 2);
        let usage = [Usage { arrives: half, ..Usage::default() }];
        let outcome = together(Bytes::mib(70), 1000, &usage);
        let [one, other] = shares(&outcome);
        assert!(one > 0.45 && other > 0.48, "{one} {other}");
        // It had no room at first, until the other one's iteration ended, and then all it needs:
        // some 20 iterations of its 10,000 were on the host.
        let moved = outcome.jobs[0].moved;
        assert!(moved > Bytes::ZERO && moved < Bytes::gib(3), "{moved}");
    }

    #[test]
    fn a_job_alone_may_need_more_than_there_is() {
        let outcome = together(PEAK.saturating_sub(KEPT), 500, &[]);
        assert!(outcome.jobs[0].moved > Bytes::ZERO);
        let [one, _] = shares(&outcome);
        assert!(one > 0.5, "{one}");
    }

    #[test]
    fn a_replay_repeats_exactly() {
        let again = || format!("{:?}", together(Bytes::mib(70), 700, &[]).jobs);
        assert_eq!(again(), again());
    }
}
