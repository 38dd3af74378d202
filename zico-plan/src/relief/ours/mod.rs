//! Our planners: recomputation alone, and all means together.

mod ascent;
mod hidden;
mod improve;
pub(in crate::relief) mod joint;
mod others;
pub(in crate::relief) mod recompute;
pub(in crate::relief) mod search;
mod waits;
