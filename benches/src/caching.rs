//! PyTorch's CUDA caching allocator, with no option set.
//!
//! Read: `c10/cuda/CUDACachingAllocator.cpp` of pytorch/pytorch as of commit
//! `001074d25084fdb87a799823e395a50f5ec044d3` (late 2024; the constants and the functions named
//! here are the same in `eb42ad6eca0ce61e7c581212b4bf32f991425571`, and the defaults are still
//! these where a later version made some of them options).
//!
//! * Sizes are rounded up to 512 bytes (`round_size`).
//! * Blocks of up to 1 MiB come from one pool, larger ones from another (`get_pool`). The pools
//!   share nothing.
//! * A block is placed where it fits best: in the smallest free block of its pool that is large
//!   enough, at the lowest address (`get_free_block`, `BlockComparatorSize`).
//! * What is left over is split off if it comes to 512 bytes in the small pool or to more than 1
//!   MiB in the large one (`should_split`; `max_split_size` is unlimited). Else the block keeps it.
//! * Where nothing fits, the device gives a new segment: 2 MiB for the small pool, 20 MiB for a
//!   block of less than 10 MiB, else the block rounded up to 2 MiB (`get_allocation_size`).
//! * Free neighbours within a segment are joined (`free_block`, `try_merge_blocks`).
//! * Segments go back to the device only when memory runs out, so what is held is what PyTorch
//!   calls reserved.
//!
//! Left out: other streams, graphs, `garbage_collection_threshold`, `roundup_power2_divisions`.
//! Which of two equal blocks of two segments is lower depends on the driver; here later segments
//! are higher.

use crate::extents::{Device, Free};
use crate::{Handle, Policy};

const MIB: u64 = 1 << 20;

/// Every size is a multiple of this.
pub const GRANULE: u64 = 512;
/// The largest block of the small pool.
pub const LARGEST_SMALL: u64 = MIB;
/// A segment of the small pool.
pub const SMALL_SEGMENT: u64 = 2 * MIB;
/// A segment of the large pool, for blocks of less than [`OWN_SEGMENT`].
pub const LARGE_SEGMENT: u64 = 20 * MIB;
/// A block as large as this gets a segment of its own size, ...
pub const OWN_SEGMENT: u64 = 10 * MIB;
/// ... rounded up to a multiple of this.
pub const SEGMENT_GRANULE: u64 = 2 * MIB;

/// The bytes that a block takes up at least.
#[must_use]
pub const fn rounded(bytes: u64) -> u64 {
    if bytes < GRANULE { GRANULE } else { bytes.next_multiple_of(GRANULE) }
}

/// The size of the segment for a block of this (rounded) size.
#[must_use]
pub const fn segment(size: u64) -> u64 {
    if size <= LARGEST_SMALL {
        SMALL_SEGMENT
    } else if size < OWN_SEGMENT {
        LARGE_SEGMENT
    } else {
        size.next_multiple_of(SEGMENT_GRANULE)
    }
}

/// The caching allocator.
#[derive(Default)]
pub struct Caching {
    device: Device,
    small: Free,
    large: Free,
}

impl Caching {
    /// The pool of a block: of its size as asked for and of the size that it got, which in the
    /// small pool are the same.
    fn pool(&mut self, size: u64) -> &mut Free {
        if size <= LARGEST_SMALL { &mut self.small } else { &mut self.large }
    }
}

impl Policy for Caching {
    fn alloc(&mut self, bytes: u64) -> Handle {
        let size = rounded(bytes);
        let found = match self.pool(size).best(size) {
            Some(found) => found,
            None => {
                let segment = self.device.malloc(segment(size));
                self.pool(size).add(segment);
                segment
            }
        };
        let over = found.len - size;
        let split = if size <= LARGEST_SMALL { over >= GRANULE } else { over > LARGEST_SMALL };
        Handle(self.pool(size).split(found, if split { size } else { found.len }))
    }

    fn free(&mut self, block: Handle) {
        self.pool(block.0.len).add(block.0);
    }

    fn held(&self) -> u64 {
        self.device.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_512_bytes() {
        for (bytes, size) in [(0, 512), (1, 512), (512, 512), (513, 1024), (MIB - 1, MIB)] {
            assert_eq!(rounded(bytes), size);
        }
    }

    #[test]
    fn segments_are_of_three_kinds() {
        for (size, bytes) in [
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 512, 12 * MIB),
        ] {
            assert_eq!(segment(size), bytes, "{size}");
        }
    }

    #[test]
    fn the_pools_share_nothing() {
        let mut caching = Caching::default();
        let large = caching.alloc(5 * MIB);
        let small = caching.alloc(1);
        assert_eq!(caching.held(), 22 * MIB);
        caching.free(large);
        caching.free(small);
        caching.alloc(2 * MIB);
        caching.alloc(MIB);
        assert_eq!(caching.held(), 22 * MIB);
    }

    #[test]
    fn a_small_block_leaves_every_granule_a_large_one_only_more_than_1_mib() {
        let mut caching = Caching::default();
        let small = caching.alloc(MIB - 512);
        caching.alloc(MIB);
        caching.free(small);
        assert_eq!(caching.alloc(MIB - 1024).0.len, MIB - 1024); // 512 bytes are left
        assert_eq!(caching.alloc(19 * MIB).0.len, 20 * MIB); // a segment of its own, rounded up
        assert_eq!(caching.held(), (2 + 20) * MIB);
        assert_eq!(caching.alloc(9 * MIB).0.len, 9 * MIB);
        assert_eq!(caching.alloc(9 * MIB + MIB / 2).0.len, 9 * MIB + MIB / 2);
        assert_eq!(caching.held(), (2 + 20 + 20) * MIB);
        // 1.5 MiB are left: a block of 1 MiB and a bit takes all of it.
        assert_eq!(caching.alloc(MIB + 512).0.len, MIB + MIB / 2);
    }

    #[test]
    fn free_neighbours_are_joined_within_a_segment_only() {
        let mut caching = Caching::default();
        let first = caching.alloc(9 * MIB);
        let second = caching.alloc(9 * MIB);
        caching.free(first);
        caching.free(second);
        let whole = caching.alloc(18 * MIB);
        assert_eq!((whole.0.start, caching.held()), (0, 20 * MIB));
        caching.free(whole);
        caching.alloc(21 * MIB);
        assert_eq!(caching.held(), (20 + 22) * MIB);
    }
}
