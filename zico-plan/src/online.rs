//! Blocks placed as they come, each in the smallest hole that is surely large enough: for problems
//! on which even a fast plan takes too long.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::problem::Component;
use super::work::sorting;

/// What it takes for so many blocks: their ends are sorted, and each changes two trees of holes a
/// few times.
pub(super) const fn steps(blocks: usize) -> u64 {
    sorting(blocks).saturating_mul(8)
}

/// A plan for a component. O(n log n), for any lifetimes.
pub(super) fn plan(c: &Component) -> Vec<u64> {
    let mut offsets = alloc::vec![0; c.len()];
    let mut ends: Vec<u32> = (0..c.len() as u32).collect();
    ends.sort_unstable_by_key(|&i| c.to[i as usize]);
    let mut ends = ends.into_iter().peekable();
    let mut holes = Holes::default();
    // Blocks are numbered by their beginning.
    for i in 0..c.len() {
        while let Some(gone) = ends.next_if(|&gone| c.to[gone as usize] <= c.from[i]) {
            let gone = gone as usize;
            holes.give(offsets[gone], offsets[gone] + c.size[gone]);
        }
        offsets[i] = holes.take(c.size[i], c.align[i]);
    }
    offsets
}

/// The room that no block has.
#[derive(Default)]
struct Holes {
    /// By offset, with their ends. Above `top` all is free.
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    top: u64,
}

impl Holes {
    fn insert(&mut self, start: u64, end: u64) {
        if start < end {
            self.by_offset.insert(start, end);
            self.by_size.insert((end - start, start));
        }
    }

    fn remove(&mut self, start: u64, end: u64) {
        self.by_offset.remove(&start);
        self.by_size.remove(&(end - start, start));
    }

    /// Room for a block. All sizes with their alignments are known to fit in 64 bits.
    fn take(&mut self, size: u64, align: u64) -> u64 {
        let surely = size + (align - 1);
        if let Some(&(len, start)) = self.by_size.range((surely, 0)..).next() {
            let (offset, end) = (start.next_multiple_of(align), start + len);
            self.remove(start, end);
            self.insert(start, offset);
            self.insert(offset + size, end);
            return offset;
        }
        // What is free beneath the top is added to.
        let last = self.by_offset.last_key_value().map(|(&start, &end)| (start, end));
        let start = match last.filter(|&(_, end)| end == self.top) {
            Some((start, end)) => {
                self.remove(start, end);
                start
            }
            None => self.top,
        };
        let offset = start.next_multiple_of(align);
        self.insert(start, offset);
        // A hole that was not surely large enough may be after all.
        self.insert(offset + size, self.top);
        self.top = self.top.max(offset + size);
        offset
    }

    fn give(&mut self, mut start: u64, mut end: u64) {
        let below = self.by_offset.range(..start).next_back().map(|(&start, &end)| (start, end));
        if let Some(hole) = below.filter(|hole| hole.1 == start) {
            self.remove(hole.0, hole.1);
            start = hole.0;
        }
        if let Some(&above) = self.by_offset.get(&end) {
            self.remove(end, above);
            end = above;
        }
        self.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::at_random;
    use super::super::{Block, check};
    use super::*;

    #[test]
    fn blocks_as_they_come_do_not_overlap() {
        for aligns in [1, 7] {
            let blocks: Vec<Block> = at_random(2000, 100)
                .into_iter()
                .zip(0..)
                .map(|(block, i): (Block, u64)| block.aligned(1 + i % aligns))
                .collect();
            for component in Component::all(&blocks) {
                let mut own = |&id: &u32| blocks[id as usize];
                let own: Vec<Block> = component.ids.iter().map(&mut own).collect();
                let offsets = plan(&component);
                assert_eq!(check(&own, &offsets), Ok(component.height(&offsets)));
                assert!(component.height(&offsets) < 2 * component.bound);
            }
        }
    }
}
