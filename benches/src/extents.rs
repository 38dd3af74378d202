//! The parts common to the models: free bytes by address and by size, and a device that gives more.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Extent {
    pub(crate) fn new(start: u64, len: u64) -> Self {
        Self { start, len }
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// Free extents. No two of them touch: they are joined.
#[derive(Default)]
pub(crate) struct Free {
    by_start: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
}

impl Free {
    /// Adds an extent, joined with what it touches.
    pub(crate) fn add(&mut self, extent: Extent) {
        let before = self.ending_at(extent.start);
        let after = self.by_start.get(&extent.end()).map(|&len| Extent::new(extent.end(), len));
        let start = before.map_or(extent.start, |before| before.start);
        let end = after.map_or(extent.end(), |after| after.end());
        before.into_iter().chain(after).for_each(|neighbour| self.remove(neighbour));
        self.by_start.insert(start, end - start);
        self.by_len.insert((end - start, start));
    }

    /// Takes a free extent out as a whole.
    pub(crate) fn remove(&mut self, extent: Extent) {
        let known = self.by_len.remove(&(extent.len, extent.start));
        assert!(known, "{extent:?} is not free");
        self.by_start.remove(&extent.start);
    }

    /// Takes the first `len` bytes out of a free extent; the rest stays.
    pub(crate) fn split(&mut self, extent: Extent, len: u64) -> Extent {
        self.remove(extent);
        if extent.len > len {
            self.add(Extent::new(extent.start + len, extent.len - len));
        }
        Extent::new(extent.start, len)
    }

    /// The extents of at least `len` bytes, the smallest first, those of one size by address.
    pub(crate) fn at_least(&self, len: u64) -> impl Iterator<Item = Extent> {
        self.by_len.range((len, 0)..).map(|&(len, start)| Extent::new(start, len))
    }

    /// The best fit: the smallest of at least `len` bytes, at the lowest address.
    pub(crate) fn best(&self, len: u64) -> Option<Extent> {
        self.at_least(len).next()
    }

    /// The extent that ends at an address.
    pub(crate) fn ending_at(&self, end: u64) -> Option<Extent> {
        let (&start, &len) = self.by_start.range(..end).next_back()?;
        Some(Extent::new(start, len)).filter(|extent| extent.end() == end)
    }
}

/// A device whose memory comes in segments, as from `cudaMalloc`: at rising addresses, never next
/// to each other, so that nothing is ever joined across two of them.
#[derive(Default)]
pub(crate) struct Device {
    next: u64,
    held: u64,
}

impl Device {
    const GAP: u64 = 512;

    pub(crate) fn malloc(&mut self, len: u64) -> Extent {
        let segment = Extent::new(self.next, len);
        self.next = segment.end() + Self::GAP;
        self.held += len;
        segment
    }

    /// The bytes of all segments.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let mut free = Free::default();
        free.add(Extent::new(0, 10));
        free.add(Extent::new(20, 10));
        assert_eq!(free.best(11), None);
        free.add(Extent::new(10, 10));
        assert_eq!(free.best(11), Some(Extent::new(0, 30)));
        assert_eq!(free.ending_at(30), Some(Extent::new(0, 30)));
        assert_eq!(free.ending_at(20), None);
    }

    #[test]
    fn the_best_fit_is_the_smallest_and_then_the_lowest() {
        let mut free = Free::default();
        for (start, len) in [(0, 30), (100, 20), (200, 20), (300, 10)] {
            free.add(Extent::new(start, len));
        }
        assert_eq!(free.best(11), Some(Extent::new(100, 20)));
        let first = free.split(Extent::new(100, 20), 15);
        assert_eq!(first, Extent::new(100, 15));
        assert_eq!(free.best(11), Some(Extent::new(200, 20)));
        assert_eq!(free.best(5), Some(Extent::new(115, 5)));
    }

    #[test]
    fn segments_are_apart() {
        let mut device = Device::default();
        let mut free = Free::default();
        free.add(device.malloc(1024));
        free.add(device.malloc(1024));
        assert_eq!(free.best(1025), None);
        assert_eq!(device.held(), 2048);
    }
}
