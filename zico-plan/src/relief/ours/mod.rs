//! Our planners: recomputation alone, all means together, what comes of them in addresses, and
//! budgets as a curve.

pub(in crate::relief) mod addresses;
mod ascent;
pub(in crate::relief) mod curve;
mod hidden;
mod improve;
pub(in crate::relief) mod joint;
pub(in crate::relief) mod recompute;
pub(in crate::relief) mod search;
