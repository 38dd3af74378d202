//! Counts a job's blocks and their bytes.

use crate::types::stats::{Counter, Stats};
use crate::types::units::Bytes;

/// What the figures of a job's blocks follow from: as little as an allocation and a free can count.
#[derive(Default)]
pub(crate) struct Tally {
    requested: Quantity,
    allocated: Quantity,
    /// Freed, while other streams may still use it.
    parked: Bytes,
    /// The most that was allocated or parked at a time when anything was parked.
    active_peak: Bytes,
}

/// The bytes that there are, the most at one time, and all that there have been.
#[derive(Default)]
struct Quantity {
    current: Bytes,
    peak: Bytes,
    all: Bytes,
}

impl Tally {
    #[inline]
    pub(crate) fn place(&mut self, requested: Bytes, size: Bytes) {
        self.requested.add(requested);
        self.allocated.add(size);
        // While nothing is parked it is what is allocated, whose peak is known.
        if !self.parked.is_zero() {
            self.note_active();
        }
    }

    #[cold]
    fn note_active(&mut self) {
        let active = self.allocated.current.saturating_add(self.parked);
        self.active_peak = self.active_peak.at_least(active);
    }

    #[inline]
    pub(crate) fn free(&mut self, requested: Bytes, size: Bytes) {
        self.requested.sub(requested);
        self.allocated.sub(size);
    }

    pub(crate) fn park(&mut self, size: Bytes) {
        self.parked = self.parked.saturating_add(size);
    }

    pub(crate) fn release(&mut self, size: Bytes) {
        self.parked = self.parked.saturating_sub(size);
    }

    /// What is allocated now.
    pub(crate) const fn allocated(&self) -> Bytes {
        self.allocated.current
    }

    /// All but what is reserved, which is not the blocks' to know.
    pub(crate) fn stats(&self) -> Stats {
        let active = Quantity {
            current: self.allocated.current.saturating_add(self.parked),
            peak: self.active_peak.at_least(self.allocated.peak),
            all: self.allocated.all,
        };
        Stats {
            requested: self.requested.counter(),
            allocated: self.allocated.counter(),
            active: active.counter(),
            reserved: Counter::default(),
        }
    }
}

impl Quantity {
    #[inline]
    fn add(&mut self, bytes: Bytes) {
        self.all = self.all.saturating_add(bytes);
        self.current = self.current.saturating_add(bytes);
        self.peak = self.peak.at_least(self.current);
    }

    #[inline]
    fn sub(&mut self, bytes: Bytes) {
        self.current = self.current.saturating_sub(bytes);
    }

    fn counter(&self) -> Counter {
        let Self { current, peak, all } = *self;
        Counter { current, peak, allocated: all, freed: all.saturating_sub(current) }
    }
}
