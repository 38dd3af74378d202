//! Jobs of several processes under one broker, on the mock device and in virtual time.
//!
//! A client of the mock's broker is a process: it has its own handles, and speaks in messages only.
//! The oracle sees the work of all, so "no violation" means what it means for one process.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failure fails the test")]

use zico_core::{Bytes, Ticks};
use zico_mock::bundled;
use zico_mock::replay::{
    Machine, Needs, Outcome, PolicyKind, ReplayConfig, Restart, Usage, needs, replay,
};
use zico_mock::trace::Trace;

const ITERATIONS: u64 = 6;

fn of(names: &[&str], iterations: u64) -> (Vec<Trace>, Needs) {
    let traces: Vec<Trace> = names.iter().map(|name| bundled::open(name).unwrap()).collect();
    let all: Vec<&Trace> = traces.iter().collect();
    let needs = needs(&all, None, iterations, &Machine::default()).unwrap();
    (traces, needs)
}

fn run(traces: &[Trace], needs: &Needs, f: f64, iterations: u64, processes: bool) -> Outcome {
    let config = ReplayConfig {
        region: Some(needs.region),
        policy: PolicyKind::Zico,
        iterations,
        processes,
        ..ReplayConfig::new(needs.budget_at(f))
    };
    replay(&traces.iter().collect::<Vec<_>>(), &config, &mut |_| {}).unwrap()
}

/// The sum over jobs of the rate over the rate alone.
fn throughput(outcome: &Outcome, needs: &Needs) -> f64 {
    let share = outcome.jobs.iter().zip(&needs.solos);
    share.map(|(job, solo)| outcome.rate(job) / solo.rate).sum()
}

/// What jobs make in one process and in several, as the mean over replays of these lengths: with
/// more than two jobs a message that comes a little later may let another one go first, which a
/// single length shows as a few per cent more or less.
fn in_one_and_in_several(names: &[&str], f: f64, lengths: &[u64]) -> (f64, f64) {
    let (mut one, mut several) = (0.0, 0.0);
    for &iterations in lengths {
        let (traces, needs) = of(names, iterations);
        one += throughput(&run(&traces, &needs, f, iterations, false), &needs);
        let outcome = run(&traces, &needs, f, iterations, true);
        assert_eq!(outcome.violations, [], "{names:?} at {f}");
        assert!(outcome.peak_held <= outcome.budget);
        for job in &outcome.jobs {
            assert_eq!(job.failure, None, "{}", job.name);
            assert!(job.iterations >= iterations, "{} did {}", job.name, job.iterations);
        }
        several += throughput(&outcome, &needs);
    }
    let count = lengths.len() as f64;
    (one / count, several / count)
}

