//! Recorded jobs together on the mock device: the main job, end to end.
//!
//! Every replay runs under the oracle, so "no violation" means: no byte with two owners in device
//! order (I2), none reused before its fence (I3), none beyond the budget (I1).

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::num::NonZeroU8;

use zico_core::{Bytes, JobConfig, Lifetime, Ticks};
use zico_mock::bundled;
use zico_mock::replay::{Machine, Needs, Outcome, PolicyKind, ReplayConfig, needs, replay};
use zico_mock::trace::{BlockId, Iteration, Step, Trace};

const ITERATIONS: u64 = 6;

struct Together {
    traces: Vec<Trace>,
    needs: Needs,
    iterations: u64,
}

impl Together {
    fn of(names: &[&str]) -> Self {
        Self::after(names, ITERATIONS)
    }

    /// The same over so many iterations.
    fn after(names: &[&str], iterations: u64) -> Self {
        let traces: Vec<Trace> = names.iter().map(|name| bundled::open(name).unwrap()).collect();
        let machine = Machine::default();
        let needs = needs(&traces.iter().collect::<Vec<_>>(), None, iterations, &machine).unwrap();
        Self { traces, needs, iterations }
    }

    fn config(&self, f: f64, policy: PolicyKind) -> ReplayConfig {
        ReplayConfig {
            region: Some(self.needs.region),
            policy,
            iterations: self.iterations,
            ..ReplayConfig::new(self.needs.budget_at(f))
        }
    }

    fn run(&self, config: &ReplayConfig) -> Outcome {
        replay(&self.traces.iter().collect::<Vec<_>>(), config, &mut |_| {}).unwrap()
    }

    /// Of each job the rate over the rate alone.
    fn shares(&self, outcome: &Outcome) -> Vec<f64> {
        let jobs = outcome.jobs.iter().zip(&self.needs.solos);
        jobs.map(|(job, solo)| outcome.rate(job) / solo.rate).collect()
    }

    /// The sum of them.
    fn throughput(&self, outcome: &Outcome) -> f64 {
        self.shares(outcome).iter().sum()
    }
}

fn all_went_well(outcome: &Outcome, iterations: u64) {
    assert_eq!(outcome.violations, []);
    assert_eq!(outcome.violation_count, 0);
    assert!(outcome.peak_held <= outcome.budget, "{} held", outcome.peak_held);
    for job in &outcome.jobs {
        assert_eq!(job.failure, None, "{}", job.name);
        assert!(job.iterations >= iterations, "{} did {}", job.name, job.iterations);
    }
}

/// Each set at budgets from plenty to hardly enough: everything completes, and sharing is never
/// slower than taking turns.
fn shares_well(names: &[&str]) {
    share_well(&Together::of(names));
}

fn share_well(together: &Together) {
    for f in [1.0, 0.5, 0.25, 0.1, 0.05] {
        let zico = together.run(&together.config(f, PolicyKind::Zico));
        let exclusive = together.run(&together.config(f, PolicyKind::Exclusive));
        all_went_well(&zico, together.iterations);
        all_went_well(&exclusive, together.iterations);
        let (ours, turns) = (together.throughput(&zico), together.throughput(&exclusive));
        let names: Vec<&str> = together.traces.iter().map(Trace::name).collect();
        assert!(ours >= turns, "{names:?} at f = {f}: {ours:.3} against {turns:.3} by turns");
    }
    every_policy_completes(together);
}

/// Whoever decides, the promises are the pool's: nothing is violated, nobody fails, nobody waits
/// for ever. Those that hand nothing over need a budget for it.
fn every_policy_completes(together: &Together) {
    let mut seen = vec![PolicyKind::Zico, PolicyKind::Exclusive, PolicyKind::Unmanaged];
    if together.traces.len() == 2 {
        // Of two jobs only one ever waits: there is nothing to order.
        seen.extend([PolicyKind::SalusFair, PolicyKind::SalusSrtf]);
    }
    for kind in PolicyKind::ALL.into_iter().filter(|kind| !seen.contains(kind)) {
        let f = if kind.needs_every_peak() { 1.0 } else { 0.05 };
        let mut config = together.config(f, kind);
        config.iterations = ITERATIONS / 2;
        config.jobs = together.needs.terms(kind, config.budget);
        all_went_well(&together.run(&config), config.iterations);
    }
}

