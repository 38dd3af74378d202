//! Whether what is left can still fit: bounds by section, and who is to blame if not.

use alloc::vec::Vec;

use super::super::work::{Work, sorting};
use super::set::Set;
use super::state::{Mark, State};
use super::{Ground, NONE};

/// Room for the work of [`Room::short`].
#[derive(Debug)]
pub(super) struct Room {
    load: Vec<u64>,
    /// The blocks from the highest lowest offset down.
    order: Vec<(u64, u32)>,
}

impl Room {
    pub(super) fn new(sections: usize) -> Self {
        Self { load: alloc::vec![0; sections], order: Vec::new() }
    }

    /// Whether some section has become too small since `mark`: for an offset r, the blocks that cannot
    /// begin below r end above the capacity if they are stacked from r. The blocks of one such
    /// section go into `blame`, without those that would be too many by more than they weigh.
    ///
    /// This is the bound of a single machine with release times, for every section and every r at once.
    /// Where the work ends before all is looked at, nothing is known to be short.
    pub(super) fn short(
        &mut self,
        ground: &Ground<'_>,
        state: &State,
        mark: Mark,
        blame: &mut [u64],
        work: &mut Work,
    ) -> bool {
        let c = ground.component;
        work.count((state.raised.len() - mark.raised) as u64);
        // Only where lowest offsets rose can anything be short that was not before.
        let (mut from, mut to, mut over, mut up_to) = (NONE, 0, u64::MAX, 0);
        for raised in &state.raised[mark.raised..] {
            let i = raised.block as usize;
            from = from.min(c.from[i]);
            to = to.max(c.to[i]);
            over = over.min(raised.before);
            up_to = up_to.max(state.least[i]);
        }
        if from >= to {
            return false;
        }
        self.load[from as usize..to as usize].fill(0);
        self.order.clear();
        for &block in &state.left {
            let i = block as usize;
            if state.least[i] > over && c.from[i] < to && from < c.to[i] {
                self.order.push((!state.least[i], block));
            }
        }
        work.count(state.left.len() as u64 + u64::from(to - from) + sorting(self.order.len()));
        self.order.sort_unstable();
        for k in 0..self.order.len() {
            let i = self.order[k].1 as usize;
            let (first, last) = (c.from[i].max(from) as usize, c.to[i].min(to) as usize);
            if work.spend(1 + (last - first) as u64).is_none() {
                work.count(work.left());
                return false;
            }
            let mut most = 0;
            for load in &mut self.load[first..last] {
                *load += c.size[i];
                most = most.max(*load);
            }
            let least = state.least[i];
            if least <= up_to && most + least > ground.capacity {
                let full = |&s: &usize| self.load[s] == most;
                let section = (first..last).find(full).unwrap_or(first) as u32;
                let stacked = self.order[..=k].iter().map(|pair| pair.1);
                // Where even nothing could begin so high, one of them stays to blame.
                let excess = (most + least - ground.capacity).min(most);
                work.count((k + last - first) as u64);
                accuse(ground, stacked, section, excess, blame);
                return true;
            }
        }
        false
    }
}

/// Whether all that is left of some section cannot lie above `block` at its lowest offset.
pub(super) fn buried(
    ground: &Ground<'_>,
    state: &State,
    block: u32,
    blame: &mut [u64],
    work: &mut Work,
) -> bool {
    let (c, i) = (ground.component, block as usize);
    let room = ground.capacity.saturating_sub(state.least[i]);
    let sections = c.from[i]..c.to[i];
    work.count(sections.len() as u64);
    let Some(section) = sections.into_iter().find(|&s| state.remaining[s as usize] > room) else {
        return false;
    };
    work.count(state.left.len() as u64);
    let others = state.left.iter().copied().filter(|&other| other != block);
    accuse(ground, others, section, state.remaining[section as usize] - room, blame);
    blame.add(block);
    true
}

/// Puts the blocks of a section into `blame`, less some that weigh less than the excess.
fn accuse(
    ground: &Ground<'_>,
    blocks: impl Iterator<Item = u32>,
    section: u32,
    mut excess: u64,
    blame: &mut [u64],
) {
    let c = ground.component;
    blame.fill(0);
    for block in blocks {
        let i = block as usize;
        if c.from[i] <= section && section < c.to[i] {
            if c.size[i] < excess {
                excess -= c.size[i];
            } else {
                blame.add(block);
            }
        }
    }
}
