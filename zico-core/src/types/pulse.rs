//! What a job and the pool share without a lock.

use crate::types::sync::{AtomicU32, Ordering};
use crate::types::units::Progress;

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
