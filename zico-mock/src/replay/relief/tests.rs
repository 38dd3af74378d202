//! Jobs under plans, with the oracle watching; and plans that are carried out wrongly, which it has
//! to see.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::Arc;

use proptest::prelude::*;
use zico_core::{Bytes, Lifetime, Ticks};
use zico_plan::relief::{Link, Strategy};

use super::{
    Deed, Means, ReliefError, Relieved, one_at_a_time, relieve, relieve_in_turns, relieve_within,
};
use crate::replay::{
    Figures, Machine, MemoryCallCosts, Needs, Outcome, PolicyKind, ReplayConfig, Trial, needs,
    replay, trial,
};
use crate::trace::{Access, BlockId, Iteration, Step, Trace};
use crate::{Utilisation, ViolationKind, bundled};

const REGION: Bytes = Bytes::mib(2);
const ITERATIONS: u64 = 4;

const fn means(gigabytes: u64) -> Means {
    let link = Link::symmetric(gigabytes * 1_000_000_000);
    Means { strategy: Strategy::Zico, link, work: 1 << 14 }
}

/// A network of layers, each with a parameter and an output of so many MiB and a time in
/// microseconds. Every fourth output is by chance and cannot be made again.
fn network(name: &str, layers: &[(u64, u64, u64)]) -> Trace {
    let mut made = Maker::default();
    let setup: Vec<Step> = layers.iter().map(|layer| made.alloc(layer.0, true)).collect();
    let iterations = (0..2).map(|_| made.iteration(layers)).collect();
    Trace::new(name.into(), String::new(), setup, iterations).unwrap()
}

#[derive(Default)]
struct Maker {
    blocks: u32,
    steps: Vec<Step>,
    accesses: Vec<Access>,
}

impl Maker {
    fn alloc(&mut self, mib: u64, persists: bool) -> Step {
        let block = BlockId::new(self.blocks);
        self.blocks += 1;
        let lifetime = if persists { Lifetime::Persistent } else { Lifetime::Iteration };
        // Not quite whole units: blocks share regions.
        Step::Alloc { block, bytes: Bytes::new((mib << 20) - 4096), lifetime }
    }

    fn make(&mut self, mib: u64) -> u32 {
        let step = self.alloc(mib, false);
        self.steps.push(step);
        self.blocks - 1
    }

    fn run(&mut self, reads: &[u32], writes: &[u32], micros: u64, repeatable: bool) {
        let blocks = |all: &[u32]| all.iter().map(|&block| BlockId::new(block)).collect();
        let (reads, writes, name) = (blocks(reads), blocks(writes), "run".into());
        self.accesses.push(Access { name, reads, writes, repeatable });
        self.steps.push(Step::Launch { work: Ticks::micros(micros) });
    }

    /// Forwards, back, and an update of each parameter in place.
    fn iteration(&mut self, layers: &[(u64, u64, u64)]) -> Iteration {
        let input = self.make(layers[0].1);
        self.run(&[], &[input], 1, false);
        let mut outputs = vec![input];
        for (at, &(_, mib, micros)) in (0_u32..).zip(layers) {
            let output = self.make(mib);
            self.run(&[at, *outputs.last().unwrap()], &[output], micros, at % 4 != 3);
            outputs.push(output);
        }
        let mut gradient = self.make(layers[layers.len() - 1].1);
        self.run(&[*outputs.last().unwrap()], &[gradient], 1, true);
        for (at, &(kept, mib, micros)) in
            (0_u32..).zip(layers).collect::<Vec<_>>().into_iter().rev()
        {
            let (next, own) = (self.make(mib), self.make(kept));
            let input = outputs[at as usize];
            self.run(&[at, input, gradient], &[next, own], 2 * micros, true);
            self.run(&[own], &[at], micros / 4 + 1, false);
            let gone = [outputs[at as usize + 1], gradient, own].map(BlockId::new);
            self.steps.extend(gone.map(|block| Step::Free { block }));
            gradient = next;
        }
        self.steps.extend([input, gradient].map(|block| Step::Free { block: BlockId::new(block) }));
        let (steps, accesses) =
            (std::mem::take(&mut self.steps), std::mem::take(&mut self.accesses));
        Iteration::new(steps, Ticks::ZERO).with_accesses(accesses)
    }
}

fn even(name: &str) -> Trace {
    network(name, &[(2, 12, 1000); 12])
}

fn machine() -> Machine {
    Machine { time_scale: 1.0, ..Machine::default() }
}

