//! Recomputation in stages, which planners share: units and items, timelines of runs, what is on
//! the host or encoded between two uses, and the schedule that comes of both; and DTR's runs, with
//! which ours begins where it has no others that fit.

pub(in crate::relief) mod crowd;
pub(in crate::relief) mod dtr;
pub(in crate::relief) mod problem;
pub(in crate::relief) mod sequence;
pub(in crate::relief) mod swap;
pub(in crate::relief) mod timeline;