#[test]
fn resnet50_and_bert_base() {
    shares_well(&["resnet50", "bert-base"]);
}

#[test]
fn mobilenet_v2_and_resnet110() {
    shares_well(&["mobilenet_v2", "resnet110-cifar"]);
}

#[test]
fn gpt2_small_and_nasnetalarge() {
    shares_well(&["gpt2-small", "nasnetalarge"]);
}

#[test]
fn jobs_of_very_different_length() {
    shares_well(&["dlrm", "resnet50"]);
}

#[test]
fn a_job_whose_iterations_vary() {
    shares_well(&["gnmt", "resnet110-cifar"]);
}

/// Their iterations vary in size: what they have learned after six does not pay for itself yet
/// (0.994 of taking turns at f = 0.1).
#[test]
fn gcn_and_whisper_tiny() {
    share_well(&Together::after(&["gcn", "whisper-tiny"], 20));
}

#[test]
fn unet_between_two_others() {
    shares_well(&["gcn", "unet", "whisper-tiny"]);
}

#[test]
fn four_jobs_at_once() {
    shares_well(&["resnet50", "bert-base", "mobilenet_v2", "gpt2-small"]);
}

#[test]
fn the_same_job_twice() {
    shares_well(&["resnet50", "resnet50"]);
}

/// What the decision is for: with more than two jobs, starting whenever there is a start to be had
/// makes them wait for each other in mid-iteration (1.34 then).
#[test]
fn starting_in_time_is_worth_it() {
    let together = Together::of(&["resnet50", "bert-base", "mobilenet_v2", "gpt2-small"]);
    let mut config = together.config(0.25, PolicyKind::Zico);
    config.iterations = 3 * ITERATIONS;
    let outcome = together.run(&config);
    all_went_well(&outcome, config.iterations);
    let total = together.throughput(&outcome);
    assert!(total > 1.5, "{total:.3}");
}

/// Jobs that go on at once have a share each: the one with the longer iterations does not take the
/// room of the other one's next iteration each time (0.40, 0.43 and 0.40 then).
#[test]
fn whoever_goes_on_at_once_has_its_share() {
    for names in [["gnmt", "resnet50"], ["whisper-tiny", "unet"], ["gpt2-small", "gcn"]] {
        let together = Together::after(&names, 30);
        let config = together.config(0.1, PolicyKind::Zico);
        let outcome = together.run(&ReplayConfig { ends_with_next: true, ..config });
        all_went_well(&outcome, together.iterations);
        let shares = together.shares(&outcome);
        assert!(shares.iter().all(|&share| share > 0.47), "{names:?} {shares:?}");
        assert!(shares.iter().sum::<f64>() > 1.2, "{names:?} {shares:?}");
    }
}

/// I9: same input, same outcome, to the last digit.
#[test]
fn a_replay_repeats_exactly() {
    let together = Together::of(&["resnet50", "mobilenet_v2"]);
    let config = together.config(0.25, PolicyKind::Zico);
    let outcome = || format!("{:?}", together.run(&config));
    assert_eq!(outcome(), outcome());
    let mut other = config.clone();
    other.machine.seed += 1;
    assert_ne!(outcome(), format!("{:?}", together.run(&other)));
}

/// Where there is room for all, each job settles on regions of its own: from then on no memory is
/// created, mapped or unmapped.
#[test]
fn jobs_that_fit_together_make_no_device_memory_calls_in_steady_state() {
    for names in [["resnet50", "bert-base"], ["dlrm", "gnmt"]] {
        let together = Together::of(&names);
        let calls = |iterations| {
            let config = together.config(1.05, PolicyKind::Zico);
            let outcome = together.run(&ReplayConfig { iterations, ..config });
            assert_eq!(outcome.violation_count, 0);
            outcome.memory_calls
        };
        assert_eq!(calls(10), calls(20), "{names:?}");
    }
}

/// What each job needs in regions does not depend on who runs beside it.
#[test]
fn a_jobs_demand_is_its_own() {
    let together = Together::of(&["resnet50", "bert-base"]);
    let outcome = together.run(&together.config(0.25, PolicyKind::Zico));
    for (job, solo) in outcome.jobs.iter().zip(&together.needs.solos) {
        assert_eq!(job.persistent, solo.persistent, "{}", job.name);
        assert_eq!(job.peak_leased, solo.peak_leased, "{}", job.name);
    }
}

