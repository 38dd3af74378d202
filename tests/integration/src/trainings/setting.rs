//! What trainings run under: all that a replay can be told.

use fastrand::Rng;
use zico_core::{Bytes, HandOver, JobConfig, Ticks};
use zico_mock::Utilisation;
use zico_mock::replay::{
    Machine, MemoryCallCosts, Pacing, Phase, PolicyKind, Priority, ReplayConfig, Restart, Usage,
};
use zico_mock::trace::Trace;

use super::budget;

/// What a case runs under.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The budget's share of what is between the least and the sum of the peaks; none: plenty.
    f: Option<f64>,
    region: Bytes,
    policy: PolicyKind,
    hand_over: HandOver,
    fewest_calls: bool,
    iterations: u64,
    detect: bool,
    learned: bool,
    ends_with_next: bool,
    plans: bool,
    processes: bool,
    slice: Option<Ticks>,
    priorities: Vec<Priority>,
    pacing: Option<Pacing>,
    /// Of each job the priority and the floor.
    terms: Vec<(i32, Bytes)>,
    usage: Vec<Usage>,
    machine: Machine,
    /// Of the processes' broker.
    restarts: Vec<Restart>,
    /// Of each job whether its iterations may be interrupted.
    interruptible: Vec<bool>,
}

impl Setting {
    /// What comes next of a seed, for so many jobs.
    pub fn draw(rng: &mut Rng, jobs: usize) -> Self {
        let policies: Vec<PolicyKind> = PolicyKind::ALL
            .into_iter()
            .chain(PolicyKind::AIMS)
            .filter(|kind| !kind.needs_every_peak())
            .collect();
        let policy =
            if rng.bool() { PolicyKind::Zico } else { policies[rng.usize(..policies.len())] };
        let is_paced = rng.u8(..8) == 0;
        let slice = (rng.u8(..8) == 0).then(|| Ticks::millis(rng.u64(1..400)));
        // A job of a lower priority has no turn while one of a higher one goes on.
        let takes_turns = slice.is_some();
        let priority = |rng: &mut Rng| match is_paced && rng.bool() {
            true => Priority::Opportunistic,
            false => Priority::Production,
        };
        let terms = |rng: &mut Rng| {
            let priority = if takes_turns { 0 } else { rng.i32(-1..2) };
            let has_floor = rng.u8(..6) == 0;
            (priority, Bytes::mib(if has_floor { 2 * rng.u64(1..4) } else { 0 }))
        };
        let mut setting = Self {
            f: [0.0, 0.1, 0.25, 0.5, 0.8, 1.0].get(rng.usize(..7)).copied(),
            region: Bytes::mib([2, 2, 2, 4, 8][rng.usize(..5)]),
            policy,
            hand_over: [HandOver::Fenced, HandOver::Fenced, HandOver::Isolated][rng.usize(..3)],
            fewest_calls: rng.bool(),
            iterations: rng.u64(4..40),
            detect: rng.u8(..8) == 0,
            learned: rng.bool(),
            ends_with_next: rng.bool(),
            plans: rng.u8(..8) > 0,
            processes: rng.u8(..3) == 0,
            slice,
            priorities: (0..jobs).map(|_| priority(rng)).collect(),
            pacing: is_paced.then(|| [Pacing::Tgs, Pacing::Estimating][rng.usize(..2)]),
            terms: (0..jobs).map(|_| terms(rng)).collect(),
            usage: (0..jobs).map(|_| usage(rng)).collect(),
            machine: machine(rng),
            restarts: restarts(rng),
            interruptible: Vec::new(),
        };
        setting.usage.iter_mut().for_each(|usage| usage.ends = ends(rng));
        setting.interruptible = (0..jobs).map(|_| rng.u8(..3) == 0).collect();
        setting
    }

    /// All iterations may be interrupted, or none.
    pub(super) fn set_interruptible(&mut self, interruptible: bool) {
        self.interruptible.iter_mut().for_each(|one| *one = interruptible);
    }

