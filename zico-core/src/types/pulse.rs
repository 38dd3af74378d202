//! What a job and the books share without a lock.

use core::ops::Deref;

use crate::types::sync::{Arc, AtomicU32, Ordering};
use crate::types::units::Progress;

/// What a job and the books share without a lock: the job's progress, how far it may come before a
/// waiting job wants to be looked at again, and whether some of what it holds comes back by itself.
///
/// Four words of four bytes, so that it can lie in memory that a broker's process shares with the
/// job's. There the job's process writes all words but the second, which the broker writes; each
/// side takes what it reads for a hint of the other's, and no promise of the pool depends on it.
#[derive(Debug)]
#[repr(C)]
pub struct Pulse {
    progress: AtomicU32,
    watch: AtomicU32,
    /// Blocks that have been freed and wait for other streams.
    parked: AtomicU32,
    /// Iterations that have begun: which one the progress is of. Wraps.
    begun: AtomicU32,
}

/// A [`Pulse`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The job's progress.
    pub progress: Progress,
    /// Blocks that have been freed and wait for other streams.
    pub parked: u32,
    /// The iteration that the progress is of: how many have begun. Wraps.
    pub begun: u32,
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new()
    }
}

impl Pulse {
    /// Of a job that has done nothing.
    #[cfg(not(zico_loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            progress: AtomicU32::new(0),
            watch: AtomicU32::new(u32::MAX),
            parked: AtomicU32::new(0),
            begun: AtomicU32::new(0),
        }
    }

    /// The same. The model checker's atomics cannot be made in a constant.
    #[cfg(zico_loom)]
    #[must_use]
    pub fn new() -> Self {
        let [progress, watch, parked, begun] = [0, u32::MAX, 0, 0].map(AtomicU32::new);
        Self { progress, watch, parked, begun }
    }

    /// One more operation. Whether somebody waits for the job to have come this far. Only under the
    /// lock of the job's memory: that is what makes a load and a store one step.
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
        let begun = self.begun.load(Ordering::Relaxed).wrapping_add(1);
        // Whoever sees the number sees a progress of this iteration.
        self.begun.store(begun, Ordering::Release);
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

    /// The progress from which on the job is to tell that it has come so far.
    pub fn watch(&self, progress: Progress) {
        self.watch.store(progress.value(), Ordering::Relaxed);
    }

    /// The progress that it [watches](Self::watch) for.
    #[must_use]
    pub fn watched(&self) -> Progress {
        Progress::new(self.watch.load(Ordering::Relaxed))
    }

    /// What the job has written.
    #[must_use]
    pub fn read(&self) -> Reading {
        let begun = self.begun.load(Ordering::Acquire);
        let parked = self.parked.load(Ordering::Relaxed);
        Reading { progress: self.progress(), parked, begun }
    }

    /// Takes over what was read of a job's own pulse, if it is of the iteration that the books
    /// know.
    pub(crate) fn take(&self, read: Reading) {
        let progress = if read.begun == self.begun.load(Ordering::Relaxed) {
            read.progress
        } else {
            Progress::ZERO
        };
        self.progress.store(progress.value(), Ordering::Relaxed);
        self.parked.store(read.parked, Ordering::Relaxed);
    }

    /// Forgets what another job has left there.
    pub fn reset(&self) {
        self.watch(Progress::MAX);
        for word in [&self.progress, &self.parked, &self.begun] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// A job's pulse: the job's own, or one that lies in memory shared with a broker.
#[derive(Clone)]
pub(crate) enum SharedPulse {
    Own(Arc<Pulse>),
    Page(&'static Pulse),
}

impl Deref for SharedPulse {
    type Target = Pulse;

    #[inline]
    fn deref(&self) -> &Pulse {
        match self {
            Self::Own(pulse) => pulse,
            Self::Page(pulse) => pulse,
        }
    }
}
