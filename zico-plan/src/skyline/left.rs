//! The blocks that are left, and the best of them within a valley.
//!
//! The blocks in the order of their beginnings are the leaves of a binary tree; a node knows the
//! best of its blocks, and when the first and the last of them ends. Those that begin in a valley
//! are a range of leaves. A node of which no block ends in time, or none is better than what has
//! been found, is not entered; one of which all end in time need not be.

use alloc::vec::Vec;
use core::ops::Range;

use super::super::problem::Component;
use super::super::work::{Work, digits};
use super::NONE;

/// What a node knows of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    /// The least limit and the greatest.
    first: u32,
    last: u32,
    /// The place of the best by taste.
    rank: u32,
}

const EMPTY: Node = Node { first: u32::MAX, last: 0, rank: NONE };

impl Node {
    fn of(one: Self, other: Self) -> Self {
        Self {
            first: one.first.min(other.first),
            last: one.last.max(other.last),
            rank: one.rank.min(other.rank),
        }
    }
}

/// Blocks by a section and, within one, by a limit: where they begin and end, or the other way
/// round.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
    /// The leaf of each block.
    leaf: Vec<u32>,
    /// The limit at each leaf, also of blocks that are gone.
    limits: Vec<u32>,
    /// Where the blocks of each section begin among the leaves, and where all end.
    section: Vec<u32>,
}

impl Tree {
    fn new(sections: usize, ranks: &[u32], of: &[u32], limit: impl Fn(usize) -> u32) -> Self {
        let n = ranks.len();
        let mut blocks: Vec<(u32, u32, u32)> =
            (0..n).map(|i| (of[i], limit(i), i as u32)).collect();
        blocks.sort_unstable();
        let leaves = n.max(1).next_power_of_two();
        let (mut nodes, mut leaf) = (alloc::vec![EMPTY; 2 * leaves], alloc::vec![0; n]);
        let mut section = alloc::vec![0; sections + 1];
        for (place, &(of, limit, i)) in blocks.iter().enumerate() {
            leaf[i as usize] = place as u32;
            section[of as usize + 1] += 1;
            let rank = ranks[i as usize];
            nodes[leaves + place] = Node { first: limit, last: limit, rank };
        }
        for at in 1..section.len() {
            section[at] += section[at - 1];
        }
        for node in (1..leaves).rev() {
            nodes[node] = Node::of(nodes[2 * node], nodes[2 * node + 1]);
        }
        let limits = blocks.into_iter().map(|(_, limit, _)| limit).collect();
        Self { nodes, leaf, limits, section }
    }

    /// The leaves of some sections.
    fn of(&self, from: u32, to: u32) -> Range<usize> {
        self.section[from as usize] as usize..self.section[to as usize] as usize
    }

    /// The leaves of a section that have this limit.
    fn at(&self, section: u32, limit: u32) -> Range<usize> {
        let Range { start, end } = self.of(section, section + 1);
        let limits = &self.limits[start..end];
        let (first, behind) =
            (limits.partition_point(|&l| l < limit), limits.partition_point(|&l| l <= limit));
        start + first..start + behind
    }

    fn remove(&mut self, block: usize, work: &mut Work) -> Option<()> {
        let mut node = self.nodes.len() / 2 + self.leaf[block] as usize;
        self.nodes[node] = EMPTY;
        while node > 1 {
            work.spend(1)?;
            node /= 2;
            let renewed = Node::of(self.nodes[2 * node], self.nodes[2 * node + 1]);
            if core::mem::replace(&mut self.nodes[node], renewed) == renewed {
                break;
            }
        }
        Some(())
    }

    /// The rank of the best of the blocks at these leaves whose limit is no more than this, if it
    /// is better than `best`; else that.
    fn best(&self, of: Range<usize>, limit: u32, best: u32, work: &mut Work) -> Option<u32> {
        let leaves = self.nodes.len() / 2;
        let (mut low, mut high, mut best) = (leaves + of.start, leaves + of.end, best);
        while low < high {
            work.spend(1)?;
            if low & 1 == 1 {
                best = self.below(low, limit, best, work)?;
                low += 1;
            }
            if high & 1 == 1 {
                high -= 1;
                best = self.below(high, limit, best, work)?;
            }
            (low, high) = (low / 2, high / 2);
        }
        Some(best)
    }

