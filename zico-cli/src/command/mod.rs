//! The program's commands, a module each.

mod budget;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod devices;
pub(crate) mod inspect;
pub(crate) mod plan;
mod priorities;
pub(crate) mod relief;
pub(crate) mod replay;
