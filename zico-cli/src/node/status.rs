//! `zico status`

use std::io::Write;
use std::path::Path;

use zico_core::{BudgetStatus, Bytes, JobSnapshot};

use super::books::{Books, BooksJson, sentence, word};
use super::{NodeError, place};
use crate::args::Status;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::table;
use crate::terminal::{line, stdout};

/// Shows what a broker's jobs hold, and who waits.
pub(crate) fn run(args: &Status) -> Result<Exit, Failure> {
    let (socket, broker) = place::find(args.place.socket.as_deref())?;
    let books = Books::of(&broker).map_err(NodeError::Broker)?;
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&BooksJson::from(&books))?)?;
    } else {
        print(&mut out, &socket, &books)?;
    }
    Ok(Exit::Fine)
}

fn print(out: &mut impl Write, socket: &Path, books: &Books) -> Result<(), Failure> {
    let Books { device, region, pool, budget, waits } = books;
    writeln!(out, "{device} at {}, in regions of {region}", socket.display())?;
    writeln!(out, "{}", budget_line(*budget))?;
    if !pool.free.is_zero() {
        writeln!(out, "{} of it are nobody's at the moment", pool.free)?;
    }
    if pool.jobs.is_empty() {
        writeln!(out, "No jobs.")?;
        return Ok(());
    }
    let columns = ["job", "does", "holds", "kept", "draining", "peak", "claim", "iterations"];
    let mut jobs = table(&columns);
    for job in &pool.jobs {
        jobs.add_row(row(job));
    }
    writeln!(out, "\n{jobs}")?;
    if !waits.is_empty() {
        writeln!(out)?;
    }
    for waiting in waits {
        writeln!(out, "{}", line(&sentence(waiting)))?;
    }
    Ok(())
}

fn row(job: &JobSnapshot) -> [String; 8] {
    let bytes = |bytes: Bytes| bytes.to_string();
    [
        job.name.to_string(),
        word(job.activity).to_owned(),
        bytes(job.held.total()),
        bytes(job.held.persistent),
        bytes(job.held.draining),
        bytes(job.held.peak),
        job.claim.map_or_else(|| "unknown".to_owned(), bytes),
        job.iterations.to_string(),
    ]
}

/// The budget, and how far it is from being kept to.
pub(super) fn budget_line(status: BudgetStatus) -> String {
    let BudgetStatus { target, held, pending } = status;
    let held = format!("The budget is {target}; {held} of the device are held");
    if pending.is_zero() {
        return held + ".";
    }
    format!("{held}. Pending: up to {pending} more than the budget, until jobs give them back.")
}