fn needed(traces: &[&Trace]) -> Needs {
    needs(traces, Some(REGION), ITERATIONS, &machine()).unwrap()
}

fn config(budget: Bytes) -> ReplayConfig {
    ReplayConfig {
        region: Some(REGION),
        iterations: ITERATIONS,
        machine: machine(),
        ..ReplayConfig::new(budget)
    }
}

fn all_went_well(outcome: &Outcome) {
    assert_eq!(outcome.violations, []);
    assert!(outcome.peak_held <= outcome.budget, "{} held", outcome.peak_held);
    for job in &outcome.jobs {
        assert_eq!(job.failure, None, "{}", job.name);
        assert!(job.iterations >= ITERATIONS, "{} did {}", job.name, job.iterations);
    }
}

/// So many percent of the peak.
fn of_peak(trace: &Trace, percent: u64) -> Bytes {
    Bytes::new(trace.stats().peak.value() / 100 * percent)
}

/// Below the least budget the jobs as they were recorded do not run, and with plans they do.
fn runs_below_the_least_budget(traces: &[&Trace], f: f64, means: &Means) -> (Figures, f64) {
    let needs = needed(traces);
    let budget = needs.budget_at(f);
    assert!(budget < needs.least && needs.f_of(budget) < 0.0);
    let mut config = config(budget);
    let plain = trial(traces, &config, config.policy.policy(ITERATIONS), &mut |_| {}).unwrap();
    assert!(plain.outcome().is_none(), "they run without plans");
    config.relief = relieve(traces, &needs, &config, means).unwrap().jobs;
    assert!(config.relief.iter().any(Option::is_some));
    let outcome = replay(traces, &config, &mut |_| {}).unwrap();
    all_went_well(&outcome);
    let figures = Figures::new(&outcome, &needs);
    (figures, one_at_a_time(traces, &needs, &config, means).unwrap().unwrap())
}

#[test]
fn two_jobs_run_below_the_least_budget() {
    let traces = [even("one"), even("other")];
    let traces: Vec<&Trace> = traces.iter().collect();
    for f in [-0.25, -0.5] {
        let (figures, alone) = runs_below_the_least_budget(&traces, f, &means(16));
        assert!(figures.throughput > 0.8, "f = {f}: {figures:?}");
        assert!(alone > 0.8 && alone < 1.05, "f = {f}: {alone}");
    }
}

#[test]
fn recorded_jobs_run_below_the_least_budget() {
    let traces = ["resnet50", "bert-base"].map(|name| bundled::open_operations(name).unwrap());
    let (figures, _) =
        runs_below_the_least_budget(&traces.iter().collect::<Vec<_>>(), -0.25, &means(25));
    assert!(figures.throughput > 1.0, "{figures:?}");
}

/// What one job keeps leaves too little for the other: they run by turns, each with all the memory,
/// and hardly slower than one after the other would.
#[test]
fn jobs_run_by_turns_where_what_they_keep_is_too_much() {
    let heavy = |name| network(name, &[(40, 4, 1000); 8]);
    let traces = [heavy("one"), heavy("other")];
    let traces: Vec<&Trace> = traces.iter().collect();
    let needs = needed(&traces);
    // One of them fits.
    let budget = needs.solos[0].peak;
    assert!(budget < needs.solos[0].kept.saturating_add(needs.solos[1].kept));
    let config = config(budget);
    let plans = relieve(&traces, &needs, &config, &means(16)).unwrap();
    assert!(plans.in_turns);
    let turn = plans.jobs[0].as_ref().unwrap().turn().unwrap();
    assert!(turn > 8, "{turn}");
    let config = ReplayConfig { relief: plans.jobs, iterations: 3 * turn, ..config };
    let outcome = replay(&traces, &config, &mut |_| {}).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.peak_held <= budget);
    for job in &outcome.jobs {
        assert_eq!(job.failure, None);
        assert!(job.iterations >= 3 * turn && job.moved > Bytes::ZERO, "{job:?}");
    }
    let figures = Figures::new(&outcome, &needs);
    assert!(figures.throughput > 0.9 && figures.throughput < 1.02, "{figures:?}");
}