#[test]
fn recorded_jobs_in_processes_of_their_own_do_as_well_as_in_one() {
    const EIGHT: [&str; 8] =
        ["resnet50", "bert-base", "gcn", "resnet110-cifar", "dlrm", "gnmt", "whisper-tiny", "unet"];
    let (pair, more): (&[u64], &[u64]) = (&[12], &[12, 20, 28]);
    // All of them in `.ci/long`.
    let some = if zico_tests::is_long() { 2 } else { 1 };
    let sets = [
        (&["resnet50", "gnmt"][..], &[0.5, 0.1][..], pair),
        (&["dlrm", "bert-base"], &[1.0, 0.25], pair),
        (&["mobilenet_v2", "resnet110-cifar", "dlrm"], &[1.0, 0.1, 0.5, 0.25][..2 * some], pair),
        (&["resnet110-cifar", "gcn", "resnet110-cifar", "gcn"], &[0.5, 0.25][..some], more),
        (&EIGHT, &[0.5], &[4]),
    ];
    let all_of = |(names, shares, lengths): (&[&str], &[f64], &[u64])| -> Vec<f64> {
        let ratio = |&f: &f64| {
            let (one, several) = in_one_and_in_several(names, f, lengths);
            println!("{names:?} at {f}: {one:.3} in one process, {several:.3} in several");
            assert!(several > 0.98 * one, "{names:?} at {f}: {several:.3} of {one:.3}");
            several / one
        };
        shares.iter().map(ratio).collect()
    };
    let ratios: Vec<f64> = std::thread::scope(|scope| {
        let threads = sets.map(|set| scope.spawn(move || all_of(set)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!(mean > 0.995, "{mean:.3} as a mean over {}", ratios.len());
}

/// What is leased before a job asks for it never keeps the job itself from what it needs.
#[test]
fn a_job_alone_gets_by_with_its_own_peak() {
    for name in ["bert-base", "gnmt", "resnet110-cifar", "whisper-tiny", "unet"] {
        let (traces, needs) = of(&[name], ITERATIONS);
        let outcome = run(&traces, &needs, 1.0, ITERATIONS, true);
        let job = &outcome.jobs[0];
        assert_eq!((&job.failure, job.iterations >= ITERATIONS), (&None, true), "{name}");
        assert_eq!(outcome.violations, []);
    }
}

/// Jobs that keep more than the budget take turns, each in a process of its own, as well as in one
/// process.
#[test]
fn jobs_that_keep_more_than_the_budget_take_turns_in_processes_of_their_own() {
    let (traces, needs) = of(&["gnmt", "dlrm", "bert-base", "whisper-tiny"], ITERATIONS);
    let all: Vec<&Trace> = traces.iter().collect();
    let throughput = [false, true].map(|processes| {
        let config = ReplayConfig {
            region: Some(needs.region),
            iterations: ITERATIONS,
            slice: Some(Ticks::millis(200)),
            processes,
            ..ReplayConfig::new(Bytes::mib(2560))
        };
        let outcome = replay(&all, &config, &mut |_| {}).unwrap();
        assert_eq!(outcome.violations, []);
        assert!(!outcome.traffic.0.is_zero(), "they do not fit beside each other");
        for job in &outcome.jobs {
            assert_eq!((&job.failure, job.iterations >= ITERATIONS), (&None, true), "{}", job.name);
        }
        throughput(&outcome, &needs)
    });
    let [one, several] = throughput;
    assert!(several > 0.98 * one, "{several:.3} of {one:.3}");
}

/// Another broker comes in the place of one that dies, three times, and is told by one process
/// after the other what there is: all go on. What iterations take it has to learn anew.
#[test]
fn recorded_jobs_go_on_with_a_broker_that_comes_in_the_place_of_another() {
    let (traces, needs) = of(&["resnet50", "gnmt", "dlrm"], 20);
    let all: Vec<&Trace> = traces.iter().collect();
    let restart =
        |ms: u64| Restart { at: Ticks::millis(ms), messages: ms % 7, apart: Ticks::micros(ms) };
    let [without, with] = [vec![], [200, 600, 1100].map(restart).to_vec()].map(|restarts| {
        let config = ReplayConfig {
            region: Some(needs.region),
            processes: true,
            restarts,
            ..ReplayConfig::new(needs.budget_at(0.1))
        };
        let outcome = replay(&all, &config, &mut |_| {}).unwrap();
        assert_eq!(outcome.violations, []);
        for job in &outcome.jobs {
            assert_eq!((&job.failure, job.iterations >= 20), (&None, true), "{}", job.name);
        }
        (outcome.restarts, throughput(&outcome, &needs))
    });
    println!("{:.3} with three brokers that die, {:.3} without", with.1, without.1);
    assert_eq!((without.0, with.0), (0, 3));
    assert!(with.1 > 0.85 * without.1, "{:.3} of {:.3}", with.1, without.1);
}

/// One is killed in the middle of an iteration, or leaves there: the others go on, and have what it
/// had once the device has done what it was given.
#[test]
fn recorded_jobs_go_on_when_one_of_them_ends() {
    let (traces, needs) = of(&["resnet50", "gnmt", "dlrm"], 20);
    let all: Vec<&Trace> = traces.iter().collect();
    for processes in [false, true] {
        let run = |iterations, ends| {
            let config = ReplayConfig {
                region: Some(needs.region),
                processes,
                iterations,
                usage: vec![Usage { ends, ..Usage::default() }],
                ..ReplayConfig::new(needs.budget_at(0.25))
            };
            replay(&all, &config, &mut |_| {}).unwrap()
        };
        let span = &run(6, None).jobs[0].spans[4];
        let middle = span.began.value().midpoint(span.ended.unwrap().value());
        let outcome = run(20, Some(Ticks::new(middle)));
        assert_eq!(outcome.violations, []);
        let [ended, others @ ..] = &outcome.jobs[..] else { panic!("three jobs") };
        let span = ended.spans.last().unwrap();
        assert_eq!((&ended.failure, span.ended), (&None, None), "in the middle of an iteration");
        assert!((1..=4).contains(&ended.iterations), "{}", ended.iterations);
        for job in others {
            assert_eq!((&job.failure, job.iterations >= 20), (&None, true), "{}", job.name);
        }
        let last = outcome.wave.samples().last().unwrap();
        assert!(last.held[0].is_zero(), "{} are held by one that is gone", last.held[0]);
    }
}
