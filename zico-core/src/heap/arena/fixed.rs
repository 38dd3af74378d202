//! Blocks at addresses that somebody else has chosen: a plan.
//!
//! Pieces are found by their neighbours, so whoever places a block at an address says which piece
//! is not behind it: the block before, or the sentinel.

use super::Arena;
use super::OptionalU32;
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
