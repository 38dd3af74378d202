//! Errors of a job's iterations.

use core::fmt;

use super::BrokerError;
use crate::types::sync::Arc;
use crate::types::units::Bytes;

/// An iteration cannot start.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeginError {
    /// The job's iterations, which were alike so far, cannot fit beside what the other jobs keep.
    NeverFits {
        /// The job that asks.
        job: Arc<str>,
        /// The peak of its iterations, persistent memory included.
        peak: Bytes,
        /// What the other jobs keep between their iterations.
        kept_by_others: Bytes,
        /// The budget.
        budget: Bytes,
    },
    /// The job's iterations need more than the job may hold.
    BeyondCap {
        /// The job that asks.
        job: Arc<str>,
        /// The peak of its iterations, persistent memory included.
        peak: Bytes,
        /// The most that it may hold.
        cap: Bytes,
    },
    /// The job is in an iteration already.
    AlreadyRunning,
    /// The job's memory is on the host: it has to [come back](crate::Job::resume) first. A
    /// [preemptible](crate::JobConfig::preemptible) job does so by itself: the device has refused
    /// that just now, and the call can be repeated.
    Suspended,
    /// The job has been made to leave ([`Pool::evict`](crate::Pool::evict)).
    Left,
    /// The broker cannot do its part.
    Broker(BrokerError),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverFits { job, peak, kept_by_others, budget } => write!(
                f,
                "{job} needs {peak} at its peak and the other jobs keep {kept_by_others}: that \
                 cannot fit in a budget of {budget}"
            ),
            Self::BeyondCap { job, peak, cap } => {
                write!(f, "{job} needs {peak} at its peak and may hold no more than {cap}")
            }
            Self::AlreadyRunning => f.write_str("the job is in an iteration already"),
            Self::Suspended => f.write_str("the job is suspended: it has to be resumed first"),
            Self::Left => f.write_str("the job has been made to leave"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BeginError {}

/// An iteration was to end that has not begun.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning;

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job is in no iteration")
    }
}

impl core::error::Error for NotRunning {}
