//! Recorded jobs on a device that is far behind: as many launches as a GPU's queue takes.
//!
//! A job has its own memory back at once, but a page whose old mapping may be in use has to wait
//! for the device. How often that is so shows in the device calls of a job that has settled: where
//! each iteration is as planned there are none.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use zico_core::Bytes;
use zico_mock::bundled;
use zico_mock::replay::{Figures, Machine, Outcome, ReplayConfig, needs, replay};
use zico_mock::trace::{Step, Trace};

/// GPT-2 as it trained on an H200 with PyTorch's CUDA backend (`zico run --record`). The script
/// keeps each loss as a tensor.
fn recorded_on_a_gpu() -> Trace {
    Trace::read(include_bytes!("../traces/gpt2-h200.ztrace").as_slice()).unwrap()
}

/// resnet50 with 64 pictures at a time, by the CUDA backend on a runtime in software: its
/// convolutions take memory to work in, and kernels take as long as the host needs for them.
fn recorded_in_software() -> Trace {
    Trace::read(include_bytes!("../traces/resnet50-64.ztrace").as_slice()).unwrap()
}

fn configured(budget: Bytes, iterations: u64, time_scale: f64) -> ReplayConfig {
    ReplayConfig {
        region: Some(Bytes::mib(2)),
        learned: true,
        ends_with_next: true,
        iterations,
        machine: Machine { run_ahead: 1000, time_scale, ..Machine::default() },
        ..ReplayConfig::new(budget)
    }
}

fn run_all(traces: &[&Trace], config: &ReplayConfig) -> Outcome {
    let outcome = replay(traces, config, &mut |_| {}).unwrap();
    assert_eq!(outcome.violation_count, 0, "{:?}", outcome.violations);
    for job in &outcome.jobs {
        assert!(job.failure.is_none(), "{}: {:?}", job.name, job.failure);
    }
    outcome
}

fn run(trace: &Trace, iterations: u64, time_scale: f64) -> Outcome {
    run_all(&[trace], &configured(Bytes::gib(64), iterations, time_scale))
}

/// D37, D39: what a script keeps of its iterations, or what the first one has left, lies beside the
/// plan, and the iterations that follow it wait for nothing.
#[test]
fn jobs_that_have_settled_need_no_more_memory_calls() {
    let bundled =
        ["whisper-tiny", "gpt2-small", "resnet50"].map(|name| bundled::open(name).unwrap());
    let recorded = bundled.into_iter().map(|trace| (trace, 0.02, 0));
    // One page more for what is kept, now and then.
    for (trace, time_scale, calls) in recorded.chain([(recorded_on_a_gpu(), 1.0, 5)]) {
        let [soon, later] = [12, 24].map(|iterations| run(&trace, iterations, time_scale));
        let more = later.memory_calls - soon.memory_calls;
        assert!(more <= 12 * calls, "{}: {more} calls in 12 iterations", trace.name());
        let (held, live) = (later.peak_held.value(), later.peak_live.value());
        assert!(held * 100 <= live * 103, "{}: {held} held for {live}", trace.name());
        // Almost all of what is allocated is placed as planned: what persists is not.
        let last = trace.iterations().last().unwrap();
        let is_made = |step: &&Step| matches!(step, Step::Alloc { .. });
        let made = last.steps().iter().filter(is_made).count() as u64;
        let placed = later.jobs[0].planning.placed - soon.jobs[0].planning.placed;
        assert!(placed >= 11 * made * 9 / 10, "{}: {placed} of 12 times {made}", trace.name());
    }
}

/// D53: of gpt2's logits there are two for a time, and what is made between them lies where one of
/// them was, by turns. Where few calls are what counts, it has memory of its own once that has
/// shown, and not more than there is to spare.
#[test]
fn what_is_mapped_anew_in_each_iteration_gets_memory_of_its_own() {
    let trace = recorded_on_a_gpu();
    let with = |budget: Bytes, iterations: u64, fewest_calls: bool| {
        let config = ReplayConfig { fewest_calls, ..configured(budget, iterations, 1.0) };
        run_all(&[&trace], &config)
    };
    let (least, most) = (Bytes::gib(13), Bytes::gib(64));
    for (budget, fewest, calls, percent) in [
        (most, true, 0..=0, 110..=114),
        (most, false, 12..=u64::MAX, 100..=103),
        (least, true, 12..=u64::MAX, 100..=103),
    ] {
        let [soon, later] = [16, 28].map(|iterations| with(budget, iterations, fewest));
        let made = later.memory_calls - soon.memory_calls;
        let held = later.peak_held.value() * 100 / later.peak_live.value();
        assert!(calls.contains(&made), "{budget}, {fewest}: {made} calls in 12 iterations");
        assert!(percent.contains(&held), "{budget}, {fewest}: {held}% held");
    }
}

/// D40, D41: one job takes back what it has given up before the device has passed it; the other
/// one, whose iterations do not fit beside it, gets what it waits for all the same. Of gpt2's first
/// iterations nobody knows what they take: the other one starts beside them only where both can
/// finish.
#[test]
fn jobs_that_are_far_ahead_of_the_device_share_memory() {
    let traces = [recorded_in_software(), recorded_on_a_gpu()];
    let alone = [0, 1].map(|job| run(&traces[job], 20, 1.0));
    let rate = |outcome: &Outcome, job: usize| outcome.rate(&outcome.jobs[job]);
    let peaks: u64 = alone.iter().map(|outcome| outcome.peak_held.value()).sum();
    for percent in [98, 90, 77] {
        for ends_with_next in [true, false] {
            let budget = Bytes::new(peaks / 100 * percent);
            let config = ReplayConfig { ends_with_next, ..configured(budget, 20, 1.0) };
            let together = run_all(&traces.each_ref(), &config);
            let shares = [0, 1].map(|job| rate(&together, job) / rate(&alone[job], 0));
            let [least, sum] = [shares[0].min(shares[1]), shares[0] + shares[1]];
            assert!(least > 0.35 && sum > 1.25, "{shares:?} of {percent}%, {ends_with_next}");
        }
    }
}

/// D42: one of them is through with its iterations at once, and the other's take much longer on the
/// device: what counts is the device's time.
#[test]
fn jobs_of_short_and_long_iterations_share_the_time_of_the_device() {
    let traces = ["dlrm", "gcn"].map(|name| bundled::open(name).unwrap());
    let machine = Machine { run_ahead: 1000, ..Machine::default() };
    let needs = needs(&traces.each_ref(), None, 21, &machine).unwrap();
    for f in [0.1, 0.25, 0.5] {
        let config = configured(needs.budget_at(f), 21, machine.time_scale);
        let outcome = run_all(&traces.each_ref(), &config);
        let shares = Figures::new(&outcome, &needs).relative;
        assert!(shares.iter().all(|&share| share > 0.25), "{shares:?} at f = {f}");
    }
}
