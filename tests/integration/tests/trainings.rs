//! Trainings that nobody has looked at, in every setting; `src/trainings` says what is drawn and
//! what is checked, and the binary `trainings` goes through as many as one likes.
//!
//! These watch I1 to I5 and I8 where a pool plans, learns, hands over and asks a broker as it does
//! for real jobs.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a failure fails the test")]

use std::thread;

use zico_tests::cases;
use zico_tests::trainings::Case;

/// Half of the seeds: blocks where plans had them, and what failed.
fn half(odd: u64) -> (u64, Vec<String>) {
    let (mut planned, mut failed) = (0, Vec::new());
    for seed in (0..u64::from(cases(600))).filter(|seed| seed % 2 == odd) {
        match Case::draw(seed).run() {
            Ok(report) => planned += report.planned,
            Err(failure) => failed.push(format!("seed {seed}: {failure}")),
        }
    }
    (planned, failed)
}

/// Each has shown a defect: D61 to D67, and the last one that a replay took for starving what
/// waited for memory of its own, which the device had yet to pass. D69 among interruptible jobs.
#[test]
fn what_has_failed_once_does_not_again() {
    let cases = [10725, 10837, 11052, 21600, 37785, 39026, 45631, 48996, 124571]
        .map(|seed| (seed, Case::draw(seed).undisturbed()));
    let interruptible = (72737, Case::draw(72737).undisturbed().with_interruptible(true));
    for (seed, case) in cases.into_iter().chain([interruptible]) {
        let failure = case.run().err();
        assert!(failure.is_none(), "seed {seed}: {}", failure.unwrap());
    }
}

#[test]
fn in_any_setting_the_promises_hold() {
    let (one, other) = thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        (half(0), other.join())
    });
    let Ok(other) = other else { panic!("a thread of the test panicked") };
    let failed = [one.1, other.1].concat();
    assert!(
        failed.is_empty(),
        "{}\nagain: cargo run --release -p zico-tests --bin trainings -- --seed N",
        failed.join("\n")
    );
    assert!(one.0 + other.0 > 10_000, "nothing was planned");
}
