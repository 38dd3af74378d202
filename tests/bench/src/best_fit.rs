//! Exact best fit in one arena that grows at its end.
//!
//! Nobody's allocator, but what the others can be measured by: no pools, no segments, no page
//! boundaries, nothing kept that could be split off. Sizes are rounded up to 512 bytes, a block goes to
//! the smallest free place that is large enough, at the lowest address, and where there is none to the
//! end of the arena. What is held is up to the highest address that was ever in use: the smallest
//! single allocation from the device in which this policy could have run.
//!
//! It is not a bound: that is the live bytes. A placement that knows the future can come closer to them.

use crate::caching::rounded;
use crate::extents::{Extent, Free};
use crate::{Handle, Policy};

/// Exact best fit.
#[derive(Default)]
pub struct BestFit {
    /// The end of the arena.
    end: u64,
    free: Free,
}

impl Policy for BestFit {
    fn alloc(&mut self, bytes: u64) -> Handle {
        let size = rounded(bytes);
        let place = self.free.best(size).unwrap_or_else(|| {
            let start = self.free.ending_at(self.end).map_or(self.end, |last| last.start);
            self.free.add(Extent::new(self.end, start + size - self.end));
            self.end = start + size;
            Extent::new(start, size)
        });
        Handle(self.free.split(place, size))
    }

    fn free(&mut self, block: Handle) {
        self.free.add(block.0);
    }

    fn held(&self) -> u64 {
        self.end
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
}