    /// What the pool is told of each job.
    pub(super) fn jobs(&self) -> Vec<JobConfig> {
        let terms = |(&(priority, floor), &may): (&(i32, Bytes), &bool)| {
            let config = JobConfig::default().priority(priority).floor(floor);
            if may { config.interruptible() } else { config }
        };
        self.terms.iter().zip(&self.interruptible).map(terms).collect()
    }

    /// Whether all peaks have room.
    #[must_use]
    pub const fn is_plenty(&self) -> bool {
        self.f.is_none()
    }

    /// The replay that it asks for, of these jobs.
    pub(super) fn config(&self, traces: &[&Trace]) -> ReplayConfig {
        let config = ReplayConfig {
            budget: Bytes::ZERO,
            region: Some(self.region),
            policy: self.policy,
            hand_over: self.hand_over,
            fewest_calls: self.fewest_calls,
            iterations: self.iterations,
            jobs: self.jobs(),
            detect: self.detect,
            learned: self.learned,
            ends_with_next: self.ends_with_next && !self.detect,
            plans: self.plans,
            processes: self.processes,
            restarts: self.restarts.clone(),
            // Plans of relief are of one job each: `relief.rs` has them.
            relief: Vec::new(),
            priorities: self.priorities.clone(),
            // Where the pool finds the marks, a replay cannot tell when what a job has may be taken.
            slice: self.slice.filter(|_| !self.detect),
            pacing: self.pacing,
            // Of use without a policy: `elastic.rs` has it.
            elastic: false,
            usage: self.usage.clone(),
            length: None,
            machine: self.machine.clone(),
        };
        // No job is let in whose floor is not free.
        let region = self.region.value();
        let floors = self.terms.iter().map(|(_, floor)| floor.value().next_multiple_of(region));
        let budget = budget(traces, self.f, &config).at_least(Bytes::new(floors.sum()));
        ReplayConfig { budget, ..config }
    }
}

/// Most come at once and never rest.
fn usage(rng: &mut Rng) -> Usage {
    let comes_late = rng.u8(..6) == 0;
    let arrives = Ticks::micros(if comes_late { rng.u64(..200_000) } else { 0 });
    let rests = if rng.u8(..6) == 0 { rng.usize(1..4) } else { 0 };
    let mut from = arrives;
    let phase = |_| {
        from = from.saturating_add(Ticks::micros(rng.u64(1..300_000)));
        Phase { from, rest: Ticks::micros(rng.u64(..20_000)) }
    };
    Usage { arrives, phases: (0..rests).map(phase).collect(), ends: None }
}

fn machine(rng: &mut Rng) -> Machine {
    Machine {
        time_scale: 1.0,
        dispatch: Ticks::micros([0, 5, 40][rng.usize(..3)]),
        memory_calls: match rng.bool() {
            true => MemoryCallCosts::default(),
            false => MemoryCallCosts::NONE,
        },
        run_ahead: [1, 2, 16, 64, 1000][rng.usize(..5)],
        utilisation: Utilisation::new(rng.u16(100..=1000)).unwrap_or(Utilisation::FULL),
        jitter: [0.0, 0.05, 0.5][rng.usize(..3)],
        seed: rng.u64(..),
    }
}

/// In most cases the broker lives. Where it does not it dies in the first moments or late, and at
/// any message.
fn restarts(rng: &mut Rng) -> Vec<Restart> {
    let count = if rng.u8(..3) == 0 { rng.usize(1..5) } else { 0 };
    let restart = |_| {
        let latest = 1 << rng.u32(6..21);
        Restart {
            at: Ticks::micros(rng.u64(..latest)),
            messages: rng.u64(..40),
            apart: Ticks::micros([0, 0, 20, 3_000, 200_000][rng.usize(..5)]),
        }
    };
    (0..count).map(restart).collect()
}

/// Most stay to the end.
fn ends(rng: &mut Rng) -> Option<Ticks> {
    let latest = 1 << rng.u32(6..21);
    (rng.u8(..8) == 0).then(|| Ticks::micros(rng.u64(..latest)))
}
