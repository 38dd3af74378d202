//! The placements of the literature, to compare with.

use alloc::vec::Vec;

use super::greedy::{self, Fit, Order};
use super::problem::Component;
use super::work::Work;
use super::{Block, PlanError};

/// A known way to place blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Baseline {
    /// Greedy by size: the largest first, of one size the longest, each at the lowest free place. The
    /// order is that of Pisarchyk and Lee, *Efficient memory management for deep neural net inference*
    /// (arXiv 2001.03288).
    GreedyBySize,
    /// SmartPool: the largest first, of one size the earliest, each in the smallest hole that is large
    /// enough (Zhang et al., arXiv 1903.06631).
    SmartPoolBestFit,
    /// SmartPool: the same order, each in the lowest hole.
    SmartPoolFirstFit,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Self; 3] =
        [Self::GreedyBySize, Self::SmartPoolBestFit, Self::SmartPoolFirstFit];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GreedyBySize => "greedy by size",
            Self::SmartPoolBestFit => "SmartPool best fit",
            Self::SmartPoolFirstFit => "SmartPool first fit",
        }
    }
}

/// The offsets that a baseline gives blocks. O(n^2).
///
/// # Errors
/// The blocks cannot be planned, as [`super::Planner::new`] says.
pub fn baseline(blocks: &[Block], baseline: Baseline) -> Result<Vec<u64>, PlanError> {
    super::validate(blocks)?;
    let mut offsets = alloc::vec![0; blocks.len()];
    for component in Component::all(blocks) {
        let (order, fit) = match baseline {
            Baseline::GreedyBySize => (Order::SizeLife, Fit::First),
            Baseline::SmartPoolBestFit => (Order::Size, Fit::Best),
            Baseline::SmartPoolFirstFit => (Order::Size, Fit::First),
        };
        let order = greedy::order(&component, order);
        let placed = greedy::plan(&component, &order, fit, &mut Work::new(u64::MAX));
        for (&id, offset) in component.ids.iter().zip(placed.into_iter().flatten()) {
            offsets[id as usize] = offset;
        }
    }
    Ok(offsets)
}
