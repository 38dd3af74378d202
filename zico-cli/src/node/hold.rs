//! `zico suspend` and `zico resume`

use std::io::Write;

use super::{NodeError, place};
use crate::args::HoldArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::stdout;

/// Has the jobs of a name go to the host and stay there, or come back.
pub(crate) fn run(args: &HoldArgs, held: bool) -> Result<Exit, Failure> {
    let (_, broker) = place::find(args.place.socket.as_deref())?;
    let jobs = broker.snapshot().map_err(NodeError::Broker)?.jobs;
    let named: Vec<_> = jobs.iter().filter(|job| *job.name == *args.job).collect();
    if named.is_empty() {
        let names = jobs.iter().map(|job| job.name.to_string()).collect();
        return Err(NodeError::NoJob { name: args.job.clone(), names }.into());
    }
    for job in named {
        let done = broker.hold(job.id, held).map_err(NodeError::Broker)?;
        done.map_err(|why| NodeError::Hold { name: args.job.clone(), why })?;
    }
    let (name, mut out) = (&args.job, stdout());
    match held {
        true => writeln!(out, "{name} goes to the host when its iteration has ended")?,
        false => writeln!(out, "{name} comes back as soon as there is room")?,
    }
    Ok(Exit::Fine)
}
