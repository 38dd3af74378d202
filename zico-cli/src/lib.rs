//! WIP

pub mod convert;
pub mod import;
