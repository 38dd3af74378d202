//! What can go wrong, grouped by what the caller can do about it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::types::report::Held;
use crate::types::sync::Arc;
use crate::types::units::{Addr, Bytes};

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
    /// The device cannot map one piece of memory at several addresses
    /// ([`Features::ALIASES`](crate::Features::ALIASES)), which a pool needs.
    NoAliases,
    /// The device refused.
    Device(E),
}

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
    /// What is to be reserved cannot be taken from the jobs that are there: they keep it, need it for
    /// their iterations, or hold so much just now that they might all come to wait. In the last case
    /// it helps to try again when an iteration has ended.
    FloorNotFree {
        /// What is to be reserved.
        floor: Bytes,
        /// The budget.
        budget: Bytes,
    },
    /// The device refused.
    Device(E),
    /// The broker cannot do its part.
    Broker(BrokerError),
}

/// Why memory cannot be had: what was asked for, and who has it.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// The job that asks.
    pub job: Arc<str>,
    /// The bytes asked for.
    pub asked: Bytes,
    /// What has to be leased for them: whole regions, beside what the job has leased as it is. None
    /// while another thread of the job leases.
    pub needed: Bytes,
    /// The budget.
    pub budget: Bytes,
    /// What the job itself has leased.
    pub held: Bytes,
    /// What other jobs have leased.
    pub held_by_others: Bytes,
    /// How many other jobs have leased something.
    pub other_jobs: u32,
    /// What has been given up and waits for the device to pass it.
    pub draining: Bytes,
    /// What is nobody's. It may be refused all the same where granting it could leave all jobs
    /// waiting for each other.
    pub free: Bytes,
}

/// One job's part in an [`OutOfMemory`].
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The job.
    pub job: Arc<str>,
    /// What is charged to it.
    pub held: Held,
}

/// Why memory cannot be had, in full.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// What was asked for, and what there is.
    pub shortage: Shortage,
    /// Who holds what, the largest first.
    pub holders: Vec<Holder>,
    /// The largest block that would fit in what the job has leased for that lifetime.
    pub largest_free: Bytes,
    /// By how much the budget is too small for this, with all jobs as they are; none if it is not,
    /// and waiting could only go on for ever.
    pub missing: Bytes,
}

/// An allocation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError<E> {
    /// Not now: other jobs hold what is missing, or the device has yet to pass what was freed. Ask
    /// again when the pool's generation has changed. A job that has been told so counts as one that waits
    /// for memory until it allocates or frees again: another may be out of memory meanwhile because nothing
    /// else can go on.
    Busy(Shortage),
    /// Never, as things stand: the job would need more than the budget leaves beside what the
    /// others keep, or all jobs wait for each other, what is there serves none of them, and nobody is more
    /// to blame than this one: first who exceeds its profile, then of whom nothing is known.
    OutOfMemory(Box<OutOfMemory>),
    /// The job would hold more than it may, whatever the others do.
    BeyondCap {
        /// The most that it may hold.
        cap: Bytes,
        /// What it asks for and what it has.
        shortage: Shortage,
    },
    /// The alignment is no power of two, or larger than a region; or the size cannot be represented.
    Invalid {
        /// The bytes asked for.
        bytes: Bytes,
        /// The alignment asked for.
        align: Bytes,
        /// The largest alignment there is.
        region: Bytes,
    },
    /// The job's range of addresses for this lifetime is used up: twice the device's memory, so its
    /// blocks are scattered beyond measure.
    OutOfAddresses {
        /// The bytes asked for.
        bytes: Bytes,
        /// The length of the range.
        range: Bytes,
    },
    /// The job has been made to leave ([`Pool::evict`](crate::Pool::evict)).
    Left,
    /// The device refused. Nothing has changed; the call can be repeated.
    Device(E),
    /// The broker cannot do its part. Nothing has changed; the call can be repeated.
    Broker(BrokerError),
}

