//! The program `zico`: replay recorded training jobs under one memory budget, look at traces, plan
//! their memory, and convert them.
//!
//! The program itself is thin ([`run`]); what it does is in the library, so that tests and other
//! programs can call it.

pub mod args;
#[cfg(target_os = "linux")]
mod broker_error;
mod command;
pub mod convert;
mod exit;
mod failure;
pub mod import;
mod live;
mod load;
#[cfg(target_os = "linux")]
mod node;
mod output;
mod progress;
pub mod relief;
pub mod report;
pub mod size;
mod summary;
mod table;
mod terminal;
mod timed;

#[cfg(target_os = "linux")]
pub use broker_error::NodeError;
pub use exit::Exit;
pub use failure::Failure;

use std::io::Write;

use args::{Args, Command};

/// Runs the command in the arguments. A refusal is printed on standard error.
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
        #[cfg(target_os = "linux")]
        Command::ReplayJob => live::run_worker(),
        #[cfg(target_os = "linux")]
        Command::Node(node) => node::run(node),
    };
    match done {
        Ok(exit) => exit,
        // The reader of the output has closed it.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Fine,
        Err(failure) => {
            // Standard error may be closed.
            let _ = writeln!(terminal::stderr(), "zico: {}", failure::chain(&failure));
            Exit::Refused
        }
    }
}
