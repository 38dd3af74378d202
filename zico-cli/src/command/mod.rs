//! What the program's commands do.

mod budget;
pub(crate) mod compare;
mod comparison;
mod conditions;
pub(crate) mod convert;
pub(crate) mod devices;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod relief;
pub(crate) mod replay;
mod summary;

pub(crate) use compare::Tried;
pub(crate) use comparison::{Comparison, LEGEND, UnderBudget, UnderPolicy};
pub(crate) use summary::{JobSummary, Summary};
