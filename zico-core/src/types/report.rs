//! What a pool holds and for whom, for people and for reports.

use alloc::vec::Vec;
use core::fmt;

use crate::types::JobId;
use crate::types::stats::Stats;
use crate::types::sync::Arc;
use crate::types::units::{Bytes, Progress, Ticks};

/// What is charged to one job, in whole regions.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Leased for persistent blocks.
    pub persistent: Bytes,
    /// Leased for the iteration's blocks, and for all that a plan places.
    pub iteration: Bytes,
    /// Given up, and not yet passed by the device.
    pub draining: Bytes,
    /// The most that has been charged to the job at one time.
    pub peak: Bytes,
    /// The most that it has leased at one time: without what was draining, which depends on the
    /// device's pace, it is the same whoever runs beside it.
    pub peak_leased: Bytes,
}

impl Held {
    /// All of it now.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.persistent.saturating_add(self.iteration).saturating_add(self.draining)
    }
}

/// What a job does.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Nothing: it is between iterations.
    #[default]
    Idle,
    /// Waits for its iteration to start.
    Waiting,
    /// Runs an iteration.
    Running,
    /// Waits for memory within an iteration.
    Stalled,
    /// What it has is on the host, or on its way there or back.
    Suspended,
    /// Has left, and the device has yet to pass what it held.
    Left,
}

/// How a job's plans serve it.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planning {
    /// Kinds of iteration that are planned.
    pub plans: usize,
    /// Of the plan that was followed last: the end of its highest block.
    pub height: Bytes,
    /// The most bytes that its blocks come to at one moment. No plan is lower.
    pub lower_bound: Bytes,
    /// Allocations that were placed as planned.
    pub placed: u64,
    /// Iterations that were no longer as planned from some allocation on.
    pub departed: u64,
}

/// A job that holds memory.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Which job.
    pub id: JobId,
    /// Its name.
    pub job: Arc<str>,
    /// What it does.
    pub activity: Activity,
    /// What is charged to it.
    pub held: Held,
}

/// One job's figures at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct JobSnapshot {
    /// Which job it is.
    pub id: JobId,
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub activity: Activity,
    /// What is charged to it.
    pub held: Held,
    /// Its blocks in figures.
    pub stats: Stats,
    /// Leased, and no block's: what is left of regions that have one.
    pub stranded: Bytes,
    /// The largest block that would fit in what it has leased.
    pub largest_free: Bytes,
    /// How its plans serve it.
    pub planning: Planning,
    /// Iterations that have ended.
    pub iterations: u64,
    /// The allocations and frees of the running iteration so far.
    pub progress: Progress,
    /// The most that its iteration is taken to hold from now to its end, beside what persists: what
    /// recent iterations took, and a margin of what they have exceeded that by. Between iterations:
    /// of the next one. None while nothing is known.
    pub claim: Option<Bytes>,
}

/// What has happened in a pool since it was made.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Leases granted.
    pub leases: u64,
    /// Regions in all of them together.
    pub leased: u64,
    /// Leases denied, for now or for good.
    pub denied: u64,
    /// Device calls that created physical memory.
    pub creates: u64,
    /// Device calls that destroyed some.
    pub destroys: u64,
    /// Device calls that mapped a region.
    pub maps: u64,
    /// Device calls that unmapped one.
    pub unmaps: u64,
    /// Fences recorded.
    pub fences: u64,
}

/// A pool's books at one moment.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What the pool may hold at most.
    pub budget: Bytes,
    /// What it holds: the regions created on the device.
    pub held: Bytes,
    /// Created, and nobody's.
    pub free: Bytes,
    /// What has happened since the pool was made.
    pub counts: Counts,
    /// The jobs, in the order in which they joined.
    pub jobs: Vec<JobSnapshot>,
}

