//! Liveness of jobs whose programs end, on some thousands of seeds; `src/schedules.rs` says what is
//! drawn and what is checked, and the binary `schedules` goes through millions.
//!
//! These watch I4 and I6 above all: what jobs carry from one iteration to the next, hold while they
//! do nothing, or hold without any iterations, must not leave everybody waiting.
#![allow(clippy::panic, reason = "a failure fails the test")]

use std::collections::BTreeMap;
use std::ops::Range;

use zico_tests::cases;
use zico_tests::schedules::{Kind, Setup, run_setup};

/// Runs those of the seeds that are wanted, on two threads, and panics if one fails. The calls that
/// waited on the host.
fn all_pass(seeds: Range<u64>, wanted: impl Fn(&Setup) -> bool + Sync) -> u64 {
    let half = |odd: u64| {
        let (mut runs, mut interrupted) = (0_u32, 0);
        let mut found = BTreeMap::<Kind, (u32, u64, String)>::new();
        for seed in seeds.clone().filter(|seed| seed % 8 / 4 == odd) {
            let setup = Setup::draw(seed, 2..=8);
            if !wanted(&setup) {
                continue;
            }
            runs += 1;
            match run_setup(&setup, None) {
                Ok(outcome) => interrupted += outcome.interrupted,
                Err(failure) => {
                    let text = failure.to_string();
                    found.entry(failure.kind).or_insert((0, seed, text)).0 += 1;
                }
            }
        }
        (runs, found, interrupted)
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        (half(0), other.join())
    });
    let Ok(other) = other else { panic!("a thread of the test panicked") };
    let mut text = String::new();
    for (kind, (count, seed, first)) in one.1.into_iter().chain(other.1) {
        text += &format!("\n{kind:?}: {count} runs, the first with seed {seed}\n{first}");
        text +=
            &format!("again: cargo run --release -p zico-tests --bin schedules -- --seed {seed}\n");
    }
    assert!(text.is_empty(), "of {} runs some failed:{text}", one.0 + other.0);
    assert!(one.0 + other.0 > 20, "nothing was run");
    one.2 + other.2
}

/// I4, I6 with a budget that lets each job finish beside what all others ever keep: all finish, and
/// nobody is told otherwise.
#[test]
fn all_programs_end_where_there_is_enough() {
    let interrupted = all_pass(0..cases(15_000).into(), |setup| setup.enough);
    assert!(interrupted > 0, "no iteration was interrupted");
}

/// I4, I6 with less than that: nobody waits for ever, somebody is told.
#[test]
fn nobody_waits_for_ever_where_there_is_not() {
    all_pass(0..cases(15_000).into(), |setup| !setup.enough);
}

/// The same of jobs that mark their iterations and keep nothing from one to the next.
#[test]
fn jobs_that_carry_nothing_end() {
    all_pass(0..u64::from(cases(2000)) * 100, Setup::is_plain);
}