/// A recording may have no launch at all, or one that takes no time.
#[test]
fn a_job_without_launches_comes_to_an_end() {
    let block = BlockId::new(0);
    let steps = vec![
        Step::Alloc { block, bytes: Bytes::mib(1), lifetime: Lifetime::Iteration },
        Step::Free { block },
    ];
    let iterations = vec![Iteration::new(steps, Ticks::ZERO)];
    let idle = Trace::new("idle".to_owned(), String::new(), Vec::new(), iterations).unwrap();
    let dlrm = bundled::open("dlrm").unwrap();
    let mut config = ReplayConfig { iterations: 3, ..ReplayConfig::new(Bytes::gib(2)) };
    config.machine.dispatch = Ticks::ZERO;
    for traces in [vec![&idle], vec![&idle, &dlrm]] {
        let outcome = replay(&traces, &config, &mut |_| {}).unwrap();
        assert!(outcome.jobs.iter().all(|job| job.iterations >= 3 && job.failure.is_none()));
    }
}

/// With a pool of its own each job keeps its own peak: the sum of the peaks is needed, and a job
/// that comes too late fails alone.
#[test]
fn unmanaged_jobs_need_the_sum_of_their_peaks() {
    let together = Together::of(&["resnet50", "mobilenet_v2"]);
    let enough = together.run(&together.config(1.15, PolicyKind::Unmanaged));
    all_went_well(&enough, ITERATIONS);
    let short = together.run(&together.config(0.9, PolicyKind::Unmanaged));
    assert_eq!(short.violation_count, 0);
    let failed: Vec<&str> = short.jobs.iter().filter_map(|job| job.failure.as_deref()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("the device refused: "), "{}", failed[0]);
    let done = short.jobs.iter().find(|job| job.failure.is_none()).unwrap();
    assert!(done.iterations >= ITERATIONS);
}

/// What `PyTorch`'s expandable segments hold over the live bytes, both at their peaks, or 1.03 if
/// that is less (`zico-bench` models them on the same traces).
const EXPANDABLE: [(&str, f64); 11] = [
    ("bert-base", 1.004),
    ("dlrm", 1.017),
    ("gcn", 1.029),
    ("gnmt", 1.017),
    ("gpt2-small", 1.008),
    ("mobilenet_v2", 1.012),
    ("nasnetalarge", 1.018),
    ("resnet110-cifar", 1.016),
    ("resnet50", 1.03),
    ("unet", 1.021),
    ("whisper-tiny", 1.03),
];
/// A fixed share is all that a job gets: where it does not suffice the job fails alone, and the
/// other one is as fast as if it had the device's memory to itself.
#[test]
fn a_static_share_that_is_too_small_fails_alone() {
    let together = Together::of(&["resnet50", "mobilenet_v2"]);
    let mut config = together.config(1.0, PolicyKind::Static);
    config.jobs = together.needs.terms(PolicyKind::Static, config.budget);
    config.jobs[0] = JobConfig::default().cap(Bytes::gib(1));
    let outcome = together.run(&config);
    assert_eq!(outcome.violation_count, 0);
    let failure = outcome.jobs[0].failure.as_deref().unwrap();
    assert!(failure.starts_with("beyond the job's cap of 1 GiB"), "{failure}");
    assert!(outcome.jobs[0].peak <= Bytes::gib(1));
    assert_eq!(outcome.jobs[1].failure, None);
}

/// What a job alone leases over its live bytes, both at their peaks and in program order, is no
/// more than what expandable segments hold.
#[test]
fn little_is_lost_to_fragmentation() {
    for (name, most) in EXPANDABLE {
        let trace = bundled::open(name).unwrap();
        let needs = needs(&[&trace], Some(Bytes::mib(2)), 3, &Machine::default()).unwrap();
        let live = trace.stats().peak.value() as f64;
        let ratio = needs.solos[0].peak_leased.value() as f64 / live;
        assert!(ratio <= most, "{name}: {ratio:.3}");
    }
}

