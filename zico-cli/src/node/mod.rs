//! One budget for several processes: the broker as a program, and what people ask it.

mod background;
mod books;
mod budget;
mod hold;
mod metrics;
mod place;
mod run;
mod serve;
mod status;
mod top;

use crate::args::NodeCommand;
use crate::broker_error::NodeError;
use crate::exit::Exit;
use crate::failure::Failure;

/// Runs one of these commands.
pub(crate) fn run(command: &NodeCommand) -> Result<Exit, Failure> {
    match command {
        NodeCommand::Serve(args) => serve::run(args),
        NodeCommand::Status(args) => status::run(args),
        NodeCommand::Budget(args) => budget::run(args),
        NodeCommand::Suspend(args) => hold::run(args, true),
        NodeCommand::Resume(args) => hold::run(args, false),
        NodeCommand::Top(args) => top::run(args),
        NodeCommand::Run(args) => run::run(args),
    }
}
