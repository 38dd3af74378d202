//! The figures of a replay, a comparison, a plan and of relief: as JSON for scripts, as tables for
//! people.

mod comparison;
mod conditions;
mod plan;
mod relief;
mod replay;

pub(crate) use comparison::{Comparison, LEGEND, Tried, UnderBudget, UnderPolicy};
pub(crate) use plan::{BaselineHeight, PlanSummary};
pub(crate) use relief::{
    HEADER as RELIEF_HEADER, LEGEND as RELIEF_LEGEND, Planned, ReliefRow, ReliefSummary,
};
pub(crate) use replay::{JobSummary, ReliefOfReplay, ReplaySummary};
