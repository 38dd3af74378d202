//! What a job's process asks the broker for, and what it is told.
//!
//! Each request and reply stands for one call of the ledger. How they travel, and as which bytes,
//! is the business of who carries them ([`Link`](crate::broker::Link)).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::learn::profile::Step;
use crate::types::JobId;
use crate::types::config::JobConfig;
use crate::types::error::{
    BeginError, BudgetError, NotRunning, NotSuspended, OutOfMemory, Shortage,
};
use crate::types::lifetime::Lifetime;
use crate::types::pace::Pace;
use crate::types::report::{Begin, BudgetStatus, JobSnapshot, Snapshot};
use crate::types::sync::Arc;
use crate::types::units::{Bytes, Progress, Ticks};
use crate::types::waits::Waiting;
use crate::types::want::{Told, Want};

/// What a job's process tells or asks the broker.
///
/// Those that [ask](Self::asks) are answered with one [`Reply`]; the others are not. All of one
/// client are to arrive in the order in which they were sent.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// A job is to join: [`Reply::Joined`].
    Join(JobConfig),
    /// An iteration is to start, of this shape if that is known: [`Reply::Begun`].
    Begin(Option<u64>),
    /// The job does not want to start any more.
    Withdraw,
    /// The iteration has ended: [`Reply::Ended`].
    End {
        /// What it has been.
        seen: Seen,
        /// It has ended because the next one is about to begin.
        is_followed: bool,
    },
    /// The running iteration has made 2^`power` allocations.
    Recognise {
        /// The power of two.
        power: u32,
        /// The hash of their sizes.
        hash: u64,
    },
    /// Nobody knows any more where the running iteration ends.
    Lose,
    /// The job has come as far as its [pulse](crate::broker::Pulse::watch) asks to be told of.
    Reached,
    /// The job has freed what one of its own threads has waited for.
    Freed,
    /// Iterations of a kind are to be placed as planned: [`Reply::Whether`].
    Replan {
        /// The shape that the job told.
        shape: Option<u64>,
        /// Their allocations.
        seen: Seen,
        /// The most regions that the plan takes.
        regions: u32,
        /// Without those of blocks that outlive the iteration.
        within: u32,
        /// The most regions during the first 1, 2, 4 allocations and so on.
        starts: Vec<u32>,
    },
    /// Pages are to be backed: [`Reply::Granted`] or [`Reply::Refused`].
    Lease(Lease),
    /// How far the device has come with the work order of the last lease: in order, so many
    /// mappings that had to go have gone, and so many regions have been mapped.
    Settle {
        /// Mappings that have gone.
        unmapped: u32,
        /// Regions that have been mapped.
        mapped: u32,
    },
    /// Pages that an arena has emptied, in program order.
    GiveBack(Lifetime, Vec<u64>),
    /// What has been given back so far is a batch of this number, and fenced. Numbers rise.
    Fence(u64),
    /// The device has completed this batch and all before it.
    Completed(u64),
    /// The job leaves: all it has drains.
    Leave,
    /// The job, which has left, has no mapping any more.
    Departed,
    /// Whether so many regions can ever be had: [`Reply::Refused`], or [`Reply::Whether`] (true).
    Fits {
        /// The bytes asked for.
        asked: Bytes,
        /// In regions.
        regions: u64,
    },
    /// Who has what, for a request of so many bytes that cannot be met now: [`Reply::Short`].
    Shortage(Bytes),
    /// The same in full: [`Reply::Refused`].
    OutOfMemory(Bytes),
    /// Whether the running iteration may be taken to have ended: [`Reply::Whether`].
    MayTurn,
    /// The job in the books: [`Reply::Job`].
    Job,
    /// What its iterations are expected to take: [`Reply::Profile`].
    Profile,
    /// The whole of the books: [`Reply::Pool`].
    Pool,
    /// Who waits, and for whom: [`Reply::Waits`].
    Waits,
    /// Another budget: [`Reply::Budget`] or [`Reply::NoBudget`].
    SetBudget(Bytes),
    /// A job that takes turns is to go to the host and stay there, or no longer:
    /// [`Reply::Suspended`].
    Hold {
        /// The job.
        job: JobId,
        /// It is to stay there.
        held: bool,
    },
    /// How far the budget is from what it is to be: [`Reply::Budget`].
    Budget,
    /// The client has no mapping of a region's memory any more, nor a handle of it.
    Released(u32),
    /// A job goes on at a new broker, under the number that it had at the one before:
    /// [`Reply::Joined`].
    Rejoin(JobId, JobConfig),
    /// What such a job has: [`Reply::Whether`]. Not, if somebody else has some of it.
    Offer(Vec<Offered>),
    /// That is all. Whether an iteration runs.
    Resume {
        /// It does.
        runs: bool,
        /// What it is expected to take at most, in regions beside what persists, if that was known
        /// when it began.
        claim: Option<u32>,
    },
    /// The job is to have this pace, or none: [`Reply::Whether`].
    SetPace(Option<Pace>),
    /// The job, which runs no iteration, begins to go to the host: [`Reply::Suspended`]. It has what
    /// it had until that is [sent](Self::Send). When the last of it is, it [is gone](Self::Gone). If
    /// nothing goes, it is [back](Self::Back).
    Suspend,
    /// The contents of these pages are on the host, or the copies of them are enqueued: they drain.
    /// So with pages that have been backed for a return and could not be filled again.
    Send(Lifetime, Vec<u64>),
    /// All that goes to the host has been sent.
    Gone,
    /// A job on the host asks to come back, or asks again: [`Reply::Whether`].
    Return,
    /// Pages of a job that may come back are to be backed: [`Reply::Granted`], with nothing ahead,
    /// or [`Reply::Whether`] (false) if there are no regions for them yet.
    LeaseBack(Lifetime, Vec<u64>),
    /// All of the job is on the device again.
    Back,
    /// A job that was to give way cannot: others wait for it no longer.
    Spare,
    /// What a job that goes on at a new broker has on the host.
    Away {
        /// Regions, by the lifetime of their blocks.
        regions: Vec<(Lifetime, u32)>,
        /// It is still on its way there.
        goes: bool,
    },
}

