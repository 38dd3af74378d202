//! Refutations: what they are blamed on, how far the search jumps back for them, and the blocks
//! that need not be tried again because of them.

use alloc::vec::Vec;

use super::set::Set;
use super::{Ground, NONE, Search, Sleeper, set};
use crate::work::Work;

impl Search {
    /// Raises the sleepers, as far as the work goes. True if one has nothing left that could hold
    /// it up.
    pub(super) fn oversleep(&mut self, ground: &Ground<'_>, work: &mut Work) -> bool {
        let c = ground.component;
        let mut rose = true;
        while rose {
            rose = false;
            work.count(self.sleepers.len() as u64);
            for (which, sleeper) in (0..).zip(&self.sleepers) {
                let i = sleeper.block as usize;
                if self.state.placed[i] || self.state.floor[i] > sleeper.offset {
                    continue;
                }
                if work.left() == 0 {
                    return false;
                }
                work.count(1 + ground.conflicts.of(i).len() as u64);
                let end = sleeper.offset + c.size[i];
                let under = ground.conflicts.of(i).iter().copied().filter(|&other| {
                    !self.state.placed[other as usize] && self.state.least[other as usize] < end
                });
                let Some(lowest) = under.map(|other| self.state.end(ground, other)).min() else {
                    self.blame.copy_from_slice(set(&self.sets, self.words, sleeper.why));
                    return true;
                };
                let offset = lowest.next_multiple_of(c.align[i]);
                if offset > self.state.least[i] {
                    self.state.raise(sleeper.block, offset, which);
                    rose = true;
                }
            }
        }
        false
    }

    /// Refutes the last node with what is in `blame`. False if nothing is left to try.
    pub(super) fn close(&mut self, ground: &Ground<'_>, work: &mut Work) -> bool {
        let bounds = self.lesson();
        work.count((self.words + self.sleepers.len() + 2 * bounds.len()) as u64);
        self.drop_node();
        let going_on = self.back(ground, work);
        self.nogoods.learn(&self.state, &bounds);
        going_on
    }

    /// What is in `blame` as a no-good: nothing if it holds only beside what is placed, or only
    /// because of a sleeper.
    fn lesson(&self) -> Vec<(u32, u64)> {
        let state = &self.state;
        let slept = |sleeper: &Sleeper| {
            let i = sleeper.block as usize;
            !state.placed[i] && state.floor[i] <= sleeper.offset && self.blame.has(sleeper.block)
        };
        if self.blame.members().any(|b| state.placed[b as usize]) || self.sleepers.iter().any(slept)
        {
            return Vec::new();
        }
        self.blame.members().map(|block| (block, state.least[block as usize])).collect()
    }

    /// Takes back placements up to and with the last one that is at fault for `blame`. False if
    /// none is.
    pub(super) fn back(&mut self, ground: &Ground<'_>, work: &mut Work) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            let (child, mark, sleepers) = (node.current, node.mark, node.sleepers);
            node.current = usize::MAX;
            let block = self.children[child].block;
            let mut at_fault = self.blame.has(block);
            work.count((self.state.raised.len() - mark.raised + self.words) as u64);
            while let Some(raised) = self.state.lower(mark) {
                if !self.blame.has(raised.block) {
                    continue;
                }
                if raised.by == NONE {
                    at_fault = true;
                } else {
                    // It rose because it had been refuted, so that refutation is needed too.
                    let why = self.sleepers[raised.by as usize].why;
                    self.blame.unite(set(&self.sets, self.words, why));
                    at_fault |= self.blame.has(block);
                }
            }
            self.sleepers.truncate(sleepers);
            self.state.remove(ground, block, mark, work);
            if at_fault {
                self.blame.add(block);
                self.refute(child);
                return true;
            }
            self.drop_node();
        }
        false
    }

    /// Writes down that a child of the last node is refuted with `blame`.
    pub(super) fn refute(&mut self, child: usize) {
        self.children[child].why = (self.sets.len() / self.words) as u32;
        self.sets.extend_from_slice(&self.blame);
    }

    pub(super) fn drop_node(&mut self) {
        if let Some(node) = self.nodes.pop() {
            self.children.truncate(node.children);
            self.sets.truncate(node.sets);
        }
    }
}