/// The link is one for all: a job whose transfers another one's get in the way of takes longer.
#[test]
fn jobs_share_the_link() {
    let trace = even("one");
    let needs = needed(&[&trace]);
    let budget = Bytes::new(needs.least.value() / 10 * 6);
    let means = Means { strategy: Strategy::AutoSwap, ..means(1) };
    let plan = relieve_within(&[&trace], &needs, budget, 1.0, &means, &machine()).unwrap();
    let machine = Machine { utilisation: Utilisation::new(400).unwrap(), ..machine() };
    let rate = |jobs: usize| {
        let config = ReplayConfig {
            machine: machine.clone(),
            policy: PolicyKind::Spatial,
            relief: vec![plan[0].clone(); jobs],
            ..config(Bytes::gib(4))
        };
        let outcome = replay(&vec![&trace; jobs], &config, &mut |_| {}).unwrap();
        all_went_well(&outcome);
        assert!(outcome.jobs.iter().all(|job| job.moved > Bytes::ZERO));
        outcome.rate(&outcome.jobs[0])
    };
    // Their launches fit side by side, their transfers do not.
    assert!(rate(2) < 0.8 * rate(1), "{} and {}", rate(2), rate(1));
}

#[test]
fn what_cannot_be_relieved_is_refused() {
    let plain = bundled::open("resnet50").unwrap();
    let none = Relieved::plan(&plain, &means(16), &machine(), Bytes::gib(1)).unwrap_err();
    assert!(matches!(none, ReliefError::Operations { .. }), "{none}");
    let trace = even("one");
    let needs = needed(&[&trace]);
    let few = relieve(&[&trace], &needs, &config(Bytes::mib(50)), &means(16)).unwrap_err();
    let ReliefError::NoPlan { job, budget, least, .. } = &few else { panic!("{few}") };
    assert_eq!((job.as_str(), *budget), ("one", Bytes::mib(50)));
    // The parameters, and the backward run of a layer: three of its size and its parameter's.
    assert!(*least > Bytes::mib(12 * 2 + 3 * 12) && *least < Bytes::mib(12 * 2 + 3 * 12 + 3));
}

/// Alone, without anything that a plan does not know, an iteration takes what the plan says.
#[test]
fn an_iteration_takes_as_long_as_planned() {
    let machine = Machine {
        dispatch: Ticks::ZERO,
        memory_calls: MemoryCallCosts::NONE,
        utilisation: Utilisation::FULL,
        jitter: 0.0,
        ..machine()
    };
    let (made, recorded) = (even("one"), bundled::open_operations("resnet50").unwrap());
    let all = [Strategy::Zico, Strategy::Recompute, Strategy::AutoSwap];
    for (trace, share, strategies) in
        [(&made, 80, &all[..]), (&made, 60, &all), (&recorded, 70, &all[..1])]
    {
        for &strategy in strategies {
            let means = Means { strategy, ..means(16) };
            let (peak, budget) = (trace.stats().peak, of_peak(trace, share));
            let plan = Arc::new(Relieved::plan(trace, &means, &machine, budget).unwrap());
            let planned = plan.outcome().nanos as f64 / 1e9;
            let config = ReplayConfig {
                machine: machine.clone(),
                relief: vec![Some(plan)],
                ..config(peak.saturating_add(peak))
            };
            let outcome = replay(&[trace], &config, &mut |_| {}).unwrap();
            all_went_well(&outcome);
            let took = 1.0 / outcome.rate(&outcome.jobs[0]);
            let off = took / planned;
            assert!((0.98..1.02).contains(&off), "{} {strategy:?} {share}: {off}", trace.name());
        }
    }
}

/// What becomes of a job whose plan is carried out with these deeds.
fn carried_out(trace: &Trace, plan: &Relieved, deeds: Vec<Deed>) -> Result<(), String> {
    let plan = Relieved { deeds, ..plan.clone() };
    let config = ReplayConfig { relief: vec![Some(Arc::new(plan))], ..config(Bytes::gib(2)) };
    let done = trial(&[trace], &config, config.policy.policy(ITERATIONS), &mut |_| {}).unwrap();
    match done {
        Trial::Done(outcome) if outcome.violation_count == 0 => Ok(()),
        Trial::Done(outcome) => {
            let seen = |kind: &ViolationKind| {
                matches!(
                    kind,
                    ViolationKind::Changed { .. }
                        | ViolationKind::AccessNotOwned { .. }
                        | ViolationKind::AccessUnmapped { .. }
                        | ViolationKind::UnmapInUse { .. }
                )
            };
            assert!(outcome.violations.iter().all(|one| seen(&one.kind)));
            Err(outcome.violations[0].to_string())
        }
        other => Err(other.reason().unwrap_or_default().to_owned()),
    }
}

