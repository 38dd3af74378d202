//! What allocators are timed with: workloads, and zico behind a trait that its peers can be behind
//! too.
//!
//! The peers themselves are in `benches/speed`: only benches need them.

mod workload;
mod zico;

use zico_core::Lifetime;

pub use workload::{
    Op, Outcome, Workload, last_in_first_out, one_size, random, recorded, repeating,
};
pub use zico::{Zico, job, page, pool, started};

/// An allocator of one address space. Sizes are in granules of 512 bytes.
pub trait Allocator {
    /// A live block.
    type Handle: Copy;

    /// None if it is full.
    fn alloc(&mut self, granules: u32, lifetime: Lifetime) -> Option<Self::Handle>;

    /// False if the handle is refused.
    fn free(&mut self, handle: Self::Handle) -> bool;

    /// An iteration begins.
    fn begin(&mut self) -> bool {
        true
    }

    /// An iteration ends.
    fn end(&mut self) -> bool {
        true
    }
}
