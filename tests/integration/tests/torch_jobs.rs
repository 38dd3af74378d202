//! Small trainings of PyTorch on a CPU, recorded by `zico run --record`: jobs of some tens of
//! regions, of which a few more or less decide whether two fit side by side.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use zico_core::Bytes;
use zico_mock::bundled;
use zico_mock::replay::{Figures, Machine, ReplayConfig, needs, replay};
use zico_mock::trace::Trace;

/// Two networks with an optimizer each: a round is three iterations, and gradients live until the
/// next round.
fn gan() -> Trace {
    Trace::read(include_bytes!("../traces/gan.ztrace").as_slice()).unwrap()
}

/// A small GPT, with as many tokens as come.
fn lengths() -> Trace {
    Trace::read(include_bytes!("../traces/gpt-lengths.ztrace").as_slice()).unwrap()
}

/// A U-Net that learns to take noise away, and draws pictures after each tenth step.
fn diffusion() -> Trace {
    Trace::read(include_bytes!("../traces/diffusion.ztrace").as_slice()).unwrap()
}

/// An LSTM: texts of four lengths, in any order.
fn lstm() -> Trace {
    Trace::read(include_bytes!("../traces/lstm.ztrace").as_slice()).unwrap()
}

/// A network of convolutions that is tried on other pictures, three times as many at once, after
/// each sixth step.
fn validating() -> Trace {
    Trace::read(include_bytes!("../traces/validating.ztrace").as_slice()).unwrap()
}

/// A network of convolutions whose pictures become larger.
fn resizing() -> Trace {
    Trace::read(include_bytes!("../traces/resizing.ztrace").as_slice()).unwrap()
}

/// Of each job the part of its rate alone that it has under this budget, on a device that does what
/// it is told at once.
fn shares(traces: &[Trace; 2], mebibytes: u64, iterations: u64) -> Vec<f64> {
    let machine = Machine { run_ahead: 1, time_scale: 1.0, ..Machine::default() };
    let traces = traces.each_ref();
    let needs = needs(&traces, Some(Bytes::mib(2)), iterations, &machine).unwrap();
    let config = ReplayConfig {
        region: Some(Bytes::mib(2)),
        learned: true,
        ends_with_next: true,
        iterations,
        machine,
        ..ReplayConfig::new(Bytes::mib(mebibytes))
    };
    let outcome = replay(&traces, &config, &mut |_| {}).unwrap();
    assert_eq!(outcome.violation_count, 0, "{:?}", outcome.violations);
    for job in &outcome.jobs {
        assert!(job.failure.is_none(), "{} in {mebibytes} MiB: {:?}", job.name, job.failure);
    }
    Figures::new(&outcome, &needs).relative
}

/// D47, D48: what a job holds at different times was claimed together. 1.67 is the most that two
/// jobs on one device can have.
#[test]
fn jobs_that_hold_their_most_at_different_times_run_side_by_side() {
    for (traces, mebibytes, least) in [
        ([gan(), gan()], 144, 1.5),
        ([gan(), gan()], 138, 1.4),
        ([gan(), lengths()], 170, 1.45),
        ([gan(), lengths()], 156, 1.2),
    ] {
        let shares = shares(&traces, mebibytes, 60);
        let sum: f64 = shares.iter().sum();
        assert!(sum > least, "{shares:?} in {mebibytes} MiB");
    }
}

/// D49: a short iteration starts as soon as the long one beside it is past its peak.
#[test]
fn a_short_iteration_does_not_wait_for_the_end_of_a_long_one() {
    let long = bundled::open("resnet110-cifar").unwrap();
    let shares = shares(&[gan(), long], 1104, 20);
    assert!(shares[0] > 0.35 && shares.iter().sum::<f64>() > 1.25, "{shares:?}");
}

/// D50: once pictures have been drawn, the same iteration fills three regions more than before.
/// Each of these budgets is enough for one at a time.
#[test]
fn what_lies_otherwise_after_another_iteration_has_room() {
    for mebibytes in [58, 66, 78] {
        let shares = shares(&[diffusion(), diffusion()], mebibytes, 20);
        let sum: f64 = shares.iter().sum();
        assert!(sum > 1.0, "{shares:?} in {mebibytes} MiB");
    }
}

/// D51: one of which nothing is known needs little more, while one that has just begun turns out to
/// be known.
#[test]
fn who_has_just_begun_waits_for_one_of_which_nothing_is_known() {
    shares(&[lstm(), resizing()], 172, 20);
}

/// D55: the second iteration of one, of which nothing is known, and the first of a new kind of the
/// other need more than there is; one at a time each of them has enough.
#[test]
fn nothing_of_a_new_kind_begins_beside_a_second_iteration() {
    let shares = shares(&[lstm(), validating()], 192, 20);
    assert!(shares.iter().sum::<f64>() > 1.2, "{shares:?}");
}
