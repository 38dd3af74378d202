//! `zico budget`

use std::io::Write;

use super::books::BudgetJson;
use super::status::budget_line;
use super::{NodeError, place};
use crate::args::BudgetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::stdout;

/// Changes a broker's budget, and shows how far it is in force.
pub(crate) fn run(args: &BudgetArgs) -> Result<Exit, Failure> {
    let (_, broker) = place::find(args.place.socket.as_deref())?;
    let status = match args.budget {
        None => broker.budget().map_err(NodeError::Broker)?,
        Some(budget) => {
            let changed = broker.set_budget(budget).map_err(NodeError::Broker)?;
            changed.map_err(NodeError::Budget)?
        }
    };
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&BudgetJson::from(status))?)?;
    } else {
        writeln!(out, "{}", budget_line(status))?;
    }
    Ok(Exit::Fine)
}
