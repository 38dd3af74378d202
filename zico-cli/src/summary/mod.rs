//! The figures of a replay, a comparison and a plan: as JSON for scripts, as tables for people.

mod comparison;
mod conditions;
mod plan;
mod replay;

pub(crate) use comparison::{Comparison, LEGEND, Tried, UnderBudget, UnderPolicy};
pub(crate) use plan::{BaselineHeight, PlanSummary};
pub(crate) use replay::{JobSummary, ReplaySummary};
