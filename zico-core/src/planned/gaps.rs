//! Pages that stay backed although nothing lies in them, because something soon will.
//!
//! To give a page back and lease it again costs a hundred times what a planned allocation does, and a
//! region that is given up reaches nobody before its fence has passed. So where the plan says that all
//! pages which a block leaves empty are in use again within a few allocations, they stay, unless that
//! would make the iteration hold more than its peak.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::{Entry, Layout, Stay};
use super::pages::touched;

/// A gap is short if it is no longer than so many allocations ...
const SHORT: usize = 8;
/// ... or than this part of the iteration.
const SHORT_PART: usize = 32;

/// The gap that a block leaves behind.
#[derive(Clone, Copy, Default)]
struct Gap {
    /// Before which allocation it begins, and before which all of its pages are in use again.
    from: usize,
    to: usize,
    pages: u32,
    /// Some of its pages are not in use again.
    open: u32,
}

/// Marks the entries that leave short gaps, and notes what the iteration holds at its peak. O(n log n), and O(pages of all blocks).
pub(super) fn close(layout: &mut Layout, page_shift: u32) {
    let all = layout.entries.len();
    let (mut gaps, mut used) = sweep(layout, page_shift);
    let most = used.iter().copied().max().unwrap_or(0);
    layout.peak = most;
    let short = SHORT.max(all / SHORT_PART);
    let is_short = |gap: &Gap| gap.pages > 0 && gap.open == 0 && gap.to - gap.from <= short;
    let mut order: Vec<usize> = (0..all).filter(|&slot| is_short(&gaps[slot])).collect();
    order.sort_by_key(|&slot| (gaps[slot].to - gaps[slot].from, slot));
    for slot in order {
        let Gap { from, to, pages, .. } = core::mem::take(&mut gaps[slot]);
        let moments = &mut used[from..to];
        if moments.iter().all(|&used| used + pages <= most) {
            moments.iter_mut().for_each(|used| *used += pages);
            layout.entries[slot].keeps = true;
        }
    }
}

/// The gap that each block leaves, and how many pages are in use after each allocation.
fn sweep(layout: &Layout, page_shift: u32) -> (Vec<Gap>, Vec<u32>) {
    let all = layout.entries.len();
    let height = usize::try_from(layout.height >> page_shift).map_or(0, |pages| pages + 1);
    // For each page how many blocks it has, and who left it empty: several, if they end at one moment.
    let (mut blocks, mut left) = (vec![0_u32; height], vec![Vec::new(); height]);
    let (mut gaps, mut used) = (vec![Gap::default(); all], Vec::with_capacity(all));
    let mut in_use = 0;
    let touched = |entry: &Entry| touched(page_shift, entry.start, entry.size);
    for (number, entry) in layout.entries.iter().enumerate() {
        let before = || layout.ends(number).filter(|_| number > 0);
        for page in before().flat_map(|slot| touched(&layout.entries[slot])) {
            blocks[page] -= 1;
            in_use -= u32::from(blocks[page] == 0);
        }
        for slot in before() {
            let gap = &mut gaps[slot];
            gap.from = number;
            for page in touched(&layout.entries[slot]).filter(|&page| blocks[page] == 0) {
                (gap.pages, gap.open) = (gap.pages + 1, gap.open + 1);
                left[page].push(slot);
            }
        }
        for page in touched(entry) {
            blocks[page] += 1;
            in_use += u32::from(blocks[page] == 1);
            for slot in left[page].drain(..) {
                gaps[slot].open -= 1;
                gaps[slot].to = number;
            }
        }
        used.push(in_use);
    }
    // What has its place for itself is there in other iterations too.
    let gap = |(gap, entry): (Gap, &Entry)| match entry.stay {
        Stay::Until(_) => gap,
        Stay::Always | Stay::InTurn => Gap::default(),
    };
    (gaps.into_iter().zip(&layout.entries).map(gap).collect(), used)
}
