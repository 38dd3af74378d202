//! Who conflicts with whom.

use alloc::vec::Vec;

use super::super::problem::Component;
use super::super::work::Work;

/// For each block those that are alive at the same time, in one list.
#[derive(Debug)]
pub(in super::super) struct Conflicts {
    first: Vec<u32>,
    all: Vec<u32>,
    /// Up to where each block's part of the list has been filled.
    filled: Vec<u32>,
    /// The largest live sum in the sections of each block.
    fullest: Vec<u64>,
}

impl Conflicts {
    /// More conflicts than this, counted twice, are not listed: a component that has them is left to
    /// the heuristics.
    const MOST: u64 = 1 << 25;

    /// Of a component with at most [`Self::MOST`] of them, not listed yet. O(n).
    pub(in super::super) fn new(component: &Component) -> Option<Self> {
        let degrees = component.conflicts();
        let all = degrees.iter().sum::<u64>();
        if all > Self::MOST {
            return None;
        }
        let mut first = alloc::vec![0];
        let mut sum = 0_u32;
        first.extend(degrees.iter().map(|&degree| (sum += degree as u32, sum).1));
        let filled = first[..component.len()].to_vec();
        let all = alloc::vec![0; all as usize];
        Some(Self { first, all, filled, fullest: Vec::with_capacity(component.len()) })
    }

    /// Goes on listing them. Nothing if the work ends before that is done: it can be gone on with.
    pub(in super::super) fn list(&mut self, c: &Component, work: &mut Work) -> Option<()> {
        // Blocks are numbered by their beginning, so those that begin while one lives come next.
        for i in self.fullest.len()..c.len() {
            if work.left() == 0 {
                return None;
            }
            let sections = &c.live[c.from[i] as usize..c.to[i] as usize];
            let mut others = 0;
            for j in (i + 1..c.len()).take_while(|&j| c.from[j] < c.to[i]) {
                for (one, other) in [(i, j), (j, i)] {
                    self.all[self.filled[one] as usize] = other as u32;
                    self.filled[one] += 1;
                }
                others += 2;
            }
            work.count(1 + others + sections.len() as u64);
            self.fullest.push(sections.iter().copied().max().unwrap_or(0));
        }
        Some(())
    }

    /// All of them are listed by now.
    #[cfg(test)]
    pub(super) fn listed(component: &Component) -> Self {
        let mut lists = Self::new(component).expect("few");
        lists.list(component, &mut Work::new(u64::MAX)).expect("all of them");
        lists
    }

    pub(super) fn of(&self, block: usize) -> &[u32] {
        &self.all[self.first[block] as usize..self.first[block + 1] as usize]
    }

    pub(super) fn fullest(&self, block: usize) -> u64 {
        self.fullest[block]
    }
}
