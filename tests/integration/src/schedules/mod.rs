//! Liveness: random schedules of jobs with finite programs, under a budget that is known to suffice
//! or known not to.
//!
//! A seed draws two to eight jobs, each with a program (`script`): some mark their iterations,
//! whose ends may be the begins of the next ones, some have them detected, some have none; blocks
//! are carried from one iteration to the next and freed there before or after their successors are
//! made, by another thread, or never; jobs leave in mid-iteration, stay and become idle for good,
//! have floors and caps, declare their needs or do not, give lifetimes or have them learned, are
//! held to a pace, go to the host and come back, let their iterations be interrupted; streams take
//! no events for a while; the budget changes. One thread lets a random job go on at a time, in
//! virtual time (`run`). A job that has been told to wait asks again when the pool's generation has
//! changed, as its documentation says, and not before.
//!
//! *Enough*: the budget lets each job finish while all others keep what they ever keep between
//! iterations (`bound`). Then all programs have to finish. No job may be refused memory, except one
//! whose iteration takes more than any before while others run as well: the pool could not know
//! that.
//!
//! *Short*: a smaller budget. Then jobs that cannot go on have to be refused, and leave.
//!
//! In both cases nothing may hang, no stream may use another's memory, and in the end all memory
//! comes back. This checks I1, I3, I4, I6 and I8.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod bound;
mod calls;
mod run;
mod script;
mod setup;
mod suspend;
mod verdict;

use std::ops::RangeInclusive;

pub use bound::Most;
pub use run::Outcome;
pub use script::{Ending, Marks, Op, Script};
pub use setup::Setup;

use crate::seeds;

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All jobs wait, nothing will ever happen, and no job has been refused.
    Hang,
    /// The same, and the memory they wait for is held by a job that is idle for good.
    HangOnIdle,
    /// A lost wake-up: a job that asks again is served, although the generation has not changed.
    NotWoken,
    /// The budget suffices, and a job has been refused memory.
    Told,
    /// A job has been refused memory within its floor.
    Floor,
    /// A job has got an error of another job's stream.
    Device,
    /// The oracle has seen two owners of a byte, or memory in use that is not there.
    Violation,
    /// The pool holds more than the budget.
    Budget,
    /// Memory is left when all jobs have left.
    Leftover,
    /// The jobs have taken more steps than their programs have.
    Endless,
    /// The pool panicked.
    Panic,
}

/// A run that broke a promise.
pub type Failure = crate::seeds::Failure<Kind>;

/// Runs what a seed draws.
///
/// # Errors
/// If a promise is broken.
pub fn run(seed: u64, jobs: RangeInclusive<usize>) -> Result<Outcome, Failure> {
    run_setup(&Setup::draw(seed, jobs), None)
}

/// Runs a setup, and writes down each call if there is something to write to.
///
/// # Errors
/// If a promise is broken.
pub fn run_setup(setup: &Setup, trace: Option<&mut Vec<String>>) -> Result<Outcome, Failure> {
    seeds::caught(Kind::Panic, || run::run(setup, trace))
}

/// The smallest part of a setup's jobs that is found to fail in the same way, and how.
#[must_use]
pub fn shrink(setup: &Setup, kind: Kind) -> Setup {
    let mut smallest = setup.clone();
    loop {
        let smaller = smallest.smaller().into_iter().find(
            |smaller| matches!(run_setup(smaller, None), Err(failure) if failure.kind == kind),
        );
        match smaller {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}
