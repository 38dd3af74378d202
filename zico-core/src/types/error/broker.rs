//! Errors of a pool whose books are in another process.

use core::fmt;

use crate::types::sync::Arc;

/// The broker, in whose process the books are, cannot do its part.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerError {
    /// It cannot be reached, and has not come back in time. What the job holds it keeps, and may go
    /// on with.
    Unreachable,
    /// It has answered what is no answer to what it was asked.
    Confused,
    /// There are as many jobs as there may be.
    TooManyJobs {
        /// How many.
        most: u32,
    },
    /// It could not get memory from the device, and why. The call can be repeated.
    Device(Arc<str>),
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("the broker cannot be reached"),
            Self::Confused => f.write_str("the broker has answered something else than was asked"),
            Self::TooManyJobs { most } => write!(f, "the broker lets in no more than {most} jobs"),
            Self::Device(why) => write!(f, "the broker got no memory from the device: {why}"),
        }
    }
}

impl core::error::Error for BrokerError {}
