//! Why zico does not reach the best schedule of three jobs: the profile, the cost of device calls,
//! the order, or fairness?
//!
//! The causes are removed one after the other:
//!
//! * *best*: the best schedule on a grid of moments (`oracle::grid`) that can be done, and each
//!   job's rate over its rate alone in it. *bound*: no schedule reaches more; the grid is finer
//!   than for `oracle`.
//! * *none worse*: a bound on schedules in which each job gets at least as much as the one that
//!   gets least in the replay.
//! * *first fit*: the time shift on the same model, in the order of asking.
//! * *replay*, *shares*: zico on the mock device, and what each job gets there.
//! * *throughput*, *fairness*: the same with these aims.
//! * *perfect*: zico is shown what each iteration takes when it is alone, instead of what it has
//!   learned.
//! * *free calls*: calls that change the device's memory cost nothing.
//! * *left out*: the job that gets least in the best schedule only starts when it has been passed
//!   over as often as may be.
//!
//! ```text
//! cargo run --release -p zico-bench --bin why
//! ```

use std::cmp::Ordering;
use std::error::Error;
use std::sync::Arc;

use zico_bench::oracle::recorded::{Model, model, room, steady};
use zico_bench::oracle::{Case, greedy, grid};
use zico_bench::table::table;
use zico_core::policy::{Policy, Tenant, TimeShift, Verdict, View};
use zico_core::{JobConfig, Profile};
use zico_mock::replay::{
    Figures, Machine, MemoryCallCosts, Needs, PolicyKind, ReplayConfig, needs, trial,
};
use zico_mock::{bundled, trace::Trace};

const SETS: [[&str; 3]; 3] = [
    ["resnet50", "bert-base", "mobilenet_v2"],
    ["gnmt", "bert-base", "resnet110-cifar"],
    ["resnet50", "mobilenet_v2", "gpt2-small"],
];

const BUDGETS: [f64; 3] = [0.05, 0.1, 0.25];

/// States of the grid for the best schedule, and for each of many with weights.
const STATES: u32 = 300_000;
const STATES_WEIGHTED: u32 = 30_000;

const ITERATIONS: u64 = 21;

const HEADER: [&str; 13] = [
    "jobs",
    "f",
    "best",
    "its shares",
    "bound",
    "none worse",
    "first fit",
    "replay",
    "shares",
    "throughput / fairness",
    "perfect",
    "free calls",
    "left out",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut rows = table(&HEADER);
    for names in SETS {
        let set = Set::open(&names)?;
        for f in BUDGETS {
            rows.add_row(set.row(&names.join(" + "), f)?);
        }
    }
    println!("{rows}");
    Ok(())
}

/// Jobs, their needs, and their profiles.
struct Set {
    traces: Vec<Trace>,
    needs: Needs,
    case: Case,
    kept: u32,
    profiles: Vec<Arc<Profile>>,
    machine: Machine,
}

impl Set {
    fn open(names: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut traces = Vec::new();
        for name in names {
            traces.push(steady(&bundled::open(name)?)?);
        }
        let machine = Machine { jitter: 0.0, ..Machine::default() };
        let jobs: Vec<&Trace> = traces.iter().collect();
        let needs = needs(&jobs, None, ITERATIONS, &machine)?;
        let Model { case, kept, profiles } = model(&traces, needs.region, &machine)?;
        Ok(Self { traces, needs, case, kept, profiles, machine })
    }