impl fmt::Display for Snapshot {
    /// A line for the pool and a table of the jobs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { leases, leased, denied, creates, destroys, maps, unmaps, fences } =
            self.counts;
        let unused = self.budget.saturating_sub(self.held);
        writeln!(
            f,
            "budget {}: {} of the device, {} of that nobody's; {unused} not taken",
            self.budget, self.held, self.free
        )?;
        writeln!(
            f,
            "{leases} leases of {leased} regions, {denied} denied; device calls: {creates} create, \
             {destroys} destroy, {maps} map, {unmaps} unmap, {fences} record"
        )?;
        let width = self.jobs.iter().map(|job| job.name.chars().count()).max().unwrap_or(0).max(4);
        write!(f, "{:<width$}  {:<8} {:>10}", "job", "does", "iterations")?;
        for column in COLUMNS {
            write!(f, " {column:>12}")?;
        }
        writeln!(f)?;
        for job in &self.jobs {
            let activity = alloc::format!("{:?}", job.activity);
            write!(f, "{:<width$}  {activity:<8} {:>10}", job.name, job.iterations)?;
            for bytes in job.columns() {
                write!(f, " {:>12}", alloc::format!("{bytes}"))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

const COLUMNS: [&str; 8] = [
    "persistent",
    "iteration",
    "draining",
    "peak",
    "allocated",
    "requested",
    "stranded",
    "largest free",
];

impl JobSnapshot {
    /// Of a job of which nothing is known: it has left.
    pub(crate) fn gone(id: JobId) -> Self {
        Self {
            id,
            name: "".into(),
            activity: Activity::Left,
            held: Held::default(),
            stats: Stats::default(),
            stranded: Bytes::ZERO,
            largest_free: Bytes::ZERO,
            planning: Planning::default(),
            iterations: 0,
            progress: Progress::ZERO,
            claim: None,
        }
    }

    fn columns(&self) -> [Bytes; COLUMNS.len()] {
        let Held { persistent, iteration, draining, peak, .. } = self.held;
        let (allocated, requested) = (self.stats.allocated.current, self.stats.requested.current);
        let (stranded, largest) = (self.stranded, self.largest_free);
        [persistent, iteration, draining, peak, allocated, requested, stranded, largest]
    }
}

/// The answer to a job that asks to start an iteration.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an iteration that has to wait has not begun"]
pub enum Begin {
    /// The iteration has begun.
    Started,
    /// Not yet: ask again when the pool's generation has changed. The delay is what the profiles
    /// promise, in time of the running iterations, or how long the job's
    /// [pace](crate::Pool::set_pace) holds it up as things stand; none if it depends on when one
    /// ends, or on when a job that is between iterations frees what it holds:
    /// [`Pool::waits`](crate::Pool::waits) says which.
    Wait(Option<Ticks>),
}

/// What becomes of a block when its job goes to the host
/// ([`Job::suspend_with`](crate::Job::suspend_with)).
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnSuspend {
    /// Its contents are lost: its memory goes without a copy, and has anything in it when it comes
    /// back. For what can be made again.
    Discard,
    /// Its contents are copied to the host and back.
    #[default]
    Copy,
    /// It stays where it is, and can be used meanwhile. With it stays all that lies in the same
    /// pages.
    Keep,
}

/// The answer to a job that asks to come back from the host.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a job that has to wait has not come back"]
pub enum Resume {
    /// All its memory is at its addresses again, for work that is enqueued on its stream from now
    /// on.
    Done,
    /// Not yet: ask again when the pool's generation has changed.
    Wait,
}

/// How far a pool's budget is from what it is to be.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStatus {
    /// What the budget is to be: whole regions.
    pub target: Bytes,
    /// What the pool holds of the device now.
    pub held: Bytes,
    /// By how much more than the target the pool may still hold: because it does, or because
    /// iterations that run were promised it. It never grows until the budget is changed again;
    /// none once the target has been reached.
    pub pending: Bytes,
}

/// How sure it is where a job's iterations begin.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detected {
    /// An iteration makes so many allocations.
    pub period: u32,
    /// For so many periods in a row each allocation has had the size of the one a period before.
    pub repeats: u64,
}
