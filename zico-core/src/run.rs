//! A job's iteration as it runs: whether it may start, how far it has come, what it waits for.

use crate::profile::Recorder;
use crate::sync::{AtomicU32, Ordering};
use crate::units::{Progress, Ticks};

/// What a job and the pool share without a lock: the job's progress, how far it may come before
/// a waiting job wants to be looked at again, and whether some of what it holds will come back by itself.
pub(crate) struct Pulse {
    progress: AtomicU32,
    watch: AtomicU32,
    /// Blocks that have been freed and wait for other streams.
    parked: AtomicU32,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU32::new(0);
        Self { progress: zero(), watch: AtomicU32::new(u32::MAX), parked: zero() }
    }

    /// One more operation. Whether somebody waits for the job to have come this far. Only under the lock
    /// of the job's memory: that is what makes a load and a store one step.
    #[inline]
    pub(crate) fn tick(&self) -> bool {
        // Progress counts up to its largest value and stays there.
        let progress = self.progress.load(Ordering::Relaxed).saturating_add(1);
        self.progress.store(progress, Ordering::Relaxed);
        progress >= self.watch.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.progress.load(Ordering::Relaxed))
    }

    /// An iteration begins. Under the same lock.
    pub(crate) fn restart(&self) {
        self.progress.store(0, Ordering::Relaxed);
    }

    /// A block waits for other streams.
    pub(crate) fn park(&self) {
        self.parked.fetch_add(1, Ordering::Relaxed);
    }

    /// It does so no longer.
    pub(crate) fn release(&self) {
        self.parked.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether some block does.
    pub(crate) fn has_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn watch(&self, progress: Progress) {
        self.watch.store(progress.value(), Ordering::Relaxed);
    }
}

/// A running iteration.
pub(crate) struct Run {
    pub(crate) began: Ticks,
    /// Time spent waiting for memory, the current wait left out.
    pub(crate) stalled: Ticks,
    /// Regions of iteration lifetime held when it began: it is not expected to give those back.
    pub(crate) carried: u32,
    /// Regions that persisted when it began, and those leased since that the job said would.
    pub(crate) persisted: u32,
    pub(crate) told: u32,
    /// The most regions that were leased while it ran.
    pub(crate) total: u32,
    /// By how many regions it has held more than its profile had promised from there on.
    pub(crate) exceeded: u32,
    pub(crate) recorder: Recorder,
}

pub(crate) enum Phase {
    /// Between iterations.
    Idle,
    /// Has asked to start; how long that is expected to take, if the profiles tell.
    Waiting(Option<Ticks>),
    /// May start, and has not yet been told.
    Admitted,
    Running(Run),
}

impl Run {
    /// Time since the iteration's start, waits for memory left out.
    pub(crate) fn elapsed(&self, now: Ticks, stall: Option<&Stall>) -> Ticks {
        stall
            .map_or(now, |stall| stall.since.min(now))
            .saturating_sub(self.began)
            .saturating_sub(self.stalled)
    }
}

/// A job was denied memory and has had none since, in an iteration or between two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    pub(crate) since: Ticks,
    /// The ledger's epoch when it was last denied.
    pub(crate) epoch: u64,
    /// What it asked for, in regions.
    pub(crate) asked: u32,
    /// How far the job had come. One that has come further does without.
    pub(crate) at: Progress,
    /// Iterations of other jobs that have begun since.
    pub(crate) passed_over: u32,
}