/// A region that a job has, which goes on at a new broker.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Which region.
    pub region: u32,
    /// The arena and the page where it is mapped, if it is.
    pub at: Option<(Lifetime, u64)>,
    /// What it has it for.
    pub usage: Usage,
}

/// What a job has a region for.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It is leased for the page where it is mapped.
    Leased,
    /// It has been given back, and the device has yet to complete that.
    Draining,
    /// For nothing: it is mapped there from before.
    Idle,
    /// It has been given back there, and leased or given back at another page since. The device has
    /// yet to complete what used it at this page, and until then it stays mapped there.
    Passing,
}

/// The allocations of an iteration: how many, and the hash of their sizes in order.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How many.
    pub allocations: u32,
    /// The hash.
    pub hash: u64,
}

/// Pages that a job asks to be backed.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// In the arena of this lifetime.
    pub lifetime: Lifetime,
    /// Which pages.
    pub pages: Vec<u64>,
    /// A plan has chosen the place.
    pub planned: bool,
    /// What the block asks for, for people to read.
    pub asked: Bytes,
    /// What is known of how long the block lives.
    pub told: Told,
    /// It has been refused a moment ago: this is the last try before the job waits.
    pub last: bool,
}

impl Lease {
    pub(crate) fn new(want: &Want, last: bool) -> Self {
        let Want { zone, ref pages, planned, asked, told } = *want;
        Self { lifetime: zone.lifetime(), pages: pages.clone(), planned, asked, told, last }
    }

    pub(crate) fn want(self) -> (Want, bool) {
        let Self { lifetime, pages, planned, asked, told, last } = self;
        (Want { zone: lifetime.into(), pages, planned, asked, told }, last)
    }
}

