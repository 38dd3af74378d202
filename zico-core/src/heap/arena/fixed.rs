//! Blocks at addresses that somebody else has chosen: a plan.
//!
//! Pieces are found by their neighbours, so whoever places a block at an address says which piece
//! is not behind it: the block before, or the sentinel.

use alloc::vec::Vec;

use super::Arena;
use super::OptionalU32;
use super::grow::Candidate;
use super::pieces::{Kind, NONE, PARKED, Slot};

/// A block, parked ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) slot: Slot,
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) serial: u64,
    pub(in crate::heap) number: OptionalU32,
    pub(crate) parked: bool,
}

impl Arena {
    /// Stands for a piece before all others.
    pub(crate) const FIRST: Slot = NONE;

    /// Whether there are no blocks, and nothing is backed. O(1).
    pub(crate) fn is_empty(&self) -> bool {
        let last = self.pieces.last();
        last == self.pieces[NONE].next && (last == NONE || self.pieces[last].kind == Kind::Bare)
    }

    /// Whether pages are backed in which nothing lies.
    pub(crate) fn has_spare(&self) -> bool {
        self.spare().is_some()
    }

    /// All blocks in the order of their addresses. O(pieces).
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Standing> + '_ {
        let next = |&slot: &Slot| Some(self.pieces[slot].next).filter(|&slot| slot != NONE);
        let all = core::iter::successors(next(&NONE), next);
        all.filter(|&slot| self.pieces[slot].kind == Kind::Live).map(|slot| {
            let piece = &self.pieces[slot];
            let (start, len, serial) = (piece.start, piece.len, piece.serial);
            Standing { slot, start, len, serial, number: piece.number, parked: serial == PARKED }
        })
    }

    /// Whether this is a block that is parked.
    pub(crate) fn is_parked(&self, slot: Slot) -> bool {
        self.pieces.is_parked(slot)
    }

    /// Where a block begins, live or parked.
    pub(crate) fn start_of(&self, block: Slot) -> u64 {
        self.pieces[block].start
    }

    /// The first byte behind a block.
    pub(crate) fn end_of(&self, block: Slot) -> u64 {
        self.pieces[block].end()
    }

    /// How many pages a place needs that are not backed. It is free, and the last block before it
    /// is known. O(free pieces that it lies in and that lie before it in its free range).
    pub(crate) fn missing_at(&self, before: Slot, start: u64, size: u64) -> u64 {
        self.missing_count(&self.fixed(before, start), size)
    }

    /// Which they are. The list is one to use again.
    pub(crate) fn pages_at(
        &self,
        before: Slot,
        start: u64,
        size: u64,
        mut pages: Vec<u64>,
    ) -> Vec<u64> {
        pages.clear();
        self.missing(&self.fixed(before, start), size, |run| pages.extend(run));
        pages
    }

    fn fixed(&self, before: Slot, at: u64) -> Candidate {
        let first = self.pieces[before].next;
        let start = if first == NONE { self.top } else { self.pieces[first].start };
        Candidate::at(first, start, at)
    }

    /// Places a block at an address if all of that is free and backed. Its slot. The piece that is
    /// given is not behind the block: O(pieces between).
    pub(crate) fn place_at(
        &mut self,
        from: Slot,
        start: u64,
        size: u64,
        (serial, number): (u64, OptionalU32),
    ) -> Option<Slot> {
        let mut slot = if from == NONE { self.pieces[NONE].next } else { from };
        while slot != NONE && self.pieces[slot].end() <= start {
            slot = self.pieces[slot].next;
        }
        let piece = &self.pieces[slot];
        let is_there = piece.kind == Kind::Ready && piece.start <= start;
        if !is_there || piece.end() < start + size || self.pieces.is_full() {
            return None;
        }
        let gap = start - piece.start;
        self.ready.remove(&mut self.pieces, slot);
        if gap > 0 {
            let front = self.pieces.split_front(slot, gap);
            self.ready.insert(&mut self.pieces, front);
        }
        if size == self.pieces[slot].len {
            self.pieces[slot].become_block(serial, number);
            return Some(slot);
        }
        let (block, _) = self.pieces.cut_block(slot, size, serial, number);
        self.ready.insert(&mut self.pieces, slot);
        Some(block)
    }
}
