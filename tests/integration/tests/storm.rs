//! Short storms of threads; `src/storm` says what is checked, and the binary `storm` goes on for
//! longer.
//!
//! The first watches I4 with what is carried from one iteration to the next, the second I2, I3, I6
//! and pages that stay leased and empty.
#![allow(clippy::panic, reason = "a failure fails the test")]

use std::time::Duration;

use zico_tests::storm::Storm;

const STORM: Storm = Storm {
    jobs: 3,
    threads: 8,
    time: Duration::from_secs(3),
    seed: 1,
    carry: true,
    mute: true,
    patience: Duration::from_secs(10),
};

fn passes(storm: Storm) {
    match storm.run() {
        Ok(report) => assert!(report.iterations > 5 && report.patterns > 50, "{report:?}"),
        Err(text) => panic!("{storm:?}: {text}"),
    }
}

#[test]
fn jobs_of_many_threads_that_carry_blocks() {
    passes(STORM);
}

#[test]
fn jobs_of_many_threads_that_carry_nothing() {
    passes(Storm { carry: false, seed: 2, ..STORM });
}

#[test]
fn many_jobs_of_two_threads() {
    passes(Storm { jobs: 32, threads: 2, seed: 3, ..STORM });
}