impl Request {
    /// Whether it is answered.
    #[must_use]
    pub const fn asks(&self) -> bool {
        !matches!(
            self,
            Self::Withdraw
                | Self::Recognise { .. }
                | Self::Lose
                | Self::Reached
                | Self::Freed
                | Self::Settle { .. }
                | Self::GiveBack(..)
                | Self::Fence(_)
                | Self::Completed(_)
                | Self::Leave
                | Self::Departed
                | Self::Released(_)
                | Self::Resume { .. }
                | Self::Gone
                | Self::Send(..)
                | Self::Back
                | Self::Spare
                | Self::Away { .. }
        )
    }
}

/// The answer to a [`Request`].
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The job has joined.
    Joined(JobId),
    /// It has not: what is to be reserved for it cannot be taken from the jobs that are there.
    FloorNotFree {
        /// What is to be reserved.
        floor: Bytes,
        /// The budget.
        budget: Bytes,
    },
    /// It has not: the client, or the broker, has as many jobs as it may have.
    TooManyJobs(u32),
    /// To [`Request::Begin`]. With what the iteration is expected to take at most, in regions
    /// beside what persists, if that is known: for [another broker](Request::Resume), if it comes
    /// to that.
    Begun(Result<Begin, BeginError>, Option<u32>),
    /// To [`Request::End`].
    Ended(Result<(), NotRunning>),
    /// What a yes-or-no question comes to.
    Whether(bool),
    /// The lease is granted, and this is what the client's device has to do for it.
    Granted(Order),
    /// It is not.
    Refused(Refusal),
    /// To [`Request::Shortage`].
    Short(Shortage),
    /// To [`Request::Job`]; none if it has gone.
    Job(Option<Box<JobSnapshot>>),
    /// To [`Request::Profile`].
    Profile(Option<Outline>),
    /// To [`Request::Pool`].
    Pool(Snapshot),
    /// To [`Request::Waits`].
    Waits(Vec<Waiting>),
    /// To [`Request::SetBudget`] and [`Request::Budget`].
    Budget(BudgetStatus),
    /// To [`Request::Suspend`] and [`Request::Hold`].
    Suspended(Result<(), NotSuspended>),
    /// The budget cannot be, and why; the old one stays.
    NoBudget(BudgetError),
}

/// The client's part of a work order: what its device has to do for a lease, in this order. It is
/// to be [settled](Request::Settle), unless there is nothing in it.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Pages of the job that are to be unmapped: the lifetime of the arena, the page.
    pub unmap: Vec<(Lifetime, u64)>,
    /// Pages of the arena that the lease is for, and the region to be mapped there, by rising
    /// pages.
    pub map: Vec<(u64, u32)>,
    /// Pages of the same arena that are leased as well, since the job is about to need them. They
    /// are mapped.
    pub ahead: Vec<u64>,
}

/// Why a lease is refused.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Other jobs or the device have to go on first.
    Busy(Shortage),
    /// It can never be granted.
    Never(Box<OutOfMemory>),
    /// The job may not hold that much: its cap.
    BeyondCap(Shortage, Bytes),
    /// The broker could not get memory from the device, and why.
    Device(Arc<str>),
    /// The job has been made to leave.
    Left,
}

/// A profile on its way: its steps, the operations and the length of the iteration.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The steps.
    pub steps: Vec<Step>,
    /// Operations of an iteration.
    pub operations: Progress,
    /// Its length.
    pub length: Ticks,
}

/// What the broker tells a client unasked.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Something has changed that a waiting job may have waited for.
    Changed,
    /// Somebody waits, or nobody does any more: while somebody does, what has been given back is to
    /// be fenced, and what the device completes is to be told, without delay.
    Pressure(bool),
    /// The memory of a region is to go: its mappings are to be taken away and the handle dropped,
    /// which is to be [told](Request::Released).
    Release(u32),
    /// A preemptible job is to be taken to the host as soon as it runs no iteration, or no longer:
    /// others wait for its room. What keeps it here is to be [told](Request::Spare).
    GiveWay(JobId, bool),
}
