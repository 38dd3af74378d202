//! Pages that stay backed although nothing lies in them, because something soon will.
//!
//! To give a page back and lease it again costs a hundred times what a planned allocation does, and
//! a region that is given up reaches nobody before its fence has passed. So where the plan says
//! that all pages which a block leaves empty are in use again within a few allocations, they stay,
//! unless that would make the iteration hold more than its peak.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::{Entry, Layout, LiveRange};
use super::pages::touched;
use crate::types::tuning::{GAP_STEPS, SHORT_GAP, SHORT_GAP_PART};
use zico_plan::{Cover, Runs, Work, sorting};

/// The gap that a block leaves behind.
#[derive(Clone, Copy, Default)]
struct Gap {
    /// Before which allocation it begins, and before which all of its pages are in use again.
    from: usize,
    to: usize,
    pages: u64,
    /// How many runs of its pages are not in use again.
    open: u32,
}

/// What closing the gaps of so many allocations takes at most.
pub(super) const fn most(allocations: usize) -> u64 {
    sorting(allocations).saturating_mul(GAP_STEPS)
}

/// Marks the entries that leave short gaps, the shortest first, as far as there is work, and notes
/// what the iteration holds at its peak. O(n log n) steps, and with them as many as there is work.
///
/// Pages that the same blocks lie in count as one.
pub(super) fn close(layout: &mut Layout, page_shift: u32, work: &mut Work) {
    let all = layout.entries.len();
    // Ends of blocks are sorted and found, and so are gaps.
    work.count(8 * sorting(all));
    let pages = |entry: &Entry| {
        if entry.life == LiveRange::Beyond {
            return (0, 0);
        }
        let pages = touched(page_shift, entry.start, entry.size);
        (*pages.start() as u64, *pages.end() as u64 + 1)
    };
    let runs = Runs::new(layout.entries.iter().map(pages));
    let places: Vec<(usize, usize)> =
        layout.entries.iter().map(|entry| runs.of(pages(entry))).collect();
    let touches: u64 = places.iter().map(|&(first, end)| (end - first) as u64).sum();
    // Each block comes, goes, and leaves what others take up.
    if work.spend(4 * touches).is_none() {
        note(layout, &in_use(layout, &places, runs, work));
        return;
    }
    let (gaps, mut used) = sweep(layout, &places, &runs);
    close_short(layout, gaps, &mut used, work);
    note(layout, &used);
}

/// Closes short gaps where that makes the iteration hold no more than its peak: what it holds after
/// each allocation has that in it.
fn close_short(layout: &mut Layout, mut gaps: Vec<Gap>, used: &mut [u64], work: &mut Work) {
    let (all, most) = (gaps.len(), used.iter().copied().max().unwrap_or(0));
    let short = SHORT_GAP.max(all / SHORT_GAP_PART);
    let is_short = |gap: &Gap| gap.pages > 0 && gap.open == 0 && gap.to - gap.from <= short;
    let mut order: Vec<usize> = (0..all).filter(|&slot| is_short(&gaps[slot])).collect();
    order.sort_by_key(|&slot| (gaps[slot].to - gaps[slot].from, slot));
    for slot in order {
        let Gap { from, to, pages, .. } = core::mem::take(&mut gaps[slot]);
        if work.spend(2 * (to - from) as u64).is_none() {
            return;
        }
        let moments = &mut used[from..to];
        if moments.iter().all(|&used| used + pages <= most) {
            moments.iter_mut().for_each(|used| *used += pages);
            layout.entries[slot].keeps = true;
        }
    }
}

/// Notes the most of what the iteration holds after each allocation, and the most until each of its
/// marks.
fn note(layout: &mut Layout, used: &[u64]) {
    let mut most = 0;
    layout.starts.clear();
    for (before, &used) in used.iter().enumerate() {
        most = most.max(used);
        if (before + 1).is_power_of_two() {
            layout.starts.push(narrow(most));
        }
    }
    layout.peak = narrow(most);
}

fn narrow(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

/// The slots that are free before an allocation of the same iteration.
fn before(layout: &Layout, number: usize) -> impl Iterator<Item = usize> {
    layout.ends(number).filter(move |_| number > 0)
}

/// How many pages are in use after each allocation: O(n log n), however many pages blocks have.
fn in_use(layout: &Layout, places: &[(usize, usize)], runs: Runs, work: &mut Work) -> Vec<u64> {
    let mut cover = Cover::new(runs);
    work.count(2 * layout.entries.len() as u64 * cover.steps());
    let used = places.iter().enumerate().map(|(number, &place)| {
        before(layout, number).for_each(|slot| cover.remove(places[slot]));
        cover.add(place);
        cover.covered()
    });
    used.collect()
}

/// The gap that each block leaves, and how many pages are in use after each allocation.
fn sweep(layout: &Layout, places: &[(usize, usize)], runs: &Runs) -> (Vec<Gap>, Vec<u64>) {
    let all = layout.entries.len();
    // For each run of pages how many blocks it has, and who left it empty: several, if they end at
    // one moment.
    let (mut blocks, mut left) = (vec![0_u32; runs.len()], vec![Vec::new(); runs.len()]);
    let (mut gaps, mut used) = (vec![Gap::default(); all], Vec::with_capacity(all));
    let mut in_use = 0_u64;
    let touched = |slot: usize| places[slot].0..places[slot].1;
    for number in 0..all {
        for run in before(layout, number).flat_map(touched) {
            blocks[run] -= 1;
            in_use -= if blocks[run] == 0 { runs.width(run) } else { 0 };
        }
        for slot in before(layout, number) {
            let gap = &mut gaps[slot];
            gap.from = number;
            for run in touched(slot).filter(|&run| blocks[run] == 0) {
                (gap.pages, gap.open) = (gap.pages + runs.width(run), gap.open + 1);
                left[run].push(slot);
            }
        }
        for run in touched(number) {
            blocks[run] += 1;
            in_use += if blocks[run] == 1 { runs.width(run) } else { 0 };
            for slot in left[run].drain(..) {
                gaps[slot].open -= 1;
                gaps[slot].to = number;
            }
        }
        used.push(in_use);
    }
    // What has its place for itself is there in other iterations too.
    let gap = |(gap, entry): (Gap, &Entry)| match entry.life {
        LiveRange::Until(_) => gap,
        LiveRange::Always | LiveRange::Alternating | LiveRange::Beyond => Gap::default(),
    };
    (gaps.into_iter().zip(&layout.entries).map(gap).collect(), used)
}
