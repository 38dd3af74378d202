//! Errors of a job's blocks: memory cannot be had, a block cannot be freed or used.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::BrokerError;
use crate::types::report::Holder;
use crate::types::sync::Arc;
use crate::types::units::{Addr, Bytes, Ticks};

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
    /// What is on the host and has a right to come back: nobody else can have that for good.
    pub suspended: Bytes,
    /// What is nobody's. It may be refused all the same where granting it could leave all jobs
    /// waiting for each other.
    pub free: Bytes,
    /// It is not memory that is missing: the job's [pace](crate::Pool::set_pace) holds it up, for so
    /// long as things stand, or until it is given another one ([`Ticks::MAX`]).
    pub rest: Option<Ticks>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} asked {} ", self.job, self.asked)?;
        match self.rest {
            Some(Ticks::MAX) => return f.write_str("and is held up by a pace of none"),
            Some(rest) => return write!(f, "and is held up by its pace for {rest}"),
            None => {}
        }
        let or_away = if self.suspended.is_zero() { "" } else { ", or it is on the host" };
        if self.needed.is_zero() {
            write!(f, "(another call of this job is leasing memory just now{or_away})")?;
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
        )?;
        if self.suspended.is_zero() {
            return Ok(());
        }
        write!(f, ", {} to come back from the host", self.suspended)
    }
}

impl core::error::Error for Shortage {}

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

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; the largest block that fits as it is: {}",
            self.shortage, self.largest_free
        )?;
        for Holder { job, held, .. } in &self.holders {
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

impl core::error::Error for OutOfMemory {}

/// An allocation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError<E> {
    /// Not now: other jobs hold what is missing, or the device has yet to pass what was freed, or
    /// the job's pace holds it up ([`Shortage::rest`]). Ask again when the pool's generation has
    /// changed. A job that has been told so counts as one that
    /// waits for memory until it allocates or frees again: another may be out of memory meanwhile
    /// because nothing else can go on.
    Busy(Shortage),
    /// Never, as things stand: the job would need more than the budget leaves beside what the
    /// others keep, or all jobs wait for each other, what is there serves none of them, and nobody
    /// is more to blame than this one: first who exceeds its profile, then of whom nothing is
    /// known; of two, who takes more.
    OutOfMemory(Box<OutOfMemory>),
    /// The job would hold more than it may, whatever the others do.
    BeyondCap {
        /// The most that it may hold.
        cap: Bytes,
        /// What it asks for and what it has.
        shortage: Shortage,
    },
    /// The alignment is no power of two, or larger than a region; or the size cannot be
    /// represented.
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
    /// The job's memory is on the host: it has to [come back](crate::Job::resume) first.
    Suspended,
    /// The job has been made to leave ([`Pool::evict`](crate::Pool::evict)).
    Left,
    /// The device refused. Nothing has changed; the call can be repeated.
    Device(E),
    /// The broker cannot do its part. Nothing has changed; the call can be repeated.
    Broker(BrokerError),
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
            Self::Suspended => f.write_str("the job is suspended: it has to be resumed first"),
            Self::Left => f.write_str("the job has been made to leave"),
            Self::Device(error) => write!(f, "the device refused: {error}"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for AllocError<E> {}

/// A free was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FreeError {
    /// No block of this job begins at the address: freed before, or another job's.
    NotLive(Addr),
    /// Another block of this job begins at the address now; this handle's block has been freed.
    Stale(Addr),
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLive(at) => write!(f, "no block of this job begins at {at}"),
            Self::Stale(at) => write!(f, "the block at {at} has been freed before"),
        }
    }
}

impl core::error::Error for FreeError {}

/// A use of a block by another stream could not be noted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UseError<E> {
    /// The block is not live.
    Block(FreeError),
    /// The device refused to record an event on the stream. Nothing has changed.
    Device(E),
}

impl<E: fmt::Display> fmt::Display for UseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(error) => write!(f, "{error}"),
            Self::Device(error) => write!(f, "the device refused: {error}"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for UseError<E> {}
