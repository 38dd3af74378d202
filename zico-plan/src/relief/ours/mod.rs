//! Our planners: recomputation alone, and all means together.

mod ascent;
mod cover;
mod gaps;
mod hidden;
mod improve;
pub(in crate::relief) mod joint;
mod local;
mod others;
pub(in crate::relief) mod recompute;
pub(in crate::relief) mod search;
mod waits;
