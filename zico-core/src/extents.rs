//! A set of disjoint address ranges that finds the tightest one, in O(log n).

use alloc::collections::{BTreeMap, BTreeSet};

/// Ranges of bytes, no two of which overlap or touch.
#[derive(Default)]
pub(crate) struct Extents {
    /// Start to length.
    by_start: BTreeMap<u64, u64>,
    /// (length, start).
    by_size: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// The ranges of at least `size` bytes as (start, length): the tightest first, ties by address.
    pub(crate) fn at_least(&self, size: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_size.range((size, 0)..).map(|&(len, start)| (start, len))
    }

    /// The range that ends at `end`.
    pub(crate) fn ending_at(&self, end: u64) -> Option<u64> {
        let (&start, &len) = self.by_start.range(..end).next_back()?;
        (start + len == end).then_some(start)
    }

    /// Adds a range that overlaps none, and joins it with those that touch it. Returns the result.
    pub(crate) fn add(&mut self, mut start: u64, mut len: u64) -> (u64, u64) {
        if let Some(before) = self.ending_at(start) {
            len += self.drop_at(before);
            start = before;
        }
        len += self.drop_at(start + len);
        self.insert(start, len);
        (start, len)
    }

    /// Takes `len` bytes at `start` out. They lie within one range.
    pub(crate) fn remove(&mut self, start: u64, len: u64) {
        let Some((&from, &whole)) = self.by_start.range(..=start).next_back() else { return };
        self.drop_at(from);
        self.insert(from, start - from);
        self.insert(start + len, (from + whole).saturating_sub(start + len));
    }

    /// Takes out all that lies in `len` bytes at `start`, in however many ranges.
    pub(crate) fn clear(&mut self, start: u64, len: u64) {
        let end = start + len;
        while let Some((&from, &whole)) = self.by_start.range(..end).next_back() {
            let first = from.max(start);
            let last = (from + whole).min(end);
            if first >= last {
                return;
            }
            self.remove(first, last - first);
        }
    }

    fn drop_at(&mut self, start: u64) -> u64 {
        let Some(len) = self.by_start.remove(&start) else { return 0 };
        self.by_size.remove(&(len, start));
        len
    }

    fn insert(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.by_start.insert(start, len);
            self.by_size.insert((len, start));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn all(extents: &Extents) -> Vec<(u64, u64)> {
        assert_eq!(extents.by_start.len(), extents.by_size.len());
        assert!(
            extents.by_start.iter().all(|(&start, &len)| extents.by_size.contains(&(len, start)))
        );
        extents.by_start.iter().map(|(&start, &len)| (start, len)).collect()
    }

    #[test]
    fn neighbours_join_and_parts_come_out() {
        let mut extents = Extents::default();
        extents.add(0, 10);
        extents.add(20, 10);
        assert_eq!(all(&extents), [(0, 10), (20, 10)]);
        assert_eq!(extents.add(10, 10), (0, 30));
        extents.remove(5, 5);
        assert_eq!(all(&extents), [(0, 5), (10, 20)]);
        extents.clear(3, 20);
        assert_eq!(all(&extents), [(0, 3), (23, 7)]);
        extents.clear(0, 100);
        assert_eq!(all(&extents), []);
    }

    #[test]
    fn the_tightest_comes_first_and_then_the_lowest() {
        let mut extents = Extents::default();
        for (start, len) in [(0, 8), (100, 4), (200, 4), (300, 6)] {
            extents.add(start, len);
        }
        let found: Vec<_> = extents.at_least(3).collect();
        assert_eq!(found, [(100, 4), (200, 4), (300, 6), (0, 8)]);
        assert_eq!(extents.at_least(7).next(), Some((0, 8)));
        assert_eq!(extents.ending_at(204), Some(200));
        assert_eq!(extents.ending_at(203), None);
    }
}