/// The broker, in whose process the books are, cannot do its part.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerError {
    /// It cannot be reached, and has not come back in time. What the job holds it keeps, and may go on
    /// with.
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

/// A free was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FreeError {
    /// No block of this job begins at the address: freed before, or another job's.
    NotLive(Addr),
    /// Another block of this job begins at the address now; this handle's block has been freed.
    Stale(Addr),
}

/// A use of a block by another stream could not be noted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UseError<E> {
    /// The block is not live.
    Block(FreeError),
    /// The device refused to record an event on the stream. Nothing has changed.
    Device(E),
}

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
    /// The job has been made to leave ([`Pool::evict`](crate::Pool::evict)).
    Left,
    /// The broker cannot do its part.
    Broker(BrokerError),
}

/// An iteration was to end that has not begun.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning;

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

impl<E: fmt::Display> fmt::Display for PoolError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget(error) => error.fmt(f),
            Self::NoAliases => {
                f.write_str("the device cannot map one piece of memory at several addresses")
            }
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
            Self::Device(error) => write!(f, "the device refused: {error}"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} asked {} ", self.job, self.asked)?;
        if self.needed.is_zero() {
            f.write_str("(another call of this job is leasing memory just now)")?;
        } else {
            write!(f, "(needs {} more)", self.needed)?;
        }
        write!(
            f,
            ", budget {}, held {} itself and {} by {} other {}, {} draining, {} free",
            self.budget,
            self.held,
            self.held_by_others,
            self.other_jobs,
            if self.other_jobs == 1 { "job" } else { "jobs" },
            self.draining,
            self.free,
        )
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; the largest block that fits as it is: {}",
            self.shortage, self.largest_free
        )?;
        for Holder { job, held } in &self.holders {
            write!(
                f,
                "; {job} holds {} ({} persistent, {} draining)",
                held.total(),
                held.persistent,
                held.draining
            )?;
        }
        if self.missing.is_zero() {
            f.write_str("; all jobs wait for each other, and none is more to blame than this one")
        } else {
            write!(f, "; a budget larger by {} would do", self.missing)
        }
    }
}

impl<E: fmt::Display> fmt::Display for AllocError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(shortage) => write!(f, "no memory now: {shortage}"),
            Self::OutOfMemory(why) => write!(f, "out of memory: {why}"),
            Self::BeyondCap { cap, shortage } => {
                write!(f, "beyond the job's cap of {cap}: {shortage}")
            }
            Self::Invalid { bytes, align, region }
                if align.value().is_power_of_two() && align <= region =>
            {
                write!(f, "cannot allocate {bytes}: no address space is that large")
            }
            Self::Invalid { bytes, align, region } => write!(
                f,
                "cannot allocate {bytes} aligned to {align}: the alignment has to be a power of two \
                 up to {region}"
            ),
            Self::OutOfAddresses { bytes, range } => {
                write!(f, "no place for {bytes} in a range of {range}")
            }
            Self::Left => f.write_str("the job has been made to leave"),
            Self::Device(error) => write!(f, "the device refused: {error}"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLive(at) => write!(f, "no block of this job begins at {at}"),
            Self::Stale(at) => write!(f, "the block at {at} has been freed before"),
        }
    }
}

impl<E: fmt::Display> fmt::Display for UseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(error) => write!(f, "{error}"),
            Self::Device(error) => write!(f, "the device refused: {error}"),
        }
    }
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
            Self::Left => f.write_str("the job has been made to leave"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job is in no iteration")
    }
}

impl<E: core::error::Error + 'static> core::error::Error for PoolError<E> {}
impl<E: core::error::Error + 'static> core::error::Error for JoinError<E> {}
impl<E: core::error::Error + 'static> core::error::Error for AllocError<E> {}
impl core::error::Error for Shortage {}
impl core::error::Error for OutOfMemory {}
impl core::error::Error for FreeError {}
impl<E: core::error::Error + 'static> core::error::Error for UseError<E> {}
impl core::error::Error for BeginError {}
impl core::error::Error for NotRunning {}
