//! Errors of a pool as a whole: it cannot be made, its budget cannot be, a job cannot join.

use core::fmt;

use super::{BrokerError, Exact};
use crate::types::units::Bytes;

/// A pool could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError<E> {
    /// The budget cannot be.
    Budget(BudgetError),
    /// The device's granularity is no power of two: its contract asks for one.
    Granularity {
        /// The granularity.
        granularity: Bytes,
    },
    /// The size of a region is no power of two, or less than the device's granularity.
    RegionSize {
        /// The size asked for.
        region: Bytes,
        /// The device's granularity.
        granularity: Bytes,
    },
    /// The device refused.
    Device(E),
}

impl<E: fmt::Display> fmt::Display for PoolError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget(error) => error.fmt(f),
            Self::Granularity { granularity } => write!(
                f,
                "the device's granularity of {granularity} is no power of two: the backend breaks \
                 the contract"
            ),
            Self::RegionSize { region, granularity } => write!(
                f,
                "a region of {region} is no power of two, or smaller than the device's granularity \
                 of {granularity}"
            ),
            Self::Device(error) => write!(f, "the device refused: {error}"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for PoolError<E> {}

/// A budget that cannot be. One that was in force stays.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetError {
    /// Less than what the jobs keep between iterations, and what is reserved for them.
    BelowPersistent {
        /// The budget asked for.
        asked: Bytes,
        /// What the jobs keep.
        kept: Bytes,
    },
    /// Not even one region.
    TooSmall {
        /// The budget asked for.
        asked: Bytes,
        /// The size of a region.
        region: Bytes,
    },
    /// More than the device has.
    BeyondDevice {
        /// The budget asked for.
        asked: Bytes,
        /// The device's memory.
        capacity: Bytes,
    },
    /// More regions than the books can hold.
    TooManyRegions {
        /// How many.
        count: u64,
        /// The size of a region.
        region: Bytes,
        /// The most there can be.
        most: u64,
    },
    /// The budget is at a broker that another user runs.
    NotTheOwner,
    /// A broker has yet to hear what the jobs of the one before it keep: until then its budget is
    /// not lowered.
    Recovering,
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BelowPersistent { asked, kept } => {
                write!(f, "a budget of {asked} is less than the {kept} that the jobs keep")
            }
            Self::TooSmall { asked, region } => {
                write!(f, "a budget of {} holds no region of {region}", Exact(*asked))
            }
            Self::NotTheOwner => {
                f.write_str("only the user who runs the broker may change its budget")
            }
            Self::Recovering => f.write_str(
                "the broker has just started and has yet to hear what the jobs hold: try again soon",
            ),
            Self::BeyondDevice { asked, capacity } => {
                let (asked, capacity) = (Exact(*asked), Exact(*capacity));
                write!(f, "a budget of {asked} is more than the device's {capacity}")
            }
            Self::TooManyRegions { count, region, most } => {
                write!(f, "{count} regions of {region} are more than {most}: use larger regions")
            }
        }
    }
}

impl core::error::Error for BudgetError {}

/// A job could not join.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError<E> {
    /// Less may be held than is to be reserved, in whole regions.
    FloorBeyondCap {
        /// What is to be reserved.
        floor: Bytes,
        /// The most that the job may hold.
        cap: Bytes,
    },
    /// What is to be reserved cannot be taken from the jobs that are there: they keep it, need it
    /// for their iterations, or hold so much just now that they might all come to wait. In the last
    /// case it helps to try again when an iteration has ended.
    FloorNotFree {
        /// What is to be reserved.
        floor: Bytes,
        /// The budget.
        budget: Bytes,
    },
    /// The job is [preemptible](crate::JobConfig::preemptible) or
    /// [interruptible](crate::JobConfig::interruptible), and the device has no
    /// [host tier](crate::HostTier).
    NotPreemptible,
    /// The device refused.
    Device(E),
    /// The broker cannot do its part.
    Broker(BrokerError),
}

impl<E: fmt::Display> fmt::Display for JoinError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FloorBeyondCap { floor, cap } => {
                write!(f, "a floor of {floor} is more than a cap of {cap}, in whole regions")
            }
            Self::FloorNotFree { floor, budget } => write!(
                f,
                "the jobs that are there leave no {floor} to reserve in a budget of {budget}"
            ),
            Self::NotPreemptible => {
                f.write_str("no job is preemptible or interruptible here: its memory cannot be taken to the host")
            }
            Self::Device(error) => write!(f, "the device refused: {error}"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for JoinError<E> {}
