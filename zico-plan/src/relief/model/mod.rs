//! The model: what an iteration does, what a schedule does with it, whether it may, and what none
//! can be faster than.

pub(in crate::relief) mod bound;
pub(in crate::relief) mod check;
pub(in crate::relief) mod graph;
pub(in crate::relief) mod kind;
pub(in crate::relief) mod schedule;
