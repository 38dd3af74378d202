//! NVIDIA's CNMeM, growing as needed.
//!
//! Read: `src/cnmem.cpp` of NVIDIA/cnmem as of commit `09c2753183477659a0d1ef319437ec08a2fc0abb`.
//!
//! * Sizes are rounded up to 512 bytes (`cnmemMalloc`, `CNMEM_GRANULARITY`).
//! * A block is placed in the smallest free block that is large enough, at the lowest address
//!   (`findBestBlockUnsafe`); whatever is left over is split off (`extractBlockUnsafe`).
//! * Where nothing fits, the device gives as much as the block needs (`allocateBlockUnsafe`).
//! * Free neighbours are joined, but not across two allocations from the device
//!   (`releaseBlockUnsafe`). These stay.
//!
//! CNMeM is meant to begin with one allocation of a size that its user gives, or half the device. A
//! user who knew the right size would get [`best_fit`](crate::best_fit); this model begins with
//! nothing, which is the policy's own doing. Left out: streams, and what the device rounds
//! allocations up to.

use crate::caching::rounded;
use crate::extents::{Device, Free};
use crate::{Handle, Policy};

/// CNMeM.
#[derive(Default)]
pub struct Cnmem {
    device: Device,
    free: Free,
}

impl Policy for Cnmem {
    fn alloc(&mut self, bytes: u64) -> Handle {
        let size = rounded(bytes);
        Handle(match self.free.best(size) {
            Some(found) => self.free.split(found, size),
            None => self.device.malloc(size),
        })
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
    fn the_device_gives_what_a_block_needs() {
        let mut cnmem = Cnmem::default();
        let blocks = [cnmem.alloc(1), cnmem.alloc(4000)];
        assert_eq!(cnmem.held(), 512 + 4096);
        blocks.into_iter().for_each(|block| cnmem.free(block));
        // They are not joined.
        cnmem.alloc(4097);
        assert_eq!(cnmem.held(), 512 + 4096 + 4608);
    }

    #[test]
    fn what_is_left_over_is_split_off_and_joined_again() {
        let mut cnmem = Cnmem::default();
        let whole = cnmem.alloc(4096);
        cnmem.free(whole);
        let parts: Vec<_> = (0..8).map(|_| cnmem.alloc(512)).collect();
        assert_eq!(cnmem.held(), 4096);
        parts.into_iter().for_each(|part| cnmem.free(part));
        assert_eq!(cnmem.alloc(4096).0.start, 0);
        assert_eq!(cnmem.held(), 4096);
    }
}
