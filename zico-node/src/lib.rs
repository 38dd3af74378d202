//! One memory budget for several processes.

pub mod host;
