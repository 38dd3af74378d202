//! Who conflicts with whom.

use alloc::vec::Vec;

use super::super::problem::Component;

/// For each block those that are alive at the same time, in one list.
#[derive(Debug)]
pub(in super::super) struct Conflicts {
    first: Vec<u32>,
    all: Vec<u32>,
}

impl Conflicts {
    /// More conflicts than this, counted twice, are not listed: a component that has them is left to
    /// the heuristics.
    pub(in super::super) const MOST: u64 = 1 << 25;

    /// Of a component with at most [`Self::MOST`] of them.
    pub(in super::super) fn new(component: &Component) -> Self {
        let mut lists = Self { first: alloc::vec![0], all: Vec::new() };
        let n = component.len() as u32;
        for i in 0..component.len() {
            let (from, to) = (component.from[i], component.to[i]);
            let meets =
                |&j: &u32| from < component.to[j as usize] && component.from[j as usize] < to;
            lists.all.extend((0..n).filter(|j| *j as usize != i).filter(meets));
            lists.first.push(lists.all.len() as u32);
        }
        lists
    }

    pub(super) fn of(&self, block: usize) -> &[u32] {
        &self.all[self.first[block] as usize..self.first[block + 1] as usize]
    }
}
