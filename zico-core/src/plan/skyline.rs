//! Fast: blocks dropped into the lowest valley of a skyline.
//!
//! The skyline is, for each section, where the highest block so far ends. Its lowest valley is filled with a
//! block whose lifetime lies within it; if there is none, the valley is raised to its lower shore.
//! After Sekiyama et al., *Profile-guided memory optimization for deep neural networks*
//! (arXiv 1804.10001), who take the block that lives longest; other choices are tried too.
//!
//! The blocks within a valley are found in a tree over those that begin there, so that a plan takes about
//! O(n log n) for lifetimes as iterations have them, and no list of conflicts.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::problem::Component;

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

/// A plan for a component, with blocks preferred by the weight that each has: sizes, lengths and areas
/// count so many times.
pub(super) fn plan(c: &Component, taste: Taste, weight: &[u32]) -> Vec<u64> {
    let mut offsets = alloc::vec![0; c.len()];
    let mut left = Left::new(c, taste, weight);
    // By first section: the valleys and hills, and how high they are.
    let mut line = Line::new(c.live.len() as u32);
    while left.count > 0 {
        let (from, to, height) = line.lowest();
        match left.best(c, from, to) {
            Some(i) => {
                let offset = height.next_multiple_of(c.align[i]);
                offsets[i] = offset;
                left.remove(c, i);
                line.build(from, (c.from[i], c.to[i]), offset + c.size[i]);
            }
            None => line.raise(from),
        }
    }
    offsets
}

/// The skyline: parts of one height each, by their first section. Neighbours differ in height.
struct Line {
    /// Where the part that begins here ends, and where the one that ends here begins.
    end: Vec<u32>,
    begin: Vec<u32>,
    /// How high the part that begins here is.
    height: Vec<u64>,
    /// All parts, the lowest in front, and some that are no longer there.
    lowest: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Line {
    fn new(sections: u32) -> Self {
        let places = sections as usize + 1;
        let mut line = Self {
            end: alloc::vec![0; places],
            begin: alloc::vec![0; places],
            height: alloc::vec![0; places],
            lowest: BinaryHeap::new(),
        };
        line.insert(0, sections, 0);
        line
    }

    fn insert(&mut self, from: u32, to: u32, height: u64) {
        if from < to {
            self.end[from as usize] = to;
            self.begin[to as usize] = from;
            self.height[from as usize] = height;
            self.lowest.push(Reverse((height, from, to)));
        }
    }

    /// Takes out the lowest valley, the first one of them; it is to be built upon or raised.
    fn lowest(&mut self) -> (u32, u32, u64) {
        while let Some(Reverse((height, from, to))) = self.lowest.pop() {
            let i = from as usize;
            // What was joined has another end by now, or another beginning.
            if self.end[i] == to && self.height[i] == height && self.begin[to as usize] == from {
                return (from, to, height);
            }
        }
        (0, 0, 0)
    }

    /// A block on top of a part of the valley that begins at `from`.
    fn build(&mut self, from: u32, block: (u32, u32), top: u64) {
        let (to, height) = (self.end[from as usize], self.height[from as usize]);
        self.insert(from, block.0, height);
        self.insert(block.1, to, height);
        self.join(block.0, block.1, top);
    }

    /// Raises a valley to its lower shore.
    fn raise(&mut self, from: u32) {
        let to = self.end[from as usize];
        let before = (from > 0).then(|| self.height[self.begin[from as usize] as usize]);
        let after = (to as usize + 1 < self.end.len()).then(|| self.height[to as usize]);
        if let Some(height) = before.into_iter().chain(after).min() {
            self.join(from, to, height);
        }
    }

    /// Puts in a part, joined with neighbours of the same height.
    fn join(&mut self, mut from: u32, mut to: u32, height: u64) {
        // Where two parts met none ends any more, or what is left of them in the heap would come to life.
        if from > 0 && self.height[self.begin[from as usize] as usize] == height {
            from = core::mem::replace(&mut self.begin[from as usize], NONE);
        }
        if (to as usize + 1) < self.end.len() && self.height[to as usize] == height {
            self.begin[to as usize] = NONE;
            to = self.end[to as usize];
        }
        self.insert(from, to, height);
    }
}

/// The blocks that are left, by their first section.
struct Left {
    count: usize,
    /// Those that begin in each section, the one that ends first in front.
    begin: Vec<Vec<u32>>,
    /// A binary tree over the sections: the first end of a block that begins there.
    ends: Vec<u32>,
    /// The place of each block by taste, the best first.
    ranks: Vec<u32>,
    /// The same as a list: who comes after and before a block, and after and before all of them.
    after: Vec<u32>,
    before: Vec<u32>,
    /// Whether shores come before ranks.
    shores: bool,
}

impl Left {
    fn new(c: &Component, taste: Taste, weight: &[u32]) -> Self {
        let (sections, n) = (c.live.len(), c.len());
        let order = taste.order(c, weight);
        let mut left = Self {
            count: n,
            ranks: alloc::vec![0; n],
            after: alloc::vec![NONE; n + 1],
            before: alloc::vec![NONE; n + 1],
            shores: taste == Taste::Shore,
            begin: alloc::vec![Vec::new(); sections],
            ends: alloc::vec![u32::MAX; 2 * sections.next_power_of_two()],
        };
        let mut last = n;
        for (rank, &i) in (0..).zip(&order) {
            left.ranks[i as usize] = rank;
            left.after[last] = i;
            left.before[i as usize] = last as u32;
            last = i as usize;
        }
        for i in 0..n as u32 {
            left.begin[c.from[i as usize] as usize].push(i);
        }
        for section in 0..sections {
            left.begin[section].sort_unstable_by_key(|&i| (c.to[i as usize], i));
            left.renew(c, section);
        }
        left
    }

