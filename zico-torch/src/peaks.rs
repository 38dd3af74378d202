//! The most that a job's blocks have taken, since it joined or since somebody asked to count anew.

use std::sync::atomic::{AtomicU64, Ordering};

/// One quantity: what it is, and the most that it was.
#[derive(Default)]
struct Level {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Level {
    fn add(&self, by: u64) {
        let now = self.now.fetch_add(by, Ordering::Relaxed).saturating_add(by);
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn sub(&self, by: u64) {
        self.now.fetch_sub(by, Ordering::Relaxed);
    }

    fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// What is added meanwhile counts.
    fn reset(&self) {
        self.peak.store(0, Ordering::Relaxed);
        self.peak.fetch_max(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The unit of a block's size: as zico's core rounds up.
const ALIGNMENT: u64 = 512;

/// The peaks of a job's blocks. Each operation is O(1) and takes no lock.
#[derive(Default)]
pub(crate) struct Peaks {
    requested: Level,
    allocated: Level,
    blocks: Level,
    /// What the most reserved was when it was counted anew; 0 if it never was.
    reserved_before: AtomicU64,
}

impl Peaks {
    pub(crate) fn add(&self, bytes: u64) {
        self.requested.add(bytes);
        self.allocated.add(bytes.saturating_add(ALIGNMENT - 1) & !(ALIGNMENT - 1));
        self.blocks.add(1);
    }

    pub(crate) fn sub(&self, bytes: u64) {
        self.requested.sub(bytes);
        self.allocated.sub(bytes.saturating_add(ALIGNMENT - 1) & !(ALIGNMENT - 1));
        self.blocks.sub(1);
    }

    /// Counts anew. `reserved` is the most that has ever been reserved.
    pub(crate) fn reset(&self, reserved: u64) {
        self.requested.reset();
        self.allocated.reset();
        self.blocks.reset();
        self.reserved_before.store(reserved, Ordering::Relaxed);
    }

    /// The most that was requested, as asked for.
    pub(crate) fn requested(&self) -> u64 {
        self.requested.peak()
    }

    /// The most that was allocated, rounded up.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated.peak()
    }

    /// The most blocks that were live.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.peak()
    }

    /// The most that was reserved, from what is now and what it ever was. A peak lower than one
    /// from before it was counted anew is not seen. Then it is what is known of it: what is
    /// reserved now, and what blocks have taken.
    pub(crate) fn reserved(&self, now: u64, ever: u64) -> u64 {
        if ever > self.reserved_before.load(Ordering::Relaxed) {
            return ever;
        }
        now.max(self.allocated()).min(ever)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_since_they_were_reset() {
        let peaks = Peaks::default();
        peaks.add(1000);
        peaks.add(100);
        peaks.sub(1000);
        assert_eq!((peaks.requested(), peaks.allocated()), (1100, 1536));
        assert_eq!(peaks.reserved(2 << 20, 4 << 20), 4 << 20);
        assert_eq!(peaks.blocks(), 2);
        peaks.reset(4 << 20);
        assert_eq!(peaks.blocks(), 1);
        assert_eq!((peaks.requested(), peaks.allocated()), (100, 512));
        peaks.add(1);
        assert_eq!((peaks.requested(), peaks.allocated()), (101, 1024));
        assert_eq!(peaks.reserved(2 << 20, 4 << 20), 2 << 20, "no more than is known");
        assert_eq!(peaks.reserved(2 << 20, 6 << 20), 6 << 20, "it has risen above that before");
    }
}
