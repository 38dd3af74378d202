//! The skyline itself.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::super::work::{Work, digits};
use super::NONE;

/// The skyline: parts of one height each, by their first section. Neighbours differ in height.
pub(super) struct Line {
    /// Where the part that begins here ends, and where the one that ends here begins.
    end: Vec<u32>,
    begin: Vec<u32>,
    /// How high the part that begins here is.
    height: Vec<u64>,
    /// All parts, the lowest in front, and some that are no longer there.
    lowest: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Line {
    pub(super) fn new(sections: u32) -> Self {
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
    pub(super) fn lowest(&mut self, work: &mut Work) -> Option<(u32, u32, u64)> {
        while let Some(Reverse((height, from, to))) = self.lowest.pop() {
            work.spend(digits(self.lowest.len()))?;
            let i = from as usize;
            // What was joined has another end by now, or another beginning.
            if self.end[i] == to && self.height[i] == height && self.begin[to as usize] == from {
                return Some((from, to, height));
            }
        }
        None
    }

    /// A block on top of a part of the valley that begins at `from`.
    pub(super) fn build(&mut self, from: u32, block: (u32, u32), top: u64) {
        let (to, height) = (self.end[from as usize], self.height[from as usize]);
        self.insert(from, block.0, height);
        self.insert(block.1, to, height);
        self.join(block.0, block.1, top);
    }

    /// Raises a valley to its lower shore.
    pub(super) fn raise(&mut self, from: u32) {
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
