//! The arena as it was first: two sets of ranges in search trees. Slow and plain, it is what the
//! tests compare with.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use super::Fit;

/// How many places are compared when an arena grows.
const CANDIDATES: usize = 16;

/// All positions are offsets into the arena's range.
pub(super) struct Model {
    page_bytes: u64,
    /// The range's length.
    len: u64,
    /// Below this lies every block there has been; a multiple of the page size.
    top: u64,
    /// Free bytes below `top`, backed or not.
    free: Extents,
    /// Free bytes that are backed.
    pub(super) ready: Extents,
    /// Whether a page below `top` is backed.
    backed: Vec<bool>,
}

impl Model {
    pub(super) fn new(page_bytes: u64, len: u64) -> Self {
        Self {
            page_bytes,
            len,
            top: 0,
            free: Extents::default(),
            ready: Extents::default(),
            backed: Vec::new(),
        }
    }

    const fn fit(&self, size: u64, align: u64) -> Fit {
        Fit { size, align, page_shift: self.page_bytes.trailing_zeros() }
    }

    /// Places `size` bytes at a multiple of `align` where all is backed.
    pub(super) fn place(&mut self, size: u64, align: u64) -> Option<u64> {
        let fits = |(start, len)| self.fit(size, align).at(start, len);
        let at = self.ready.at_least(size).find_map(fits)?;
        self.free.remove(at, size);
        self.ready.remove(at, size);
        Some(at)
    }

    /// Where `size` bytes could go if more pages were backed, and which: the fewest, then the
    /// tightest place. None if the range is used up.
    pub(super) fn plan(&self, size: u64, align: u64) -> Option<Vec<u64>> {
        let inside = self
            .free
            .at_least(size)
            .filter_map(|(start, len)| self.fit(size, align).at(start, len));
        let last = self.free.ending_at(self.top).unwrap_or(self.top);
        let on_top = self.fit(size, align).at(last, self.len.checked_sub(last)?);
        let missing = |at| self.pages_of(at, size).filter(|&page| !self.is_backed(page));
        let at = inside.take(CANDIDATES).chain(on_top).min_by_key(|&at| missing(at).count())?;
        Some(missing(at).collect())
    }

    /// Takes over pages that have been backed.
    pub(super) fn back(&mut self, pages: &[u64]) {
        for &page in pages {
            let (start, end) = (page * self.page_bytes, (page + 1) * self.page_bytes);
            if end > self.top {
                self.free.add(self.top, end - self.top);
                self.top = end;
                self.backed.resize(self.pages_of(0, end).count(), false);
            }
            // Blocks lie only where all is backed, so the whole page is free.
            self.ready.add(start, self.page_bytes);
            self.set_backed(page, true);
        }
    }

    /// Takes back a block. Returns the pages that this left empty, which are backed no more.
    pub(super) fn free(&mut self, start: u64, size: u64) -> Range<u64> {
        self.free.add(start, size);
        let (start, len) = self.ready.add(start, size);
        let first = start.div_ceil(self.page_bytes);
        let last = (start + len) / self.page_bytes;
        if first >= last {
            return 0..0;
        }
        self.ready.clear(first * self.page_bytes, (last - first) * self.page_bytes);
        (first..last).for_each(|page| self.set_backed(page, false));
        first..last
    }

    fn pages_of(&self, at: u64, size: u64) -> Range<u64> {
        at / self.page_bytes..(at + size).div_ceil(self.page_bytes)
    }

    fn is_backed(&self, page: u64) -> bool {
        usize::try_from(page).is_ok_and(|page| self.backed.get(page) == Some(&true))
    }

    fn set_backed(&mut self, page: u64, on: bool) {
        if let Some(backed) = usize::try_from(page).ok().and_then(|page| self.backed.get_mut(page))
        {
            *backed = on;
        }
    }
}

/// Ranges of bytes, no two of which overlap or touch.
#[derive(Default)]
pub(super) struct Extents {
    /// Start to length.
    pub(super) by_start: BTreeMap<u64, u64>,
    /// (length, start).
    by_size: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// The ranges of at least `size` bytes as (start, length): the tightest first, ties by address.
    pub(super) fn at_least(&self, size: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_size.range((size, 0)..).map(|&(len, start)| (start, len))
    }

    /// The range that ends at `end`.
    pub(super) fn ending_at(&self, end: u64) -> Option<u64> {
        let (&start, &len) = self.by_start.range(..end).next_back()?;
        (start + len == end).then_some(start)
    }

    /// Adds a range that overlaps none, and joins it with those that touch it. Returns the result.
    pub(super) fn add(&mut self, mut start: u64, mut len: u64) -> (u64, u64) {
        if let Some(before) = self.ending_at(start) {
            len += self.drop_at(before);
            start = before;
        }
        len += self.drop_at(start + len);
        self.insert(start, len);
        (start, len)
    }

    /// Takes `len` bytes at `start` out. They lie within one range.
    pub(super) fn remove(&mut self, start: u64, len: u64) {
        let Some((&from, &whole)) = self.by_start.range(..=start).next_back() else { return };
        self.drop_at(from);
        self.insert(from, start - from);
        self.insert(start + len, (from + whole).saturating_sub(start + len));
    }

    /// Takes out all that lies in `len` bytes at `start`, in however many ranges.
    pub(super) fn clear(&mut self, start: u64, len: u64) {
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
