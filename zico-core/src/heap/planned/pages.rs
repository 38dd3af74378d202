//! The pages of the planned arena: which are backed, and how many blocks lie in each.

use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use crate::heap::arena::Standing;

/// A page has a region. The other bits count the blocks in it.
const BACKED: u32 = 1 << 31;

pub(super) struct Pages {
    /// log2 of a page.
    shift: u32,
    pages: Vec<u32>,
    /// Those that are backed and have no blocks.
    spare: u32,
}

impl Pages {
    pub(super) fn new(page_bytes: u64) -> Self {
        Self { shift: page_bytes.trailing_zeros(), pages: Vec::new(), spare: 0 }
    }

    /// The size of a page.
    pub(super) const fn bytes(&self) -> u64 {
        1 << self.shift
    }

    /// There are pages up to this height, or more.
    pub(super) fn reach(&mut self, height: u64) {
        let pages = usize::try_from(height.div_ceil(1 << self.shift)).unwrap_or(usize::MAX);
        self.pages.resize(pages.max(self.pages.len()), 0);
    }

    /// A block has come to lie here. Nothing has happened if not all of it is backed.
    #[inline(always)]
    pub(super) fn enter(&mut self, start: u64, len: u64) -> bool {
        let Some(pages) = self.pages.get_mut(touched(self.shift, start, len)) else { return false };
        // Most blocks lie in one page.
        if let [page] = pages {
            let is_backed = *page & BACKED != 0;
            if is_backed {
                self.spare -= u32::from(*page == BACKED);
                *page += 1;
            }
            return is_backed;
        }
        let is_backed = pages.iter().all(|page| page & BACKED != 0);
        for page in pages.iter_mut().filter(|_| is_backed) {
            self.spare -= u32::from(*page == BACKED);
            *page += 1;
        }
        is_backed
    }

    /// A block is gone that lay here. The pages that this has left empty, which are backed no more;
    /// with `keeps` they stay backed.
    #[inline]
    pub(super) fn leave(&mut self, start: u64, len: u64, keeps: bool) -> Range<u64> {
        let all = touched(self.shift, start, len);
        if let [page] = &mut self.pages[all.clone()]
            && *page != BACKED + 1
        {
            *page -= 1;
            return 0..0;
        }
        self.leave_all(all, keeps)
    }

    fn leave_all(&mut self, all: RangeInclusive<usize>, keeps: bool) -> Range<u64> {
        let (mut first, mut end) = (*all.start(), *all.end() + 1);
        for page in &mut self.pages[all] {
            *page -= 1;
            if *page == BACKED {
                self.spare += u32::from(keeps);
                *page = if keeps { BACKED } else { 0 };
            }
        }
        // Only those at its ends may have other blocks.
        first += usize::from(self.pages[first] != 0);
        end -= usize::from(end > first && self.pages[end - 1] != 0);
        if keeps { 0..0 } else { first as u64..end.max(first) as u64 }
    }

    /// The pages that a block would touch and that are not backed. The list is one to use again.
    pub(super) fn missing(&self, start: u64, len: u64, mut list: Vec<u64>) -> Vec<u64> {
        let is_bare = |page: &usize| self.pages.get(*page).is_none_or(|page| page & BACKED == 0);
        list.clear();
        list.extend(touched(self.shift, start, len).filter(is_bare).map(|page| page as u64));
        list
    }

    /// A block lies here, whose pages are backed.
    pub(super) fn hold(&mut self, start: u64, len: u64) {
        let pages = self.pages.get_mut(touched(self.shift, start, len));
        for page in pages.into_iter().flatten() {
            *page = (*page | BACKED) + 1;
        }
    }

    /// All pages that are backed, in order; none is any more.
    pub(super) fn take_backed(&mut self) -> Vec<u64> {
        self.spare = 0;
        let backed = (0..).zip(&self.pages).filter(|(_, page)| **page & BACKED != 0);
        let backed = backed.map(|(number, _)| number).collect();
        self.pages.fill(0);
        backed
    }

    /// Takes over pages that have been backed.
    pub(super) fn back(&mut self, pages: &[u64]) {
        let last = pages.iter().max().map_or(0, |last| last + 1);
        self.reach(last << self.shift);
        for page in pages.iter().filter_map(|&page| usize::try_from(page).ok()) {
            if let Some(page) = self.pages.get_mut(page).filter(|page| **page & BACKED == 0) {
                *page |= BACKED;
                self.spare += 1;
            }
        }
    }

    /// Pages that are backed and that have no blocks: they are backed no more.
    pub(super) fn give_up_spare(&mut self) -> Vec<u64> {
        if core::mem::take(&mut self.spare) == 0 {
            return Vec::new();
        }
        let spare = (0..).zip(&mut self.pages).filter(|(_, page)| **page == BACKED);
        spare.map(|(number, page)| (*page = 0, number).1).collect()
    }

    /// Whether a page is backed although it has no blocks.
    #[cfg(test)]
    pub(super) fn is_spare(&self, page: u64) -> bool {
        usize::try_from(page).is_ok_and(|page| self.pages.get(page) == Some(&BACKED))
    }

    /// Whether none is backed.
    #[cfg(test)]
    pub(super) fn is_bare(&self) -> bool {
        self.pages.iter().all(|&page| page == 0)
    }
}

/// How many pages some blocks take beside the slots of a plan, in the order of their addresses: all
/// that they touch, but for as many as those fill that the iteration before has left and this one
/// has a slot for. Such a block is gone when the slot's is there, and with it its pages, if none of
/// those that stay lies in them. O(blocks log blocks).
pub(super) fn pages_beside(
    blocks: impl Iterator<Item = Standing>,
    has_slot: impl Fn(&Standing) -> bool,
    page: u64,
) -> u32 {
    let touches = |block: &Standing| block.start / page..(block.start + block.len).div_ceil(page);
    let blocks: Vec<Standing> = blocks.collect();
    let stay: Vec<Range<u64>> =
        blocks.iter().filter(|block| !has_slot(block)).map(touches).collect();
    let is_shared = |pages: &Range<u64>| {
        let at = stay.partition_point(|other| other.end <= pages.start);
        stay.get(at).is_some_and(|other| other.start < pages.end)
    };
    let (mut pages, mut next, mut filled) = (0, 0, 0);
    for block in &blocks {
        let touched = touches(block);
        pages += touched.end.saturating_sub(touched.start.max(next));
        next = touched.end;
        filled += if has_slot(block) && !is_shared(&touched) { block.len } else { 0 };
    }
    u32::try_from(pages.saturating_sub(filled / page)).unwrap_or(u32::MAX)
}

/// The pages that a block touches.
#[expect(clippy::cast_possible_truncation, reason = "a layout has no more pages than a Vec")]
#[inline]
pub(super) const fn touched(page_shift: u32, start: u64, len: u64) -> RangeInclusive<usize> {
    (start >> page_shift) as usize..=((start + len - 1) >> page_shift) as usize
}
