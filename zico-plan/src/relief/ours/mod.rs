//! Our planners: recomputation alone, and all means together.

pub(in crate::relief) mod ascent;
pub(in crate::relief) mod improve;
pub(in crate::relief) mod joint;
pub(in crate::relief) mod recompute;
pub(in crate::relief) mod search;
