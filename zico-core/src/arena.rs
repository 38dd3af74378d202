//! One job's memory of one lifetime: places blocks in an address range of its own.
//!
//! The range is much larger than what is ever backed; region-sized pages of it are backed by regions
//! that the pool leases. Because the addresses are the arena's alone, where a block goes depends on
//! the job's own allocations only, never on what other jobs do: an iteration that repeats gets the
//! same addresses and needs the same number of regions each time. That is what makes a job's claim
//! on the budget known.
//!
//! Placement is exact best fit, ties to the lowest address: first among free bytes that are backed,
//! else where the fewest pages have to be leased. When a free leaves whole pages empty they go back
//! at once: that is the memory that other jobs can have.

use alloc::vec::Vec;
use core::ops::Range;

use crate::extents::Extents;
use crate::units::Bytes;

/// Every block's size is rounded up to a multiple of this, and every address is one.
pub(crate) const GRANULE: u64 = 512;

/// How many places are compared when an arena grows.
const CANDIDATES: usize = 16;

/// All positions are offsets into the arena's range.
pub(crate) struct Arena {
    page_bytes: u64,
    /// The range's length.
    len: u64,
    /// Below this lies every block there has been; a multiple of the page size.
    top: u64,
    /// Free bytes below `top`, backed or not.
    free: Extents,
    /// Free bytes that are backed.
    ready: Extents,
    /// Whether a page below `top` is backed.
    backed: Vec<bool>,
}

impl Arena {
    pub(crate) fn new(page_bytes: u64, len: u64) -> Self {
        Self {
            page_bytes,
            len,
            top: 0,
            free: Extents::default(),
            ready: Extents::default(),
            backed: Vec::new(),
        }
    }

    /// The length of the arena's range.
    pub(crate) fn len(&self) -> Bytes {
        Bytes::new(self.len)
    }

    /// Places `size` bytes at a multiple of `align` where all is backed.
    pub(crate) fn place(&mut self, size: u64, align: u64) -> Option<u64> {
        let fits = |(start, len)| aligned(start, len, size, align);
        let at = self.ready.at_least(size).find_map(fits)?;
        self.free.remove(at, size);
        self.ready.remove(at, size);
        Some(at)
    }

    /// Where `size` bytes could go if more pages were backed, and which: the fewest, then the
    /// tightest place. None if the range is used up.
    pub(crate) fn plan(&self, size: u64, align: u64) -> Option<Vec<u64>> {
        let inside =
            self.free.at_least(size).filter_map(|(start, len)| aligned(start, len, size, align));
        let last = self.free.ending_at(self.top).unwrap_or(self.top);
        let on_top = aligned(last, self.len.checked_sub(last)?, size, align);
        let missing = |at| self.pages_of(at, size).filter(|&page| !self.is_backed(page));
        let at = inside.take(CANDIDATES).chain(on_top).min_by_key(|&at| missing(at).count())?;
        Some(missing(at).collect())
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, pages: &[u64]) {
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
    pub(crate) fn free(&mut self, start: u64, size: u64) -> Range<u64> {
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

/// The lowest multiple of `align` in a range at which `size` bytes fit.
fn aligned(start: u64, len: u64, size: u64, align: u64) -> Option<u64> {
    let at = start.checked_next_multiple_of(align)?;
    (at.checked_add(size)? <= start.checked_add(len)?).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 1 << 21;

    /// Grows where needed, as a job does.
    fn put(arena: &mut Arena, size: u64) -> (u64, usize) {
        if let Some(at) = arena.place(size, GRANULE) {
            return (at, 0);
        }
        let pages = arena.plan(size, GRANULE).unwrap();
        arena.back(&pages);
        (arena.place(size, GRANULE).unwrap(), pages.len())
    }

    #[test]
    fn blocks_share_pages_and_empty_pages_go_back() {
        let mut arena = Arena::new(PAGE, 100 * PAGE);
        assert_eq!(put(&mut arena, 3 * PAGE / 2), (0, 2));
        assert_eq!(
            put(&mut arena, 3 * PAGE / 2),
            (3 * PAGE / 2, 1),
            "it starts in a page half used"
        );
        assert_eq!(arena.free(0, 3 * PAGE / 2), 0..1, "the shared page stays");
        assert_eq!(
            put(&mut arena, PAGE / 2),
            (PAGE, 0),
            "the rest of the shared page is used first"
        );
        assert_eq!(put(&mut arena, PAGE), (0, 1), "the hole is filled before the arena grows");
        assert_eq!(arena.free(3 * PAGE / 2, 3 * PAGE / 2), 2..3);
        assert_eq!(arena.free(PAGE, PAGE / 2), 1..2);
        assert_eq!(arena.free(0, PAGE), 0..1);
    }

    #[test]
    fn growing_takes_the_place_with_the_fewest_new_pages() {
        let mut arena = Arena::new(PAGE, 100 * PAGE);
        let (low, _) = put(&mut arena, 4 * PAGE);
        put(&mut arena, PAGE / 4);
        assert_eq!(arena.free(low, 4 * PAGE), 0..4);
        // In the hole it would take three pages, after the small block two.
        assert_eq!(put(&mut arena, 11 * PAGE / 4), (17 * PAGE / 4, 2));
    }

    #[test]
    fn a_full_range_is_no_place() {
        let mut arena = Arena::new(PAGE, 2 * PAGE);
        assert_eq!(put(&mut arena, 2 * PAGE), (0, 2));
        assert_eq!(arena.plan(GRANULE, GRANULE), None);
        assert_eq!(Arena::new(PAGE, 2 * PAGE).plan(u64::MAX - 511, GRANULE), None);
    }
}