/// A job alone runs at its full rate in a budget of what expandable segments hold: what it has
/// freed and the device has yet to pass it takes back for its own next blocks, in the order of its
/// stream.
#[test]
fn a_job_alone_runs_in_little_more_than_its_live_bytes() {
    for (name, most) in EXPANDABLE {
        let trace = bundled::open(name).unwrap();
        let region = Some(Bytes::mib(2));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let budget = Bytes::new((trace.stats().peak.value() as f64 * most) as u64);
        let rate = |budget| {
            let (iterations, config) = (ITERATIONS, ReplayConfig::new(budget));
            let config = ReplayConfig { region, iterations, ..config };
            let outcome = replay(&[&trace], &config, &mut |_| {}).unwrap();
            all_went_well(&outcome, ITERATIONS);
            outcome.rate(&outcome.jobs[0])
        };
        let share = rate(budget) / rate(Bytes::new(2 * budget.value()));
        assert!(share > 0.98, "{name}: {share:.4} of the rate with memory to spare");
    }
}

/// Memory that another stream uses is not used again before that stream has passed: a job that
/// lends its blocks holds more, and its neighbour gets it later. The oracle sees each use.
#[test]
fn what_another_stream_uses_is_used_again_after_it() {
    let mib = |n: u64| Bytes::new(n << 20);
    let trace = |lent: bool| {
        let steps = |first: u32| {
            let blocks = (first..first + 4).map(BlockId::new);
            blocks
                .flat_map(|block| {
                    let stream = NonZeroU8::new(1 + u8::try_from(block.value() % 2).unwrap());
                    let used = Step::Use { block, stream: stream.unwrap() };
                    let lifetime = Lifetime::Iteration;
                    [
                        Some(Step::Alloc { block, bytes: mib(16), lifetime }),
                        Some(Step::Launch { work: Ticks::millis(5) }),
                        Some(used).filter(|_| lent),
                        Some(Step::Free { block }),
                    ]
                })
                .flatten()
                .collect()
        };
        let iterations = [0, 4].map(|first| Iteration::new(steps(first), Ticks::millis(20)));
        Trace::new("side".into(), String::new(), vec![], iterations.into()).unwrap()
    };
    let run = |traces: &[&Trace], budget: Bytes| {
        let config = ReplayConfig {
            region: Some(mib(2)),
            iterations: ITERATIONS,
            ..ReplayConfig::new(budget)
        };
        replay(traces, &config, &mut |_| {}).unwrap()
    };
    let (plain, lent) = (trace(false), trace(true));
    let (own, both) = (run(&[&plain], mib(256)), run(&[&lent], mib(256)));
    all_went_well(&own, ITERATIONS);
    all_went_well(&both, ITERATIONS);
    assert_eq!(own.peak_held, mib(16), "the same stream has its memory back at once");
    assert!(both.peak_held >= mib(32), "{} held although streams use it", both.peak_held);
    // Where there is no more it waits for them, also beside another job.
    let tight = run(&[&lent, &lent], mib(16));
    all_went_well(&tight, ITERATIONS);
}

/// A small GPT that was recorded while it trained, and the same with three steps for each of the
/// optimizer: `zico run --record` of the scripts of zico-torch's tests. Gradients live until the
/// next iteration begins, as with an optimizer's step for a mark and `zero_grad` after it.
fn recorded() -> [Trace; 2] {
    let files: [&[u8]; 2] =
        [include_bytes!("../traces/gpt.ztrace"), include_bytes!("../traces/accumulate.ztrace")];
    files.map(|file| Trace::read(file).unwrap())
}

/// Nobody says how long blocks live, as in PyTorch. What the first iterations show is not what the
/// next one takes: gradients are taken to persist, and come again in each.
#[test]
fn lifetimes_that_are_learned_make_nobody_run_out_of_memory() {
    let [gpt, accumulate] = recorded();
    for traces in [[&gpt, &gpt], [&gpt, &accumulate], [&accumulate, &accumulate]] {
        let needs = needs(&traces, None, 5, &Machine::default()).unwrap();
        for f in [1.0, 0.75, 0.5, 0.35, 0.2] {
            for seed in 0..3 {
                let config = ReplayConfig {
                    region: Some(needs.region),
                    learned: true,
                    iterations: 12,
                    machine: Machine { seed, ..Machine::default() },
                    ..ReplayConfig::new(needs.budget_at(f))
                };
                let outcome = replay(&traces, &config, &mut |_| {}).unwrap();
                all_went_well(&outcome, 12);
            }
        }
    }
}
