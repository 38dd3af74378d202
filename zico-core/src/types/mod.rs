//! Words: quantities, configuration, requests, errors and reports. They use nothing else.

pub(crate) mod block;
pub(crate) mod config;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod lifetime;
pub(crate) mod pulse;
pub(crate) mod report;
pub(crate) mod stats;
pub(crate) mod sync;
pub(crate) mod units;
pub(crate) mod waits;
pub(crate) mod want;
pub(crate) mod zone;

/// Names a job within its pool. Never used twice.
pub(crate) type JobKey = u64;
