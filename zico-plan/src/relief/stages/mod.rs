//! Recomputation in stages, which planners share: units and items, timelines of runs, what is on
//! the host or encoded between two uses, and the schedule that comes of both.

pub(in crate::relief) mod crowd;
pub(in crate::relief) mod problem;
pub(in crate::relief) mod sequence;
pub(in crate::relief) mod swap;
pub(in crate::relief) mod timeline;
