//! Why something could not be done, by what the caller can do about it.

mod broker;
mod iteration;
mod memory;
mod pool;
mod suspend;

use core::fmt;

use crate::types::units::Bytes;

pub use broker::BrokerError;
pub use iteration::{BeginError, NotRunning};
pub use memory::{AllocError, FreeError, OutOfMemory, Shortage, UseError};
pub use pool::{BudgetError, JoinError, PoolError};
pub use suspend::{NoTicket, NotSuspended, ResumeError, SuspendError};

/// To the byte, where two that are compared might look the same.
pub(crate) struct Exact(pub(crate) Bytes);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = self;
        match bytes.value() {
            odd if odd % 1024 != 0 => write!(f, "{odd} B"),
            _ => write!(f, "{bytes}"),
        }
    }
}
