//! A partial plan: the blocks placed so far, and the lowest offset that is left for each of the
//! others.

use alloc::vec::Vec;

use super::super::work::Work;
use super::{Ground, NONE};

/// A lowest offset before it was raised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raised {
    pub(super) block: u32,
    pub(super) before: u64,
    /// The sleeper that raised it, or [`NONE`] if the placement of a block did.
    pub(super) by: u32,
}

/// How far back to go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) raised: usize,
    pushed: usize,
}

#[derive(Debug)]
pub(super) struct State {
    /// The lowest offset of a block that is left; the offset of one that is placed.
    pub(super) least: Vec<u64>,
    /// The part of it that is due to placed blocks alone.
    pub(super) floor: Vec<u64>,
    pub(super) placed: Vec<bool>,
    /// The blocks that are not placed, in no order that matters: `position` finds them.
    pub(super) left: Vec<u32>,
    position: Vec<u32>,
    /// The bytes of the blocks that are left, by section.
    pub(super) remaining: Vec<u64>,
    pub(super) raised: Vec<Raised>,
    /// Floors before they were raised.
    pushed: Vec<(u32, u64)>,
}

impl State {
    pub(super) fn new(ground: &Ground<'_>) -> Self {
        let n = ground.component.len();
        Self {
            least: alloc::vec![0; n],
            floor: alloc::vec![0; n],
            placed: alloc::vec![false; n],
            left: (0..n as u32).collect(),
            position: (0..n as u32).collect(),
            remaining: ground.component.live.clone(),
            raised: Vec::new(),
            pushed: Vec::new(),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { raised: self.raised.len(), pushed: self.pushed.len() }
    }

    /// Where a block ends if it lies as low as it can.
    pub(super) fn end(&self, ground: &Ground<'_>, block: u32) -> u64 {
        self.least[block as usize] + ground.component.size[block as usize]
    }

    /// Places a block at its lowest offset, beneath all that conflict with it and are left.
    pub(super) fn place(&mut self, ground: &Ground<'_>, block: u32, work: &mut Work) {
        let (c, i) = (ground.component, block as usize);
        work.count((ground.conflicts.of(i).len() + (c.to[i] - c.from[i]) as usize) as u64);
        self.placed[i] = true;
        self.left.swap_remove(self.position[i] as usize);
        if let Some(&moved) = self.left.get(self.position[i] as usize) {
            self.position[moved as usize] = self.position[i];
        }
        for bytes in &mut self.remaining[c.from[i] as usize..c.to[i] as usize] {
            *bytes -= c.size[i];
        }
        let top = self.end(ground, block);
        for &other in ground.conflicts.of(i) {
            let o = other as usize;
            if self.placed[o] || self.floor[o] >= top {
                continue;
            }
            let offset = top.next_multiple_of(c.align[o]);
            if self.floor[o] < offset {
                self.pushed.push((other, self.floor[o]));
                self.floor[o] = offset;
                self.raise(other, offset, NONE);
            }
        }
    }

    pub(super) fn raise(&mut self, block: u32, offset: u64, by: u32) {
        let least = &mut self.least[block as usize];
        if *least < offset {
            self.raised.push(Raised { block, before: *least, by });
            *least = offset;
        }
    }

    /// Takes back the last raise since `mark`.
    pub(super) fn lower(&mut self, mark: Mark) -> Option<Raised> {
        if self.raised.len() <= mark.raised {
            return None;
        }
        let raised = self.raised.pop()?;
        self.least[raised.block as usize] = raised.before;
        Some(raised)
    }

    /// Takes back the placement of a block, once all that it raised is lowered.
    pub(super) fn remove(&mut self, ground: &Ground<'_>, block: u32, mark: Mark, work: &mut Work) {
        work.count((self.pushed.len() - mark.pushed) as u64);
        for (other, before) in self.pushed.drain(mark.pushed..).rev() {
            self.floor[other as usize] = before;
        }
        let (c, i) = (ground.component, block as usize);
        work.count(u64::from(c.to[i] - c.from[i]));
        self.placed[i] = false;
        for bytes in &mut self.remaining[c.from[i] as usize..c.to[i] as usize] {
            *bytes += c.size[i];
        }
        let place = self.position[i] as usize;
        self.left.push(block);
        let last = self.left.len() - 1;
        self.left.swap(place, last);
        self.position[self.left[last] as usize] = last as u32;
    }
}
