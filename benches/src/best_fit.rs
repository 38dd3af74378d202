//! Exact best fit in one arena without end.
//!
//! A reference for the other models, not an existing allocator: no pools, no segments, no page
//! boundaries, nothing kept that could be split off. Sizes are rounded up to 512 bytes, and a block
//! goes to the smallest free place that is large enough, at the lowest address. The place behind
//! the last block is the largest one, so it is taken last. What is held is all up to the highest
//! address that was ever in use: an arena of that size would have done.
//!
//! That is no bound: the live bytes are. A placement that knows the future can come closer to them.

use crate::caching::rounded;
use crate::extents::{Extent, Free};
use crate::{Handle, Policy};

/// Exact best fit.
#[derive(Default)]
pub struct BestFit {
    /// Free places before the last block.
    free: Free,
    /// Where the last block ends.
    end: u64,
    /// The highest that this has been.
    highest: u64,
}

impl Policy for BestFit {
    fn alloc(&mut self, bytes: u64) -> Handle {
        let size = rounded(bytes);
        if let Some(place) = self.free.best(size) {
            return Handle(self.free.split(place, size));
        }
        let block = Extent::new(self.end, size);
        self.end = block.end();
        self.highest = self.highest.max(self.end);
        Handle(block)
    }

    fn free(&mut self, block: Handle) {
        self.free.add(block.0);
        if let Some(last) = self.free.ending_at(self.end) {
            self.free.remove(last);
            self.end = last.start;
        }
    }

    fn held(&self) -> u64 {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_by_what_is_missing_at_the_end() {
        let mut arena = BestFit::default();
        let first = arena.alloc(1000);
        let second = arena.alloc(2048);
        assert_eq!(arena.held(), 1024 + 2048);
        arena.free(second);
        assert_eq!(arena.alloc(4096).0.start, 1024);
        assert_eq!(arena.held(), 1024 + 4096);
        arena.free(first);
        assert_eq!(arena.alloc(600).0.start, 0);
    }

    #[test]
    fn holes_are_joined_and_the_tightest_is_taken() {
        let mut arena = BestFit::default();
        let mut blocks: Vec<_> = (0..8).map(|_| Some(arena.alloc(512))).collect();
        for i in [0, 1, 2, 4, 5] {
            arena.free(blocks[i].take().expect("live"));
        }
        assert_eq!(arena.alloc(1024).0.start, 4 * 512);
        assert_eq!(arena.alloc(1536).0.start, 0);
        assert_eq!(arena.held(), 8 * 512);
    }

    #[test]
    fn the_place_behind_the_last_block_is_taken_last() {
        let mut arena = BestFit::default();
        let hole = arena.alloc(4096);
        arena.alloc(512);
        let last = arena.alloc(1024);
        arena.free(hole);
        arena.free(last);
        // 1024 bytes that were in use are behind the last block, but so is all the rest.
        assert_eq!(arena.alloc(1024).0.start, 0);
    }
}
