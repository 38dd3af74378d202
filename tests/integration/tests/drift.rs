//! Jobs whose iterations drift from what was learned. There is no violation, and no job fails as
//! long as each fits alone.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use zico_core::JobConfig;
use zico_mock::bundled;
use zico_mock::replay::{Machine, Outcome, ReplayConfig, needs, replay, varied};
use zico_mock::trace::Trace;

const ITERATIONS: u64 = 12;

fn together(traces: &[Trace; 2], f: f64, jitter: f64) -> Outcome {
    together_if(traces, f, jitter, false)
}

/// How long blocks live is learned, as of PyTorch's, or told.
fn together_if(traces: &[Trace; 2], f: f64, jitter: f64, learned: bool) -> Outcome {
    let machine = Machine { jitter, ..Machine::default() };
    let jobs: Vec<&Trace> = traces.iter().collect();
    // The one that is done first goes on until the other is, and comes to lengths that it has not
    // had yet.
    let needs = needs(&jobs, None, 2 * ITERATIONS, &machine).unwrap();
    let config = ReplayConfig {
        region: Some(needs.region),
        iterations: ITERATIONS,
        learned,
        jobs: vec![JobConfig::default(); 2],
        machine,
        ..ReplayConfig::new(needs.budget_at(f))
    };
    let outcome = replay(&jobs, &config, &mut |_| {}).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.peak_held <= outcome.budget);
    outcome
}

fn all_finish(outcome: &Outcome) {
    for job in &outcome.jobs {
        assert_eq!(job.failure, None, "{} after {}", job.name, job.iterations);
        assert!(job.iterations >= ITERATIONS);
    }
}

fn pair() -> [Trace; 2] {
    ["mobilenet_v2", "resnet110-cifar"].map(|name| bundled::open(name).unwrap())
}

#[test]
fn durations_that_are_off_by_half() {
    for f in [0.5, 0.1, 0.0] {
        all_finish(&together(&pair(), f, 0.5));
    }
}

/// Each iteration takes some share between 60% and 100% of memory and time.
fn lengths(seed: u64, mut share: impl FnMut(&mut fastrand::Rng) -> f64) -> [Trace; 2] {
    let mut random = fastrand::Rng::with_seed(seed);
    pair().map(|trace| {
        let shares: Vec<f64> = (0..80).map(|_| share(&mut random)).collect();
        varied(&trace, &shares).unwrap()
    })
}

#[test]
fn a_few_lengths() {
    for seed in 0..3 {
        let traces = lengths(seed, |random| 0.6 + 0.1 * f64::from(random.u8(0..5)));
        for f in [0.5, 0.05] {
            all_finish(&together(&traces, f, 0.05));
        }
    }
}

#[test]
fn any_length() {
    for seed in 0..3 {
        let traces = lengths(seed, |random| 0.6 + 0.4 * random.f64());
        for f in [0.5, 0.05] {
            all_finish(&together(&traces, f, 0.05));
        }
    }
}

/// A job whose iterations have all been new is expected to have a new one again, larger than any
/// before, and not only once its first allocation has shown that it is. So nobody is out of memory.
#[test]
fn a_new_length_is_none_that_could_not_be_foreseen() {
    let mut seed = 7;
    let traces = ["gnmt", "bert-base"].map(|name| {
        let mut random = fastrand::Rng::with_seed(seed);
        seed += 1;
        let shares: Vec<f64> = (0..400).map(|_| 0.6 + 0.4 * random.f64()).collect();
        varied(&bundled::open(name).unwrap(), &shares).unwrap()
    });
    let jobs: Vec<&Trace> = traces.iter().collect();
    let needs = needs(&jobs, None, 40, &Machine::default()).unwrap();
    for f in [0.25, 0.1] {
        let config = ReplayConfig {
            region: Some(needs.region),
            iterations: 40,
            jobs: vec![JobConfig::default(); 2],
            ..ReplayConfig::new(needs.budget_at(f))
        };
        let outcome = replay(&jobs, &config, &mut |_| {}).unwrap();
        assert_eq!(outcome.violations, []);
        all_finish(&outcome);
    }
}

/// The same job twice, of any length: few iterations tell little of the next one, and a first
/// allocation that all share tells nothing.
#[test]
fn the_first_few_lengths_tell_little() {
    for seed in [210, 240, 260] {
        let traces = twice("whisper-tiny", seed);
        for f in [0.25, 0.1] {
            all_finish(&together(&traces, f, 0.05));
        }
    }
}

/// Where lifetimes are learned too, once they are.
#[test]
fn lengths_are_new_where_lifetimes_are_learned() {
    for seed in [310, 330] {
        let traces = twice("whisper-tiny", seed);
        for f in [0.25, 0.1] {
            all_finish(&together_if(&traces, f, 0.05, true));
        }
    }
}

fn twice(name: &str, seed: u64) -> [Trace; 2] {
    let recorded = bundled::open(name).unwrap();
    [seed, seed + 1].map(|seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let shares: Vec<f64> = (0..400).map(|_| 0.6 + 0.4 * random.f64()).collect();
        varied(&recorded, &shares).unwrap()
    })
}

#[test]
fn a_peak_that_grows_by_a_third_in_mid_run() {
    for name in ["mobilenet_v2", "gnmt"] {
        let shares: Vec<f64> = (0..80).map(|i| if i < 6 { 1.0 } else { 1.3 }).collect();
        let grows = varied(&bundled::open(name).unwrap(), &shares).unwrap();
        let traces = [grows, bundled::open("resnet110-cifar").unwrap()];
        for f in [0.5, 0.1, 0.0] {
            all_finish(&together(&traces, f, 0.05));
        }
    }
}

/// Where what it has grown to does not fit, it is told so and the other one goes on.
#[test]
fn a_job_that_outgrows_the_budget_fails_alone() {
    let shares: Vec<f64> = (0..80).map(|i| if i < 6 { 1.0 } else { 1.3 }).collect();
    let [large, small] = pair();
    let budget = needs(&[&large, &small], None, 3, &Machine::default()).unwrap().budget_at(0.05);
    let grows = varied(&large, &shares).unwrap();
    let config = ReplayConfig { iterations: ITERATIONS, ..ReplayConfig::new(budget) };
    let outcome = replay(&[&grows, &small], &config, &mut |_| {}).unwrap();
    assert_eq!(outcome.violations, []);
    let failure = outcome.jobs[0].failure.as_deref().unwrap();
    assert!(failure.contains("out of memory"), "{failure}");
    assert_eq!(outcome.jobs[1].failure, None);
    assert!(outcome.jobs[1].iterations >= ITERATIONS);
}
