//! Why there is no plan.

use core::fmt;

/// A problem that cannot be planned, or a placement that is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// A lifetime ends before it begins.
    Backwards {
        /// The position of the block.
        block: usize,
        /// Where it begins.
        lower: u64,
        /// Where it ends.
        upper: u64,
    },
    /// An alignment is zero.
    Unaligned {
        /// The position of the block.
        block: usize,
    },
    /// All sizes and alignments together do not fit in 64 bits.
    TooLarge {
        /// The position of the block with which they no longer do.
        block: usize,
    },
    /// There are more blocks than can be counted in 32 bits.
    TooMany {
        /// How many.
        blocks: usize,
    },
    /// There is not one offset for each block.
    Missing {
        /// How many blocks there are.
        blocks: usize,
        /// How many offsets.
        offsets: usize,
    },
    /// An offset is no multiple of the block's alignment.
    Misplaced {
        /// The position of the block.
        block: usize,
        /// Its offset.
        offset: u64,
        /// Its alignment.
        align: u64,
    },
    /// Two blocks are alive at once and share a byte.
    Overlap {
        /// The position of one block.
        first: usize,
        /// The position of the other.
        second: usize,
        /// A moment at which both are alive.
        at: u64,
        /// A byte that both have.
        byte: u64,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Backwards { block, lower, upper } => {
                write!(f, "block {block} ends at {upper}, before it begins at {lower}")
            }
            Self::Unaligned { block } => write!(f, "block {block} has an alignment of 0"),
            Self::TooLarge { block } => {
                write!(
                    f,
                    "the sizes and alignments up to block {block} come to more than 2^64 bytes"
                )
            }
            Self::TooMany { blocks } => write!(f, "{blocks} blocks are more than 2^32"),
            Self::Missing { blocks, offsets } => {
                write!(f, "there are {offsets} offsets for {blocks} blocks")
            }
            Self::Misplaced { block, offset, align } => {
                write!(f, "block {block} is at {offset}, no multiple of {align}")
            }
            Self::Overlap { first, second, at, byte } => {
                write!(f, "blocks {first} and {second} both have byte {byte} at {at}")
            }
        }
    }
}

impl core::error::Error for PlanError {}
