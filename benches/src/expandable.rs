//! PyTorch's CUDA caching allocator with `expandable_segments:True`.
//!
//! Read: `c10/cuda/CUDACachingAllocator.cpp` of pytorch/pytorch as of commit
//! `001074d25084fdb87a799823e395a50f5ec044d3` (late 2024).
//!
//! * Sizes and the two pools are as by default ([`caching`](crate::caching)).
//! * Each pool has one segment: a range of addresses an eighth larger than the device, of which a
//!   part is mapped, in handles of 2 MiB in the small pool and of 20 MiB in the large one
//!   (`ExpandableSegment`, `find_expandable_block`).
//! * A block is placed where it fits best, but a free block next to the unmapped end counts as
//!   large as it could become (`expandable_size` in `get_free_block`). So it is taken only if no
//!   other is large enough.
//! * Where nothing fits, the unmapped end is mapped as far as needed: from the free block right
//!   before it, if there is one, by as many handles as are missing
//!   (`try_allocate_expandable_block`, `map_block`). What was mapped and the free block before it
//!   become one.
//! * What is left over is always split off, down to 512 bytes (`should_split`).
//! * Free neighbours are joined. Handles are unmapped only when memory runs out, so what is held is
//!   what is mapped.
//!
//! As nothing is ever unmapped, the unmapped part is always one piece at the end, and the search
//! for the lowest unmapped place comes to that piece.

use crate::caching::{LARGE_SEGMENT, LARGEST_SMALL, SMALL_SEGMENT, rounded};
use crate::extents::{Extent, Free};
use crate::{Handle, Policy};

/// The addresses of a segment, on a device of 80 GiB: more than any job needs.
const ADDRESSES: u64 = (80 << 30) / 8 * 9;

/// A segment that grows.
struct Segment {
    /// The size of a handle.
    handle: u64,
    /// Below this all is mapped, above it nothing.
    mapped: u64,
    free: Free,
}

impl Segment {
    fn new(handle: u64) -> Self {
        Self { handle, mapped: 0, free: Free::default() }
    }

    /// The size of a free block, for the purpose of best fit.
    fn could_become(&self, block: &Extent) -> u64 {
        let next = if block.end() == self.mapped { ADDRESSES - self.mapped } else { 0 };
        block.len + next
    }

    /// The best fit among the free blocks. The original goes on to the next larger block as long as
    /// that could become less; only the one block at the end could become more than it is, so two
    /// have to be looked at.
    fn best(&self, size: u64) -> Option<Extent> {
        self.free.at_least(size).take(2).min_by_key(|block| self.could_become(block))
    }

    /// Maps handles at the end until a block of this size fits there.
    fn grow(&mut self, size: u64) -> Extent {
        let start = self.free.ending_at(self.mapped).map_or(self.mapped, |last| last.start);
        let missing = (start + size - self.mapped).next_multiple_of(self.handle);
        self.free.add(Extent::new(self.mapped, missing));
        self.mapped += missing;
        Extent::new(start, self.mapped - start)
    }

    fn alloc(&mut self, size: u64) -> Extent {
        let block = self.best(size).unwrap_or_else(|| self.grow(size));
        self.free.split(block, size)
    }
}

/// The caching allocator with expandable segments.
pub struct Expandable {
    small: Segment,
    large: Segment,
}

impl Default for Expandable {
    fn default() -> Self {
        Self { small: Segment::new(SMALL_SEGMENT), large: Segment::new(LARGE_SEGMENT) }
    }
}

/// The pools' addresses are kept apart by this.
const LARGE_BASE: u64 = 1 << 48;

impl Policy for Expandable {
    fn alloc(&mut self, bytes: u64) -> Handle {
        let size = rounded(bytes);
        if size <= LARGEST_SMALL {
            return Handle(self.small.alloc(size));
        }
        let block = self.large.alloc(size);
        Handle(Extent::new(LARGE_BASE + block.start, block.len))
    }

    fn free(&mut self, block: Handle) {
        let Handle(block) = block;
        match block.start.checked_sub(LARGE_BASE) {
            None => self.small.free.add(block),
            Some(start) => self.large.free.add(Extent::new(start, block.len)),
        }
    }

    fn held(&self) -> u64 {
        self.small.mapped + self.large.mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pools_grow_by_whole_handles() {
        let mut expandable = Expandable::default();
        expandable.alloc(1);
        assert_eq!(expandable.held(), 2 * MIB);
        expandable.alloc(2 * MIB);
        assert_eq!(expandable.held(), 22 * MIB);
        expandable.alloc(39 * MIB);
        assert_eq!(expandable.held(), (2 + 60) * MIB);
    }

    #[test]
    fn growth_starts_at_the_free_block_before_the_end() {
        let mut large = Segment::new(20 * MIB);
        let first = large.alloc(15 * MIB);
        assert_eq!(large.alloc(10 * MIB).start, 15 * MIB);
        assert_eq!(large.mapped, 40 * MIB);
        large.free.add(first);
        // The 15 MiB in front are too small, so are the 15 at the end: one more handle will do.
        let next = large.alloc(20 * MIB);
        assert_eq!((next.start, large.mapped), (25 * MIB, 60 * MIB));
    }

    #[test]
    fn growth_starts_at_the_end_if_that_is_in_use() {
        let mut large = Segment::new(20 * MIB);
        large.alloc(20 * MIB);
        assert_eq!(large.alloc(2 * MIB).start, 20 * MIB);
        assert_eq!(large.mapped, 40 * MIB);
    }

    #[test]
    fn the_block_at_the_end_is_taken_last() {
        let mut large = Segment::new(20 * MIB);
        let first = large.alloc(12 * MIB);
        large.alloc(2 * MIB);
        large.free.add(first);
        // 12 MiB are free in front and 6 at the end: the larger hole is taken.
        assert_eq!(large.alloc(5 * MIB).start, 0);
        assert_eq!(large.alloc(7 * MIB).start, 5 * MIB);
        assert_eq!(large.alloc(6 * MIB).start, 14 * MIB);
        assert_eq!(large.mapped, 20 * MIB);
    }

    #[test]
    fn all_that_is_left_over_is_split_off() {
        let mut large = Segment::new(20 * MIB);
        assert_eq!(large.alloc(20 * MIB - 512).len, 20 * MIB - 512);
        assert_eq!(large.free.best(1).map(|rest| rest.len), Some(512));
    }

    #[test]
    fn free_neighbours_are_joined_across_handles() {
        let mut large = Segment::new(20 * MIB);
        let blocks = [large.alloc(15 * MIB), large.alloc(15 * MIB), large.alloc(10 * MIB)];
        blocks.into_iter().for_each(|block| large.free.add(block));
        assert_eq!(large.alloc(40 * MIB).start, 0);
        assert_eq!(large.mapped, 40 * MIB);
    }
}
