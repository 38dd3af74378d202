//! An exact search for a plan of at most a given height.
//!
//! **Branching.** A partial plan places some blocks; every other block has a lowest offset, above
//! all placed blocks that it conflicts with. Take the block b that could end lowest, at h. If there
//! is a plan at all, there is one in which no block can be moved down into free room (an *active*
//! schedule), and in that one either b lies at its lowest offset, or a block that conflicts with b
//! begins below h, and that one lies at its own lowest offset, because nothing that is left could
//! end beneath it. So it is enough to try b and those. This is how Giffler and Thompson (Operations
//! Research, 1960) enumerate active schedules of a job shop; here a block is a job on all sections
//! of its lifetime at once. Blocks far away in time are not tried in every order against each
//! other.
//!
//! **Bounds.** [`room`]: for each section and each offset, what has to lie above it fits, or not.
//!
//! **Sleepers.** When a block c at its lowest offset o has been refuted, its siblings need not try
//! it again (*sleep sets*, Godefroid). More than that: in an active plan c is then held up by a
//! block that conflicts with it and begins beneath its end at o, so its lowest offset rises to the
//! lowest end of those.
//!
//! **Conflicts.** Each refutation names a set of blocks for which it holds if all others are taken
//! away. A refuted node is blamed on the union of what its children are blamed on, and children
//! that are not in that union need not be tried. Where none of these blocks' lowest offsets rose
//! when a block was placed, that placement is not at fault, and neither are its alternatives: the
//! search jumps back over it. So trouble in one part of time does not make the search go through
//! the other parts.
//!
//! **Learning.** [`nogoods`]: what was refuted is kept.
//!
//! **Restarts.** How long a search takes varies by factors of thousands with the order in which
//! blocks are tried. So it is cut off early, and begins again in another order ([`order`]).
//!
//! Bounds by section, cutting at free moments, and the fixed orders are known from MiniMalloc
//! (Moffitt, ASPLOS 2023), which goes through canonical placements in the order of offsets.
//! Everything is held in explicit stacks, so that a search can stop after any step and go on later.

#![expect(clippy::cast_possible_truncation, reason = "blocks are counted in 32 bits")]

mod blame;
mod conflicts;
mod nogoods;
mod order;
mod room;
mod set;
mod state;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::problem::Component;
use super::work::{Work, sorting};
pub(super) use conflicts::Conflicts;
use nogoods::NoGoods;
use order::Orders;
use room::Room;
use set::Set;
use state::{Mark, State};

/// How many nodes the first attempts may go to, or twice as many as there are blocks.
const PATIENCE: u64 = 1500;

/// For so many steps a reason is looked for why a block cannot be where it has been placed. None of
/// MiniMalloc's hard problems needs as many.
const REASONS: u64 = 1 << 22;

/// No block, no set.
const NONE: u32 = u32::MAX;

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    pub(super) component: &'a Component,
    pub(super) conflicts: &'a Conflicts,
    /// The height that a plan may have: at least the largest live sum.
    pub(super) capacity: u64,
}

/// How a search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is a plan: [`Search::offsets`].
    Found,
    /// There is none.
    Impossible,
    /// The work is spent.
    Open,
}

/// One node: a block that could end lowest, and what to try.
#[derive(Debug)]
struct Node {
    star: u32,
    /// Where its children begin; they go on to the next node's.
    children: usize,
    /// The child that is being tried.
    current: usize,
    /// As it was before that child.
    mark: Mark,
    sleepers: usize,
    sets: usize,
}

/// A block to be tried at a node.
#[derive(Clone, Copy, Debug)]
struct Child {
    block: u32,
    /// What it was refuted with, if it was.
    why: u32,
}

/// A block that was refuted at an offset.
#[derive(Clone, Copy, Debug)]
struct Sleeper {
    block: u32,
    offset: u64,
    why: u32,
}

/// A search that can go on.
#[derive(Debug)]
pub(super) struct Search {
    state: State,
    nodes: Vec<Node>,
    children: Vec<Child>,
    sleepers: Vec<Sleeper>,
    /// Sets of blocks, each of `words` words.
    sets: Vec<u64>,
    words: usize,
    /// The blocks that the last refutation is blamed on.
    blame: Vec<u64>,
    room: Room,
    nogoods: NoGoods,
    orders: Orders,
    /// The order of this attempt: the place of each block.
    places: Vec<u32>,
    /// How many nodes this attempt may still go to.
    patience: u64,
    /// Whether the next thing is a new node, not another child of the last one.
    descending: bool,
}

impl Search {
    /// O(n log n).
    pub(super) fn new(ground: &Ground<'_>, work: &mut Work) -> Self {
        let n = ground.component.len();
        // The orders.
        work.count(5 * sorting(n) + ground.component.live.len() as u64);
        let words = n.div_ceil(64);
        let mut search = Self {
            state: State::new(ground),
            nodes: Vec::new(),
            children: Vec::new(),
            sleepers: Vec::new(),
            sets: Vec::new(),
            words,
            blame: alloc::vec![0; words],
            room: Room::new(ground.component.live.len()),
            nogoods: NoGoods::new(n),
            orders: Orders::new(ground),
            places: Vec::new(),
            patience: 0,
            descending: true,
        };
        search.restart(ground, work);
        search
    }

