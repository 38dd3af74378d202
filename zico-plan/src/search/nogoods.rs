//! What the search has learnt: sets of blocks that cannot all lie as high as they did.
//!
//! A **no-good** is a list of blocks, each with an offset: no plan within the capacity has all of
//! them at these offsets or above. It holds whatever else is placed, so it outlives the part of the
//! search that found it, and a restart. Each is watched at one block that is still below its
//! offset, as the clauses of a SAT solver are: only when that block rises is the no-good looked at.

use alloc::vec::Vec;

use super::super::work::{Work, sorting};
use super::set::Set;
use super::state::{Mark, State};

/// More than this are thinned out at a restart.
const MOST: usize = 4000;

#[derive(Debug)]
struct NoGood {
    /// By block.
    bounds: Vec<(u32, u64)>,
    /// How often it has cut the search short, lately more than long ago.
    used: u32,
}

#[derive(Debug)]
pub(super) struct NoGoods {
    all: Vec<NoGood>,
    /// For each block the no-goods that are watched there, with their offset of it.
    watched: Vec<Vec<(u32, u64)>>,
}

impl NoGoods {
    pub(super) fn new(blocks: usize) -> Self {
        Self { all: Vec::new(), watched: alloc::vec![Vec::new(); blocks] }
    }

    /// Whether one of them has come true since `mark`: its blocks go into `blame`.
    pub(super) fn hit(
        &mut self,
        state: &State,
        mark: Mark,
        blame: &mut [u64],
        work: &mut Work,
    ) -> bool {
        for raised in &state.raised[mark.raised..] {
            work.count(1);
            let block = raised.block as usize;
            let mut k = 0;
            while let Some(&(which, offset)) = self.watched[block].get(k) {
                work.count(1);
                if state.least[block] < offset {
                    k += 1;
                    continue;
                }
                let nogood = &mut self.all[which as usize];
                let is_low = |&(b, offset): &(u32, u64)| state.least[b as usize] < offset;
                let low = nogood.bounds.iter().position(is_low);
                work.count(low.unwrap_or(nogood.bounds.len()) as u64);
                if let Some((other, offset)) = low.map(|low| nogood.bounds[low]) {
                    self.watched[block].swap_remove(k);
                    self.watched[other as usize].push((which, offset));
                } else {
                    nogood.used += 1;
                    blame.fill(0);
                    nogood.bounds.iter().for_each(|&(b, _)| blame.add(b));
                    return true;
                }
            }
        }
        false
    }

    /// Keeps a no-good, of which at least one block has to be below its offset by now.
    pub(super) fn learn(&mut self, state: &State, bounds: &[(u32, u64)]) {
        let low = bounds.iter().find(|&&(b, offset)| state.least[b as usize] < offset);
        if let Some(&(block, offset)) = low {
            self.watched[block as usize].push((self.all.len() as u32, offset));
            self.all.push(NoGood { bounds: bounds.to_vec(), used: 0 });
        }
    }

    /// Forgets half of too many: the least used, the longest of these first. Nothing may be placed.
    pub(super) fn thin(&mut self, work: &mut Work) {
        if self.all.len() <= MOST {
            return;
        }
        work.count(sorting(self.all.len()) + self.watched.len() as u64);
        self.all.sort_by_key(|nogood| (core::cmp::Reverse(nogood.used), nogood.bounds.len()));
        self.all.truncate(MOST / 2);
        self.watched.iter_mut().for_each(Vec::clear);
        for (which, nogood) in (0..).zip(&mut self.all) {
            nogood.used /= 2;
            if let Some(&(block, offset)) = nogood.bounds.iter().find(|bound| bound.1 > 0) {
                self.watched[block as usize].push((which, offset));
            }
        }
    }
}
