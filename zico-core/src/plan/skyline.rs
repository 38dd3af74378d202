//! Fast: blocks dropped into the lowest valley of a skyline.
//!
//! The skyline is, for each section, where the highest block so far ends. Its lowest valley is filled with a
//! block whose lifetime lies within it; if there is none, the valley is raised to its lower shore.
//! After Sekiyama et al., *Profile-guided memory optimization for deep neural networks*
//! (arXiv 1804.10001), who take the block that lives longest; other choices are tried too.
//!
//! The blocks within a valley are found in a tree over those that begin there, so that a plan takes about
//! O(n log n) for lifetimes as iterations have them, and no list of conflicts.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::problem::Component;

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
    pub(super) const ALL: [Self; 4] = [Self::Longest, Self::Largest, Self::Area, Self::Shore];
}

/// A plan for a component, with blocks preferred by the weight that each has: sizes, lengths and areas
/// count so many times.
pub(super) fn plan(c: &Component, taste: Taste, weight: &[u32]) -> Vec<u64> {
    let mut offsets = alloc::vec![0; c.len()];
    let mut left = Left::new(c);
    // By first section: the valleys and hills, and how high they are.
    let mut line = Line::new(c.live.len() as u32);
    while left.count > 0 {
        let (from, to, height) = line.lowest();
        match left.best(c, (from, to), taste, weight) {
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

/// The skyline.
struct Line {
    /// By first section: the end and the height. Neighbours differ in height.
    parts: BTreeMap<u32, (u32, u64)>,
    by_height: BTreeSet<(u64, u32)>,
}

impl Line {
    fn new(sections: u32) -> Self {
        let mut line = Self { parts: BTreeMap::new(), by_height: BTreeSet::new() };
        line.insert(0, sections, 0);
        line
    }

    fn insert(&mut self, from: u32, to: u32, height: u64) {
        if from < to {
            self.parts.insert(from, (to, height));
            self.by_height.insert((height, from));
        }
    }

    fn remove(&mut self, from: u32) -> Option<(u32, u64)> {
        let (to, height) = self.parts.remove(&from)?;
        self.by_height.remove(&(height, from));
        Some((to, height))
    }

    fn lowest(&self) -> (u32, u32, u64) {
        let (height, from) = self.by_height.first().copied().unwrap_or_default();
        (from, self.parts.get(&from).map_or(from, |part| part.0), height)
    }

    /// A block on top of a part of the valley that begins at `from`.
    fn build(&mut self, from: u32, block: (u32, u32), top: u64) {
        if let Some((to, height)) = self.remove(from) {
            self.insert(from, block.0, height);
            self.insert(block.1, to, height);
            self.insert(block.0, block.1, top);
            self.join(block.0);
        }
    }

    /// Raises a valley to its lower shore. What has no shore is left alone.
    fn raise(&mut self, from: u32) {
        let Some(&(to, _)) = self.parts.get(&from) else { return };
        let before = self.parts.range(..from).next_back().map(|(_, part)| part.1);
        let after = self.parts.get(&to).map(|part| part.1);
        if let Some(height) = before.into_iter().chain(after).min() {
            self.remove(from);
            self.insert(from, to, height);
            self.join(from);
        }
    }

    /// Joins the part that begins at `from` with neighbours of the same height.
    fn join(&mut self, from: u32) {
        let Some(&(mut to, height)) = self.parts.get(&from) else { return };
        let mut first = from;
        if let Some((&before, part)) = self.parts.range(..from).next_back()
            && part.1 == height
        {
            first = before;
        }
        if let Some(&(end, after)) = self.parts.get(&to)
            && after == height
        {
            self.remove(to);
            to = end;
        }
        self.remove(from);
        self.remove(first);
        self.insert(first, to, height);
    }
}

/// The blocks that are left, by their first section.
struct Left {
    count: usize,
    /// Those that begin in each section, the one that ends first in front.
    begin: Vec<Vec<u32>>,
    /// A binary tree over the sections: the first end of a block that begins there.
    ends: Vec<u32>,
}

impl Left {
    fn new(c: &Component) -> Self {
        let sections = c.live.len();
        let mut left = Self {
            count: c.len(),
            begin: alloc::vec![Vec::new(); sections],
            ends: alloc::vec![u32::MAX; 2 * sections.next_power_of_two()],
        };
        for i in 0..c.len() as u32 {
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
    }

    /// The best block within a valley.
    fn best(
        &self,
        c: &Component,
        (from, to): (u32, u32),
        taste: Taste,
        weight: &[u32],
    ) -> Option<usize> {
        let mut best = None;
        let mut section = from;
        while let Some(found) = self.next(section, to) {
            for &i in &self.begin[found as usize] {
                let i = i as usize;
                if c.to[i] > to {
                    break;
                }
                let (life, size) = (u128::from(c.life[i]), u128::from(c.size[i]));
                let shores = u128::from(c.from[i] == from) + u128::from(c.to[i] == to);
                let times = u128::from(weight[i]);
                let key = match taste {
                    Taste::Longest => (life * times, size * times, 0),
                    Taste::Largest => (size * times, life * times, 0),
                    Taste::Area => ((life * size).saturating_mul(times), life, 0),
                    Taste::Shore => (shores, life * times, size),
                };
                if best.is_none_or(|(most, _)| key > most) {
                    best = Some((key, i));
                }
            }
            section = found + 1;
        }
        best.map(|(_, i)| i)
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
