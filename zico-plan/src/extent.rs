//! How closely the regions that a plan has in use follow the live bytes.

use alloc::vec::Vec;

use super::cover::{Cover, Runs};
use super::work::sorting;
use super::{Block, PlanError};

/// The memory in use over time, in whole regions and in bytes, each summed up over the moments.
///
/// Of two plans of one height the one with fewer region-moments leaves more memory to other jobs: a
/// region can be handed over while none of its blocks lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The size of a region in bytes.
    pub region: u64,
    /// The regions in use, summed up over the moments.
    pub region_moments: u128,
    /// The live bytes, summed up over the moments.
    pub byte_moments: u128,
    /// The most regions in use at a moment.
    pub most: u64,
}

impl Extent {
    /// The bytes of regions in use over the live bytes, both over all moments: 1 at best, and also
    /// where nothing ever lives.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.byte_moments == 0 {
            return 1.0;
        }
        self.region_moments as f64 * self.region as f64 / self.byte_moments as f64
    }
}

/// Measures a plan in regions of `region` bytes (0 counts as 1) that begin at offset 0. O(n log n).
///
/// # Errors
/// The offsets are no plan, as [`super::check`] says.
pub fn extent(blocks: &[Block], offsets: &[u64], region: u64) -> Result<Extent, PlanError> {
    super::check(blocks, offsets)?;
    let matter: Vec<(Block, u64)> = blocks
        .iter()
        .copied()
        .zip(offsets.iter().copied())
        .filter(|pair| pair.0.matters())
        .collect();
    Ok(of(&matter, region.max(1)))
}

/// Measures blocks that matter at offsets that do not overlap. O(n log n): at most [`steps`].
pub(super) fn of(blocks: &[(Block, u64)], region: u64) -> Extent {
    let covered = |&(block, offset): &(Block, u64)| {
        (offset / region, (offset + (block.size - 1)) / region + 1)
    };
    let mut cover = Cover::new(Runs::new(blocks.iter().map(covered)));
    let mut points: Vec<(u64, bool, u64, (usize, usize))> = Vec::with_capacity(2 * blocks.len());
    for pair in blocks {
        let (runs, block) = (cover.runs().of(covered(pair)), pair.0);
        points.push((block.lower, true, block.size, runs));
        points.push((block.upper, false, block.size, runs));
    }
    points.sort_unstable();
    let mut extent = Extent { region, region_moments: 0, byte_moments: 0, most: 0 };
    let (mut now, mut live) = (0, 0_u64);
    for (at, begins, size, runs) in points {
        let (moments, used) = (u128::from(at - now), u128::from(cover.covered()));
        // Neither sum can be more than 2^128: a factor of 64 bits each.
        extent.region_moments = extent.region_moments.saturating_add(moments * used);
        extent.byte_moments = extent.byte_moments.saturating_add(moments * u128::from(live));
        now = at;
        if begins {
            live += size;
            cover.add(runs);
        } else {
            live -= size;
            cover.remove(runs);
        }
        extent.most = extent.most.max(cover.covered());
    }
    extent
}

/// What [`of`] takes at most for so many blocks: it sorts their ends twice, looks for them, and
/// lets each come and go.
pub(super) const fn steps(blocks: usize) -> u64 {
    sorting(2 * blocks).saturating_mul(7)
}