    /// The offsets of a plan that was found.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.state.least
    }

    /// Goes on: tries as many blocks as `turn` has, which it counts down, within the work. The last
    /// of them may take more than is left.
    pub(super) fn run(&mut self, ground: &Ground<'_>, turn: &mut u64, work: &mut Work) -> Outcome {
        while *turn > 0 && work.left() > 0 {
            if self.descending {
                if self.state.left.is_empty() {
                    return Outcome::Found;
                }
                if self.patience == 0 {
                    self.restart(ground, work);
                }
                self.patience -= 1;
                self.open(ground, work);
            }
            *turn -= 1;
            work.count(1);
            self.descending = match self.choose(work) {
                Some(child) if self.descend(ground, child, work) => true,
                Some(_) => false,
                None => {
                    if !self.close(ground, work) {
                        return Outcome::Impossible;
                    }
                    false
                }
            };
            if !self.descending && self.nodes.is_empty() {
                return Outcome::Impossible;
            }
        }
        Outcome::Open
    }

    /// Takes everything back and begins in another order.
    fn restart(&mut self, ground: &Ground<'_>, work: &mut Work) {
        work.count(self.state.raised.len() as u64 + sorting(ground.component.len()));
        while let Some(node) = self.nodes.pop() {
            if node.current != usize::MAX {
                while self.state.lower(node.mark).is_some() {}
                self.state.remove(ground, self.children[node.current].block, node.mark, work);
            }
        }
        self.children.clear();
        self.sleepers.clear();
        self.sets.clear();
        self.nogoods.thin(work);
        let n = ground.component.len() as u64;
        self.patience = (2 * n).max(PATIENCE) * (10 + self.orders.rounds() as u64) / 10;
        self.places = self.orders.next();
        self.descending = true;
    }

    /// A new node.
    fn open(&mut self, ground: &Ground<'_>, work: &mut Work) {
        let key = |&block: &u32| (self.state.end(ground, block), self.places[block as usize]);
        let Some(star) = self.state.left.iter().copied().min_by_key(key) else { return };
        let end = self.state.end(ground, star);
        let children = self.children.len();
        let conflicts = ground.conflicts.of(star as usize).iter().copied();
        let (placed, least) = (&self.state.placed, &self.state.least);
        work.count((self.state.left.len() + conflicts.len()) as u64);
        let rivals = conflicts.filter(|&c| !placed[c as usize] && least[c as usize] < end);
        self.children.extend(rivals.chain([star]).map(|block| Child { block, why: NONE }));
        self.children[children..]
            .sort_unstable_by_key(|c| (least[c.block as usize], self.places[c.block as usize]));
        work.count(sorting(self.children.len() - children));
        self.nodes.push(Node {
            star,
            children,
            current: usize::MAX,
            mark: self.state.mark(),
            sleepers: self.sleepers.len(),
            sets: self.sets.len(),
        });
    }

    /// The next child to try at the last node. If there is none, the node is refuted, and `blame`
    /// has what it is blamed on.
    fn choose(&mut self, work: &mut Work) -> Option<usize> {
        let node = self.nodes.last()?;
        let children = &self.children[node.children..];
        work.count(children.len() as u64);
        let open = |child: &Child| child.why == NONE;
        let starred = |child: &Child| child.block == node.star && child.why != NONE;
        if !children.iter().any(starred) {
            return children.iter().position(open).map(|i| node.children + i);
        }
        // Only what the star is blamed on matters, and what that is blamed on, and so on.
        self.blame.fill(0);
        self.blame.add(node.star);
        let mut united = 0;
        loop {
            let of = |child: &&Child| child.why != NONE && self.blame.has(child.block);
            let refuted: Vec<u32> = children.iter().filter(of).map(|child| child.why).collect();
            work.count((children.len() + refuted.len() * self.words) as u64);
            if refuted.len() == united {
                break;
            }
            united = refuted.len();
            for why in refuted {
                self.blame.unite(set(&self.sets, self.words, why));
            }
        }
        let blamed = |child: &Child| open(child) && self.blame.has(child.block);
        children.iter().position(blamed).map(|i| node.children + i)
    }

    /// Tries a child of the last node. False if it is refuted at once, and then all is as it was
    /// before, at this node or at one before it.
    fn descend(&mut self, ground: &Ground<'_>, child: usize, work: &mut Work) -> bool {
        let block = self.children[child].block;
        if room::buried(ground, &self.state, block, &mut self.blame, work) {
            work.count(self.words as u64);
            self.refute(child);
            return false;
        }
        let Some(node) = self.nodes.last_mut() else { return false };
        node.current = child;
        node.mark = self.state.mark();
        node.sleepers = self.sleepers.len();
        let (mark, first) = (node.mark, node.children);
        let asleep = self.children[first..].iter().filter(|child| child.why != NONE);
        self.sleepers.extend(asleep.map(|child| Sleeper {
            block: child.block,
            offset: self.state.least[child.block as usize],
            why: child.why,
        }));
        work.count((self.children.len() - first) as u64);
        self.state.place(ground, block, work);
        // Whatever work is left: what is found must not depend on how it is dealt out.
        let mut reasons = Work::new(REASONS);
        let refuted = self.oversleep(ground, &mut reasons)
            || self.nogoods.hit(&self.state, mark, &mut self.blame, work)
            || self.room.short(ground, &self.state, mark, &mut self.blame, &mut reasons);
        work.count(reasons.spent());
        if refuted {
            self.blame.members().for_each(|block| self.orders.accuse(block));
            self.back(ground, work);
            return false;
        }
        true
    }
}

fn set(sets: &[u64], words: usize, which: u32) -> &[u64] {
    &sets[which as usize * words..][..words]
}