    fn renew(&mut self, c: &Component, section: usize) {
        let mut node = self.ends.len() / 2 + section;
        self.ends[node] = self.begin[section].first().map_or(u32::MAX, |&i| c.to[i as usize]);
        while node > 1 {
            node /= 2;
            self.ends[node] = self.ends[2 * node].min(self.ends[2 * node + 1]);
        }
    }

    fn remove(&mut self, c: &Component, block: usize) {
        let section = c.from[block] as usize;
        self.begin[section].retain(|&i| i as usize != block);
        self.renew(c, section);
        self.count -= 1;
        let (before, after) = (self.before[block], self.after[block]);
        self.after[before as usize] = after;
        if after != NONE {
            self.before[after as usize] = before;
        }
    }

    /// The best block within a valley.
    fn best(&self, c: &Component, from: u32, to: u32) -> Option<usize> {
        // In a wide valley one of the best fits, in a narrow one there is little to look at.
        let mut next = self.after[self.ranks.len()];
        let mut patience = if self.shores { 0 } else { (to - from) / 4 };
        while patience > 0 && next != NONE {
            let i = next as usize;
            if from <= c.from[i] && c.to[i] <= to {
                return Some(i);
            }
            next = self.after[i];
            patience -= 1;
        }
        let mut best = None;
        let mut section = from;
        while let Some(found) = self.next(section, to) {
            for &i in &self.begin[found as usize] {
                let i = i as usize;
                if c.to[i] > to {
                    break;
                }
                let shores = u32::from(c.from[i] == from) + u32::from(c.to[i] == to);
                let key = (if self.shores { 2 - shores } else { 0 }, self.ranks[i], i);
                if best.is_none_or(|least| key < least) {
                    best = Some(key);
                }
            }
            section = found + 1;
        }
        best.map(|(_, _, i)| i)
    }

    /// The first section from `from` on in which a block begins that ends by `to`.
    fn next(&self, from: u32, to: u32) -> Option<u32> {
        if from >= to {
            return None;
        }
        let leaves = self.ends.len() / 2;
        let mut node = leaves + from as usize;
        while self.ends[node] > to {
            // On to the next subtree to the right.
            while node & 1 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < leaves {
            node *= 2;
            node += usize::from(self.ends[node] > to);
        }
        let found = (node - leaves) as u32;
        (found < to).then_some(found)
    }
}
