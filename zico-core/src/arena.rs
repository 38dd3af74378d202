//! One job's memory of one lifetime: places blocks in the pages that the pool has leased to it.
//!
//! An arena sees addresses only. Pages are region-sized and region-aligned pieces of the address
//! space; neighbouring pages merge, so a block may span several. Placement is exact best fit over
//! two ordered maps, O(log n) in the number of free extents; ties go to the arena's own [`Side`],
//! and so does the part of an extent that a block takes. When a free leaves whole pages empty they
//! leave the arena at once: that is the memory that other jobs can have.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Range;

use hashbrown::HashSet;

/// Every block's size is rounded up to a multiple of this, and every address is one.
pub(crate) const GRANULE: u64 = 512;

/// How many edges of an arena are offered to the pool when it grows.
const EDGES: usize = 8;

/// The end of the address range from which a job fills it. Neighbouring jobs take opposite ends,
/// so that each grows and shrinks as one dense stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Low,
    High,
}

/// Free bytes of an arena that end (or begin) where its pages do: growing right there needs fewer
/// new pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The page next to the free bytes, not the arena's own.
    pub(crate) page: u64,
    /// Whether pages from there on upwards (or downwards) would join the free bytes.
    pub(crate) upwards: bool,
    /// The free bytes.
    pub(crate) free: u64,
}

pub(crate) struct Arena {
    page_bytes: u64,
    side: Side,
    /// Free extents: start to length. No two touch.
    by_start: BTreeMap<u64, u64>,
    /// The same extents as (length, start).
    by_size: BTreeSet<(u64, u64)>,
    pages: HashSet<u64>,
}

impl Arena {
    pub(crate) fn new(page_bytes: u64, side: Side) -> Self {
        Self {
            page_bytes,
            side,
            by_start: BTreeMap::new(),
            by_size: BTreeSet::new(),
            pages: HashSet::new(),
        }
    }

    /// Places `size` bytes at a multiple of `align`, if a free extent can take them.
    pub(crate) fn place(&mut self, size: u64, align: u64) -> Option<u64> {
        let (len, start, at) = self.by_size.range((size, 0)..).find_map(|&(len, _)| {
            let mut same = self.by_size.range((len, 0)..=(len, u64::MAX));
            let &(_, start) = match self.side {
                Side::Low => same.next(),
                Side::High => same.next_back(),
            }?;
            Some((len, start, self.fit(start, len, size, align)?))
        })?;
        self.remove(start, len);
        self.insert(start, at - start);
        self.insert(at + size, start + len - at - size);
        Some(at)
    }

    /// Where in an extent a block goes: at the end that is the arena's side.
    fn fit(&self, start: u64, len: u64, size: u64, align: u64) -> Option<u64> {
        let end = start + len;
        let at = match self.side {
            Side::Low => start.checked_next_multiple_of(align)?,
            Side::High => (end - size) / align * align,
        };
        (at >= start && at.checked_add(size)? <= end).then_some(at)
    }

    /// Takes over pages that the pool has leased.
    pub(crate) fn grow(&mut self, pages: Range<u64>) {
        self.pages.extend(pages.clone());
        let _ =
            self.merge(pages.start * self.page_bytes, (pages.end - pages.start) * self.page_bytes);
    }

    /// Takes back a block. Returns the pages that this left empty and that are the arena's no more.
    pub(crate) fn free(&mut self, start: u64, size: u64, keep_pages: bool) -> Range<u64> {
        let (start, len) = self.merge(start, size);
        let first = start.div_ceil(self.page_bytes);
        let last = (start + len) / self.page_bytes;
        if keep_pages || first >= last {
            return 0..0;
        }
        self.remove(start, len);
        self.insert(start, first * self.page_bytes - start);
        self.insert(last * self.page_bytes, start + len - last * self.page_bytes);
        for page in first..last {
            self.pages.remove(&page);
        }
        first..last
    }

    /// The largest free bytes at edges of the arena's pages, largest first.
    pub(crate) fn edges(&self) -> impl Iterator<Item = Edge> + '_ {
        self.by_size.iter().rev().filter_map(|&(len, start)| self.edge(start, len)).take(EDGES)
    }

    fn edge(&self, start: u64, len: u64) -> Option<Edge> {
        let end = start + len;
        let above = end / self.page_bytes;
        let below = (start / self.page_bytes).checked_sub(1);
        let upwards = end.is_multiple_of(self.page_bytes) && !self.pages.contains(&above);
        let downwards = start.is_multiple_of(self.page_bytes)
            && below.is_some_and(|page| !self.pages.contains(&page));
        match (upwards, downwards, below) {
            (true, true, Some(page)) if self.side == Side::High => {
                Some(Edge { page, upwards: false, free: len })
            }
            (true, ..) => Some(Edge { page: above, upwards: true, free: len }),
            (false, true, Some(page)) => Some(Edge { page, upwards: false, free: len }),
            _ => None,
        }
    }

    /// Makes an extent free and joins it with free neighbours. Returns the joined extent.
    fn merge(&mut self, mut start: u64, mut len: u64) -> (u64, u64) {
        if let Some((&before, &before_len)) = self.by_start.range(..start).next_back()
            && before + before_len == start
        {
            self.remove(before, before_len);
            (start, len) = (before, before_len + len);
        }
        if let Some(&after_len) = self.by_start.get(&(start + len)) {
            self.remove(start + len, after_len);
            len += after_len;
        }
        self.insert(start, len);
        (start, len)
    }

    fn insert(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.by_start.insert(start, len);
            self.by_size.insert((len, start));
        }
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(len, start));
    }
}
