//! TensorFlow's BFC ("best fit with coalescing") allocator, growing as needed.
//!
//! Read: `tensorflow/core/common_runtime/bfc_allocator.cc` of tensorflow/tensorflow as of commit
//! `010f3edcdc25a44755a4fc439a31be2282e9e9db` (2021), and where it went later,
//! `third_party/xla/xla/tsl/framework/bfc_allocator.cc` as of
//! `0d7247fd990b8821f3f6e9df135804d5329ff0e5`: the rules below are the same in both.
//!
//! * Sizes are rounded up to 256 bytes (`RoundedBytes`).
//! * A chunk is placed in the smallest free chunk that is large enough, at the lowest address. The
//!   bins by powers of two only speed that up: each is ordered by size and address, and all chunks
//!   of a bin are smaller than those of the next (`FindChunkPtr`, `ChunkComparator`).
//! * The chunk found is split if it is at least twice as large as needed, or 128 MiB too large.
//!   Else it is handed out as a whole.
//! * Where nothing fits, the device gives a new region: of 2 MiB first, and each time of twice the
//!   size, or of the first power of two times that in which the chunk fits (`Extend`).
//! * Free neighbours within a region are joined (`TryToCoalesce`). Regions stay.
//!
//! This is what `allow_growth` does. Without it, TensorFlow takes nearly the whole device at the
//! start, and there is nothing to compare. Left out: the limit of the device, which cuts the last
//! region down to what is there; timestamps.

use crate::extents::{Device, Free};
use crate::{Handle, Policy};

const MIB: u64 = 1 << 20;

/// Every size is a multiple of this.
pub const GRANULE: u64 = 256;
/// The first region.
pub const FIRST_REGION: u64 = 2 * MIB;
/// No chunk is larger than needed by as much as this.
pub const MOST_WASTED: u64 = 128 * MIB;

/// BFC.
pub struct Bfc {
    device: Device,
    /// The size of the next region.
    region: u64,
    free: Free,
}

impl Default for Bfc {
    fn default() -> Self {
        Self { device: Device::default(), region: FIRST_REGION, free: Free::default() }
    }
}

impl Bfc {
    fn extend(&mut self, size: u64) {
        let before = self.region;
        while self.region < size {
            self.region *= 2;
        }
        self.free.add(self.device.malloc(self.region));
        if self.region == before {
            self.region *= 2;
        }
    }
}

impl Policy for Bfc {
    fn alloc(&mut self, bytes: u64) -> Handle {
        let size = bytes.max(1).next_multiple_of(GRANULE);
        let found = loop {
            match self.free.best(size) {
                Some(found) => break found,
                None => self.extend(size),
            }
        };
        let split = found.len >= 2 * size || found.len - size >= MOST_WASTED;
        Handle(self.free.split(found, if split { size } else { found.len }))
    }

    fn free(&mut self, block: Handle) {
        self.free.add(block.0);
    }

    fn held(&self) -> u64 {
        self.device.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_double() {
        let mut bfc = Bfc::default();
        bfc.alloc(2 * MIB);
        assert_eq!(bfc.held(), 2 * MIB);
        bfc.alloc(1);
        assert_eq!(bfc.held(), (2 + 4) * MIB);
        // 8 MiB would be next; 16 are the first that suffice, and the next is of 16 again.
        bfc.alloc(9 * MIB);
        assert_eq!(bfc.held(), (2 + 4 + 16) * MIB);
        bfc.alloc(16 * MIB);
        assert_eq!(bfc.held(), (2 + 4 + 16 + 16) * MIB);
        bfc.alloc(16 * MIB);
        assert_eq!(bfc.held(), (2 + 4 + 16 + 16 + 32) * MIB);
    }

    #[test]
    fn a_chunk_is_split_if_it_is_twice_as_large_or_128_mib_too_large() {
        let mut bfc = Bfc::default();
        assert_eq!(bfc.alloc(1).0.len, 256);
        let rest = 2 * MIB - 256;
        assert_eq!(bfc.alloc(rest / 2 + 256).0.len, rest);
        let mut bfc = Bfc::default();
        assert_eq!(bfc.alloc(129 * MIB).0.len, 256 * MIB);
        assert_eq!(bfc.alloc(384 * MIB).0.len, 384 * MIB);
        assert_eq!(bfc.held(), (256 + 512) * MIB);
    }

    #[test]
    fn neighbours_are_joined_within_a_region_only() {
        let mut bfc = Bfc::default();
        let chunks: Vec<_> = (0..4).map(|_| bfc.alloc(MIB / 2)).collect();
        chunks.into_iter().for_each(|chunk| bfc.free(chunk));
        assert_eq!(bfc.alloc(2 * MIB).0.start, 0);
        assert_eq!(bfc.held(), 2 * MIB);
        let mut bfc = Bfc::default();
        let chunks = [bfc.alloc(2 * MIB), bfc.alloc(4 * MIB)];
        chunks.into_iter().for_each(|chunk| bfc.free(chunk));
        bfc.alloc(6 * MIB);
        assert_eq!(bfc.held(), (2 + 4 + 8) * MIB);
    }
}
