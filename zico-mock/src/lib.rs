//! WIP

pub mod trace;