    /// The same among the blocks of one node.
    fn below(&self, node: usize, limit: u32, best: u32, work: &mut Work) -> Option<u32> {
        work.spend(1)?;
        let Node { first, last, rank } = self.nodes[node];
        if first > limit || rank >= best {
            return Some(best);
        }
        if last <= limit {
            return Some(rank);
        }
        // The better half first: then the other one is often not entered.
        let (one, other) = (2 * node, 2 * node + 1);
        let swap = self.nodes[other].rank < self.nodes[one].rank;
        let (one, other) = if swap { (other, one) } else { (one, other) };
        let best = self.below(one, limit, best, work)?;
        self.below(other, limit, best, work)
    }
}

/// The blocks that are left.
#[derive(Debug)]
pub(super) struct Left {
    count: usize,
    /// The blocks by taste, the best first.
    order: Vec<u32>,
    /// By their beginnings; limits are ends.
    begins: Tree,
    /// By their ends, where shores come before ranks; limits are beginnings, counted from the last
    /// section back.
    ends: Option<Tree>,
    sections: u32,
}

impl Left {
    pub(super) fn new(c: &Component, order: Vec<u32>, shores: bool) -> Self {
        let mut ranks = alloc::vec![0; c.len()];
        for (rank, &i) in (0..).zip(&order) {
            ranks[i as usize] = rank;
        }
        let sections = c.live.len();
        let back = |i: usize| sections as u32 - c.from[i];
        let begins = Tree::new(sections, &ranks, &c.from, |i| c.to[i]);
        // Blocks end behind the section that is their last.
        let ends = shores.then(|| Tree::new(sections + 1, &ranks, &c.to, back));
        Self { count: c.len(), order, begins, ends, sections: sections as u32 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn remove(&mut self, block: usize, work: &mut Work) -> Option<()> {
        self.count -= 1;
        self.begins.remove(block, work)?;
        self.ends.as_mut().map_or(Some(()), |ends| ends.remove(block, work))
    }

    /// The best block within a valley, if any fits into it; nothing at all if that takes too much
    /// work.
    pub(super) fn best(&self, from: u32, to: u32, work: &mut Work) -> Option<Option<usize>> {
        let mut best = NONE;
        if let Some(ends) = &self.ends {
            let begins = &self.begins;
            work.spend(2 * digits(self.order.len()))?;
            best = begins.best(begins.at(from, to), to, NONE, work)?;
            if best == NONE {
                best = begins.best(begins.of(from, from + 1), to, NONE, work)?;
                best = ends.best(ends.of(to, to + 1), self.sections - from, best, work)?;
            }
        }
        if best == NONE {
            best = self.begins.best(self.begins.of(from, to), to, NONE, work)?;
        }
        Some(self.order.get(best as usize).map(|&i| i as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::at_random;
    use super::*;

    /// The best block of a valley by looking at all.
    fn by_hand(c: &Component, left: &[u32], shores: bool, from: u32, to: u32) -> Option<usize> {
        let key = |&(rank, i): &(usize, usize)| {
            let shore = u32::from(c.from[i] == from) + u32::from(c.to[i] == to);
            (if shores { 2 - shore } else { 0 }, rank)
        };
        let fits = |&(_, i): &(usize, usize)| from <= c.from[i] && c.to[i] <= to;
        let all = left.iter().map(|&i| i as usize).enumerate();
        all.filter(fits).min_by_key(key).map(|(_, i)| i)
    }

    #[test]
    fn the_best_block_of_a_valley_is_found() {
        let mut random = fastrand::Rng::with_seed(5);
        for component in Component::all(&at_random(120, 12)) {
            for shores in [false, true] {
                let mut order: Vec<u32> = (0..component.len() as u32).collect();
                random.shuffle(&mut order);
                let mut left = Left::new(&component, order.clone(), shores);
                let mut work = Work::new(u64::MAX);
                while !left.is_empty() {
                    let sections = component.live.len() as u32;
                    let from = random.u32(0..sections);
                    let to = random.u32(from + 1..=sections);
                    let best = left.best(from, to, &mut work).expect("work enough");
                    assert_eq!(best, by_hand(&component, &order, shores, from, to));
                    let gone = order.remove(random.usize(0..order.len()));
                    left.remove(gone as usize, &mut work).expect("work enough");
                }
            }
        }
    }
}
