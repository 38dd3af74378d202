//! Fast: blocks dropped into the lowest valley of a skyline.
//!
//! The skyline is, for each section, where the highest block so far ends. Its lowest valley is
//! filled with a block whose lifetime lies within it; if there is none, the valley is raised to its
//! lower shore. After Sekiyama et al., *Profile-guided memory optimization for deep neural
//! networks* (arXiv 1804.10001), who take the block that lives longest; other choices are tried
//! too.
//!
//! A block is placed, or a valley is raised, O(n) times, and each time the best block within the
//! valley is looked for in a tree ([`left`]): O(log n) nodes for lifetimes as iterations have them,
//! more for others. No list of conflicts is needed.

mod left;
mod line;

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::problem::Component;
use super::work::{Work, sorting};
use left::Left;
use line::Line;

/// No block.
const NONE: u32 = u32::MAX;

/// What decides between the blocks that fit into a valley.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taste {
    /// The longest, then the largest.
    Longest,
    /// The largest, then the longest.
    Largest,
    /// Of the largest area.
    Area,
    /// One that begins with the valley or ends with it, then the longest.
    Shore,
}

impl Taste {
    /// In the order in which they are tried.
    pub(super) const ALL: [Self; 4] = [Self::Area, Self::Largest, Self::Longest, Self::Shore];

    /// The blocks, the best first, shores left aside.
    fn order(self, c: &Component, weight: &[u32]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..c.len() as u32).collect();
        order.sort_by_cached_key(|&i| {
            let i = i as usize;
            let times = u128::from(weight[i]);
            let (life, size) = (u128::from(c.life[i]), u128::from(c.size[i]));
            Reverse(match self {
                Self::Longest | Self::Shore => (life * times, size * times),
                Self::Largest => (size * times, life * times),
                Self::Area => ((life * size).saturating_mul(times), life),
            })
        });
        order
    }
}

/// A plan for a component, with blocks preferred by the weight that each has: sizes, lengths and
/// areas count so many times. Nothing if it takes more than the work.
pub(super) fn plan(
    c: &Component,
    taste: Taste,
    weight: &[u32],
    work: &mut Work,
) -> Option<Vec<u64>> {
    // The blocks are sorted by taste, by their beginnings, and some by their ends.
    work.spend(3 * sorting(c.len()))?;
    let mut offsets = alloc::vec![0; c.len()];
    let mut left = Left::new(c, taste.order(c, weight), taste == Taste::Shore);
    // By first section: the valleys and hills, and how high they are.
    let mut line = Line::new(c.live.len() as u32);
    while !left.is_empty() {
        let (from, to, height) = line.lowest(work)?;
        match left.best(from, to, work)? {
            Some(i) => {
                let offset = height.next_multiple_of(c.align[i]);
                offsets[i] = offset;
                left.remove(i, work)?;
                line.build(from, (c.from[i], c.to[i]), offset + c.size[i]);
            }
            None => line.raise(from),
        }
    }
    Some(offsets)
}
