//! Whether offsets are a plan: a checker that knows nothing of how they were found.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Block, PlanError};

/// Checks that no two blocks that are alive at once share a byte and that every offset is aligned,
/// and gives the height: the end of the highest block. Blocks of no size and of empty lifetimes
/// take up nothing, wherever they are.
///
/// It goes through time once and keeps the live blocks by address: O(n log n).
///
/// # Errors
/// The first thing that is wrong: the blocks themselves, as [`super::Planner::new`] sees them, or
/// the offsets ([`PlanError::Missing`], [`PlanError::Misplaced`], [`PlanError::Overlap`],
/// [`PlanError::TooLarge`] for one beyond 64 bits).
///
/// ```
/// use zico_plan::{Block, PlanError, check};
///
/// let blocks = [Block::new(0, 4, 100), Block::new(2, 6, 50), Block::new(4, 8, 100)];
/// assert_eq!(check(&blocks, &[0, 100, 0]), Ok(150));
/// let overlap = check(&blocks, &[0, 99, 0]);
/// assert_eq!(overlap, Err(PlanError::Overlap { first: 0, second: 1, at: 2, byte: 99 }));
/// ```
pub fn check(blocks: &[Block], offsets: &[u64]) -> Result<u64, PlanError> {
    super::validate(blocks)?;
    if blocks.len() != offsets.len() {
        return Err(PlanError::Missing { blocks: blocks.len(), offsets: offsets.len() });
    }
    let mut height = 0;
    let mut points: Vec<(u64, bool, usize)> = Vec::new();
    for (i, (block, &offset)) in blocks.iter().zip(offsets).enumerate() {
        if offset % block.align != 0 {
            return Err(PlanError::Misplaced { block: i, offset, align: block.align });
        }
        if block.matters() {
            let end = offset.checked_add(block.size).ok_or(PlanError::TooLarge { block: i })?;
            height = height.max(end);
            points.extend([(block.lower, true, i), (block.upper, false, i)]);
        }
    }
    points.sort_unstable();
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, begins, i) in points {
        let offset = offsets[i];
        if !begins {
            live.remove(&offset);
            continue;
        }
        let below = live.range(..=offset).next_back();
        let above = live.range(offset..offset + blocks[i].size).next();
        for (&start, &other) in below.into_iter().chain(above) {
            if start + blocks[other].size > offset {
                let (first, second) = (other.min(i), other.max(i));
                return Err(PlanError::Overlap { first, second, at, byte: start.max(offset) });
            }
        }
        live.insert(offset, i);
    }
    Ok(height)
}
