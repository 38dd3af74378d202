//! WIP

pub mod bundled;
pub mod trace;