/// Each transfer, each wait for one and each run, left out one at a time: the oracle sees it, or
/// the job finds nothing where it looks.
#[test]
fn a_plan_that_is_carried_out_wrongly_is_seen() {
    let trace = network("one", &[(2, 12, 1000); 8]);
    // Both ways are needed, and both wait: the link is slow.
    let plan = |strategy, share| {
        let means = Means { strategy, ..means(1) };
        let budget = of_peak(&trace, share);
        Relieved::plan(&trace, &means, &machine(), budget).unwrap()
    };
    let mut left_out = [0; 5];
    for plan in [plan(Strategy::AutoSwap, 70), plan(Strategy::Recompute, 60)] {
        assert_eq!(carried_out(&trace, &plan, plan.deeds.clone()), Ok(()));
        for at in 0..plan.deeds.len() {
            let kind = match plan.deeds[at] {
                Deed::Run(_) => 0,
                Deed::Out(_) => 1,
                Deed::Left(_) => 2,
                Deed::In(_) => 3,
                Deed::Arrived(_) => 4,
                _ => continue,
            };
            let mut deeds = plan.deeds.clone();
            deeds.remove(at);
            let seen = carried_out(&trace, &plan, deeds);
            // Where the next wait is for a later transfer on the same way, this one makes no
            // difference.
            assert!(seen.is_err() || matches!(kind, 2 | 4), "without {:?}", plan.deeds[at]);
            left_out[kind] += u32::from(seen.is_err());
        }
    }
    assert!(left_out.iter().all(|&seen| seen > 0), "{left_out:?}");
}

/// The same for the begin and the end of a turn.
#[test]
fn a_turn_that_is_carried_out_wrongly_is_seen() {
    let trace = network("one", &[(2, 12, 1000); 8]);
    let budget = of_peak(&trace, 80);
    let mut plan = Relieved::plan_in_turns(&trace, &means(1), &machine(), budget).unwrap();
    plan.turn.as_mut().unwrap().iterations = 2;
    assert_eq!(carried_out(&trace, &plan, plan.deeds.clone()), Ok(()));
    let (mut kinds, turn) = ([0; 3], plan.turn.clone().unwrap());
    for (part, deeds) in [&turn.first, &turn.last].into_iter().enumerate() {
        for (at, deed) in deeds.iter().enumerate() {
            let kind = match deed {
                Deed::Out(_) => 0,
                Deed::In(_) => 1,
                Deed::Run(_) => 2,
                _ => continue,
            };
            let mut wrong = plan.clone();
            let turn = wrong.turn.as_mut().unwrap();
            [&mut turn.first, &mut turn.last][part].remove(at);
            let seen = carried_out(&trace, &wrong, plan.deeds.clone());
            assert!(seen.is_err(), "without {deed:?}");
            kinds[kind] += 1;
        }
    }
    assert!(kinds.iter().all(|&seen| seen > 0), "{kinds:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random networks under plans of random strategies and budgets, two at a time in hardly more
    /// memory than the plans need: nothing is lost, and nothing is beyond the budget.
    #[test]
    fn random_plans_keep_what_is_in_memory(
        layers in proptest::collection::vec((1..4_u64, 1..14_u64, 50..2000_u64), 3..12),
        others in proptest::collection::vec((1..4_u64, 1..14_u64, 50..2000_u64), 3..12),
        strategy in proptest::sample::select(&Strategy::ALL[..]),
        f in -1.0..0.5_f64,
        share in 0.5..1.0_f64,
        gigabytes in 1..40_u64,
        in_turns in proptest::bool::ANY,
    ) {
        let traces = [network("one", &layers), network("other", &others)];
        let traces: Vec<&Trace> = traces.iter().collect();
        let needs = needed(&traces);
        let means = Means { strategy, ..means(gigabytes) };
        let budget = needs.budget_at(f);
        let plans = if in_turns {
            relieve_in_turns(&traces, &needs, budget, &means, &machine())
        } else {
            relieve_within(&traces, &needs, budget, share, &means, &machine())
        };
        match plans {
            Err(ReliefError::NoPlan { .. } | ReliefError::NoRoom { .. }) => {}
            Err(error) => panic!("{error}"),
            Ok(relief) => {
                let config = ReplayConfig { relief, ..config(budget) };
                let outcome = replay(&traces, &config, &mut |_| {}).unwrap();
                prop_assert_eq!(&outcome.violations, &vec![]);
                prop_assert!(outcome.peak_held <= outcome.budget);
                for job in &outcome.jobs {
                    prop_assert_eq!(&job.failure, &None);
                }
            }
        }
    }
}
