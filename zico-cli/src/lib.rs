//! The program `zico`: replay recorded training jobs under one memory budget, look at traces, plan
//! their memory, and convert them.
//!
//! The program itself is thin ([`run`]); what it does is in the library, so that tests and other
//! programs can call it.

pub mod args;
mod command;
pub mod convert;
mod cuda;
mod failure;
pub mod import;
mod load;
mod output;
mod progress;
pub mod relief;
pub mod report;
pub mod size;
mod table;
mod terminal;
mod timed;

pub use failure::Failure;

use std::io::Write;
use std::process::ExitCode;

use args::{Args, Command};

/// What went on, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well: 0.
    Fine,
    /// The run saw a violation, or a job failed, or a plan does not fit: 1.
    Bad,
    /// Bad input, or something that cannot work: 2.
    Refused,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::Bad => Self::from(1),
            Exit::Refused => Self::from(2),
        }
    }
}

/// Does what the arguments say. A refusal is printed on standard error.
#[must_use]
pub fn run(args: &Args) -> Exit {
    let done = match &args.command {
        Command::Replay(replay) => command::replay::run(replay),
        Command::Compare(compare) => command::compare::run(compare),
        Command::Inspect(inspect) => command::inspect::run(inspect),
        Command::Plan(plan) => command::plan::run(plan),
        Command::Relief(relief) => command::relief::run(relief),
        Command::Convert(convert) => command::convert::run(convert),
        Command::Devices(devices) => command::devices::run(devices),
    };
    match done {
        Ok(exit) => exit,
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Fine,
        Err(failure) => {
            // Nobody is told where standard error is closed.
            let _ = writeln!(terminal::stderr(), "zico: {}", failure::chain(&failure));
            Exit::Refused
        }
    }
}
