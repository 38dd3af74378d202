//! Words: quantities, configuration, requests, errors and reports. They use nothing else.

use core::fmt;

pub(crate) mod block;
pub(crate) mod config;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod lifetime;
pub(crate) mod pace;
pub(crate) mod pulse;
pub(crate) mod refused;
pub(crate) mod report;
pub(crate) mod stats;
pub(crate) mod sync;
pub(crate) mod tuning;
pub(crate) mod units;
pub(crate) mod waits;
pub(crate) mod want;
pub(crate) mod zone;

/// Names a job within its pool. Never used twice.
pub(crate) type JobKey = u64;

/// Which job of a pool. No two jobs of a pool ever have the same; in another pool it means nothing.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(crate) JobKey);

impl JobId {
    /// The job of this number, as it is displayed: what a person or another process has written
    /// down. It need not be there.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
