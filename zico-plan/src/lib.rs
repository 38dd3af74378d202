//! Offline planning: where each block of an iteration lies, so that all fit in as little memory as
//! can be.
//!
//! An iteration that repeats allocates the same blocks each time, so their addresses can be settled
//! beforehand. The problem is *dynamic storage allocation*: each block has a lifetime, half open in
//! time ([`Block`]), and blocks that are alive at one moment must not overlap in memory. No plan is
//! lower than the largest sum of live bytes; to reach the least height is NP-hard (Garey and
//! Johnson, SR2).
//!
//! A [`Planner`] first drops the blocks into the valleys of a skyline, by several tastes, and by
//! greedy orders. That takes milliseconds for thousands of blocks, and on recorded training
//! iterations it nearly always reaches the bound. What is left of the [work](Planner::work) goes
//! into an exact search for a lower plan, which ends with a plan, or with the proof that there is
//! none. There is an answer at any time, the same for the same blocks and the same work, and
//! [`Planner::run`] can be called again to go on. Parts of the problem that no lifetime connects
//! are planned by themselves.
//!
//! Work is counted in **steps**: one turn of an inner loop, a nanosecond or a few, whatever the
//! size of the problem. So a bound on the work is one on the time, for any lifetimes.
//!
//! A [`Plan`] says how far from the bound it may be. [`check`] verifies offsets, whoever found
//! them; [`baseline`] has the placements of the literature to compare with; [`Extent`] measures how
//! closely the regions that a plan has in use follow the live bytes over time.
//!
//! ```
//! use zico_plan::{Block, Planner, check};
//!
//! # fn main() -> Result<(), zico_plan::PlanError> {
//! // In the order of their sizes, these do not fit in 6 bytes.
//! let blocks = [
//!     Block::new(0, 2, 3),
//!     Block::new(0, 3, 1),
//!     Block::new(1, 4, 2),
//!     Block::new(2, 6, 3),
//!     Block::new(4, 6, 3),
//! ];
//! let plan = Planner::new(&blocks)?.run();
//! assert_eq!((plan.height, plan.proven), (6, true));
//! assert_eq!(check(&blocks, &plan.offsets), Ok(6));
//! # Ok(())
//! # }
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod baseline;
mod check;
mod cover;
mod error;
mod exact;
mod extent;
#[expect(clippy::cast_possible_truncation, reason = "blocks are counted in 32 bits")]
mod greedy;
#[expect(clippy::cast_possible_truncation, reason = "blocks are counted in 32 bits")]
mod online;
mod part;
mod planner;
mod problem;
pub mod relief;
mod search;
mod settle;
#[expect(clippy::cast_possible_truncation, reason = "blocks are counted in 32 bits")]
mod skyline;
mod squeaky;
mod work;

pub use baseline::{Baseline, baseline};
pub use check::check;
pub use error::PlanError;
pub use extent::{Extent, extent};
pub use planner::{Plan, Planner};

pub use cover::{Cover, Runs};
pub use work::{Work, sorting};

/// A block to be placed.
///
/// One of no size, or with an empty lifetime, conflicts with nothing: it gets offset 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The moment, in operations say, at which it begins to live.
    pub lower: u64,
    /// The moment at which it is gone: a block that begins then may have its place.
    pub upper: u64,
    /// Its bytes.
    pub size: u64,
    /// Its offset is a multiple of this, which need not be a power of two: at least 1.
    pub align: u64,
}

impl Block {
    /// A block of `size` bytes that lives from `lower` up to `upper`, at any offset.
    #[must_use]
    pub const fn new(lower: u64, upper: u64, size: u64) -> Self {
        Self { lower, upper, size, align: 1 }
    }

    /// The same at multiples of `align` only.
    #[must_use]
    pub const fn aligned(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// Whether it can conflict with another.
    const fn matters(&self) -> bool {
        self.size > 0 && self.lower < self.upper
    }
}

/// Whether blocks can be planned at all: then no placement that a planner considers goes beyond 64
/// bits.
fn validate(blocks: &[Block]) -> Result<(), PlanError> {
    if u32::try_from(blocks.len()).is_err() {
        return Err(PlanError::TooMany { blocks: blocks.len() });
    }
    let mut sum = 0_u64;
    for (block, &Block { lower, upper, size, align }) in blocks.iter().enumerate() {
        if lower > upper {
            return Err(PlanError::Backwards { block, lower, upper });
        }
        if align == 0 {
            return Err(PlanError::Unaligned { block });
        }
        let most = size.checked_add(align);
        sum = most.and_then(|most| sum.checked_add(most)).ok_or(PlanError::TooLarge { block })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
