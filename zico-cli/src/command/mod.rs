//! What the program's commands do.

pub(crate) mod convert;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod replay;
mod summary;

pub(crate) use summary::{JobSummary, Summary};