    fn row(&self, names: &str, f: f64) -> Result<Vec<String>, Box<dyn Error>> {
        let case = Case { room: room(&self.needs, f, self.kept)?, ..self.case.clone() };
        let (best, wanted) = grid::best_shares(&case, STATES).ok_or("a job does not fit")?;
        let bound = grid::bounds(&case, STATES).ok_or("a job does not fit")?.above;
        let rule = greedy::throughput(&case, &mut greedy::FirstFit).ok_or("it comes to a stop")?;
        let usual = self.replayed(f, PolicyKind::Zico.policy(ITERATIONS), &self.machine, &[])?;
        let [for_all, for_each] = [PolicyKind::ZicoThroughput, PolicyKind::ZicoFairness]
            .map(|kind| self.replayed(f, kind.policy(ITERATIONS), &self.machine, &[]));
        let perfect = Perfect { profiles: self.profiles.clone(), ..Perfect::default() };
        let perfect = self.replayed(f, Some(Box::new(perfect)), &self.machine, &[])?;
        let free = Machine { memory_calls: MemoryCallCosts::NONE, ..self.machine.clone() };
        let free = self.replayed(f, PolicyKind::Zico.policy(ITERATIONS), &free, &[])?;
        let last = (0..self.traces.len()).min_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
        let last = last.ok_or("no job")?;
        let without = Without { inner: TimeShift::default(), job: last };
        let terms: Vec<JobConfig> = (0..self.traces.len())
            .map(|job| JobConfig::default().priority(-i32::from(job == last)))
            .collect();
        let without = self.replayed(f, Some(Box::new(without)), &self.machine, &terms)?;
        let least = usual.relative.iter().copied().fold(1.0, f64::min);
        let none_worse =
            grid::bound_with_shares(&case, STATES_WEIGHTED, least).ok_or("no bound")?;
        let figure = |x: f64| format!("{x:.3}");
        Ok(vec![
            names.to_owned(),
            f.to_string(),
            figure(best),
            shares(&wanted[..self.traces.len()]),
            figure(bound),
            figure(none_worse.min(bound)),
            figure(rule),
            figure(usual.throughput),
            shares(&usual.relative),
            format!("{:.3} / {:.3}", for_all?.throughput, for_each?.throughput),
            figure(perfect.throughput),
            figure(free.throughput),
            figure(without.throughput),
        ])
    }

    fn replayed(
        &self,
        f: f64,
        policy: Option<Box<dyn Policy>>,
        machine: &Machine,
        terms: &[JobConfig],
    ) -> Result<Figures, Box<dyn Error>> {
        let jobs: Vec<&Trace> = self.traces.iter().collect();
        let config = ReplayConfig {
            region: Some(self.needs.region),
            iterations: ITERATIONS,
            machine: machine.clone(),
            jobs: terms.to_vec(),
            ..ReplayConfig::new(self.needs.budget_at(f))
        };
        let alone = needs(&jobs, Some(self.needs.region), ITERATIONS, machine)?;
        let trial = trial(&jobs, &config, policy, &mut |_| {})?;
        let outcome = trial.outcome().ok_or_else(|| trial.reason().unwrap_or("?").to_owned())?;
        Ok(Figures::new(outcome, &alone))
    }
}

fn shares(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{share:.2}")).collect::<Vec<_>>().join(" / ")
}

/// zico, shown what each iteration takes when it is alone.
#[derive(Default)]
struct Perfect {
    inner: TimeShift,
    profiles: Vec<Arc<Profile>>,
    jobs: Vec<Tenant>,
}

impl Policy for Perfect {
    fn name(&self) -> &'static str {
        "zico, perfect profiles"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        self.jobs.clear();
        self.jobs.extend(view.jobs.iter().zip(&self.profiles).map(|(job, profile)| Tenant {
            profile: job.profile.as_ref().map(|_| profile.clone()),
            ..job.clone()
        }));
        self.inner.decide(&View { jobs: &self.jobs, ..*view })
    }

    fn order(&self, one: &Tenant, other: &Tenant) -> Ordering {
        self.inner.order(one, other)
    }
}

/// zico, which lets one job start only where the pool does not ask it.
struct Without {
    inner: TimeShift,
    job: usize,
}

impl Policy for Without {
    fn name(&self) -> &'static str {
        "zico, without one job"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        if view.candidate == self.job && view.own().profile.is_some() {
            return Verdict::AfterAnEnd;
        }
        self.inner.decide(view)
    }

    fn order(&self, one: &Tenant, other: &Tenant) -> Ordering {
        self.inner.order(one, other)
    }
}
