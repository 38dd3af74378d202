//! The pieces that an address range is divided into, in the order of their addresses.
//!
//! A slab of nodes, doubly linked by slot number: a piece finds its neighbours in O(1), which is
//! all that splitting and joining need (what boundary tags do where the metadata lies in the memory
//! itself). A slot that is given up is the first to be used again, while it is still in the cache.
//!
//! The first slot is a sentinel node. It is the neighbour of the first piece and of the last, and
//! is of no kind, so that nothing ever has to ask whether there is a neighbour. Nothing else points
//! at it, hence its number stands for "none" everywhere else.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::OptionalU32;
pub(crate) use crate::types::block::Slot;

/// No piece; among neighbours, the sentinel.
pub(super) const NONE: Slot = 0;

/// The serial of a block that has been freed and whose place is not free yet. No other block has
/// it.
pub(super) const PARKED: u64 = u64::MAX;

/// A range with this many pieces takes no more blocks. What frees and leases add beyond is less
/// than three pieces for each page: slots never run out.
const FULL: usize = 1 << 31;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The sentinel, or a slot in no use.
    Absent,
    /// A block.
    Live,
    /// Free, and all of it is backed.
    Ready,
    /// Free, and none of it is backed: whole pages.
    Bare,
}

impl Kind {
    pub(super) const fn is_free(self) -> bool {
        matches!(self, Self::Ready | Self::Bare)
    }
}

/// A cache line each: whoever looks at one looks at most of it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) len: u64,
    /// Tells the block from others that have had its slot.
    pub(super) serial: u64,
    pub(super) prev: Slot,
    /// In a slot that is in no use, the next such slot.
    pub(super) next: Slot,
    /// Of a free piece.
    pub(super) links: Links,
    /// Of a block: which allocation of its iteration it was.
    pub(super) number: OptionalU32,
    pub(super) kind: Kind,
}

/// The place of a free piece in the heap of its bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    /// The first child.
    pub(super) child: Slot,
    /// The next child of the same parent.
    pub(super) sibling: Slot,
    /// The child before, or the parent.
    pub(super) back: Slot,
}

impl Piece {
    const fn new(kind: Kind, start: u64, len: u64) -> Self {
        let links = Links { child: NONE, sibling: NONE, back: NONE };
        let number = OptionalU32::NONE;
        Self { start, len, serial: 0, prev: NONE, next: NONE, links, number, kind }
    }

    /// The order of what fits: the tightest first, and the lowest of those.
    #[inline]
    pub(super) const fn key(&self) -> (u64, u64) {
        (self.len, self.start)
    }

    /// Makes a block of it.
    #[inline]
    pub(super) fn become_block(&mut self, serial: u64, number: OptionalU32) {
        (self.kind, self.serial, self.number) = (Kind::Live, serial, number);
    }

    /// Whether it is a block that has not been freed.
    pub(super) fn is_live(&self) -> bool {
        self.kind == Kind::Live && self.serial != PARKED
    }

    /// The first byte after it. Within the range, whose length is a u64.
    pub(super) const fn end(&self) -> u64 {
        self.start + self.len
    }
}

pub(super) struct Pieces {
    slab: Vec<Piece>,
    /// The first slot in no use.
    vacant: Slot,
}

impl Pieces {
    pub(super) fn new() -> Self {
        Self { slab: vec![Piece::new(Kind::Absent, 0, 0)], vacant: NONE }
    }

    /// Whether no block may be added.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.slab.len() >= FULL
    }

    /// The live block in a slot, if it is the one with this serial.
    #[inline]
    pub(super) fn live(&self, slot: Slot, serial: u64) -> Option<&Piece> {
        let piece = self.slab.get(slot as usize)?;
        (piece.kind == Kind::Live && piece.serial == serial).then_some(piece)
    }

    /// Whether there is a parked block in a slot.
    pub(super) fn is_parked(&self, slot: Slot) -> bool {
        self.live(slot, PARKED).is_some()
    }

    /// Every piece in no order, for the way that ends in an error.
    pub(super) fn any_order(&self) -> impl Iterator<Item = &Piece> {
        self.slab.iter()
    }

    /// The last piece, or the sentinel.
    pub(super) fn last(&self) -> Slot {
        self[NONE].prev
    }

    /// Adds a piece behind all others.
    pub(super) fn push(&mut self, kind: Kind, start: u64, len: u64) -> Slot {
        self.insert_before(NONE, Piece::new(kind, start, len))
    }

    /// Splits the first `len` bytes off a piece: they are a new piece of the same kind before it.
    #[inline]
    pub(super) fn split_front(&mut self, slot: Slot, len: u64) -> Slot {
        let piece = &mut self[slot];
        let front = Piece::new(piece.kind, piece.start, len);
        piece.start += len;
        piece.len -= len;
        self.insert_before(slot, front)
    }

    /// Cuts a block off the front of a longer piece. Its slot, and where it begins.
    #[inline]
    pub(super) fn cut_block(
        &mut self,
        from: Slot,
        len: u64,
        serial: u64,
        number: OptionalU32,
    ) -> (Slot, u64) {
        if self.vacant == NONE {
            self.extend();
        }
        let slot = self.vacant;
        let slab = self.slab.as_mut_slice();
        let rest = &mut slab[from as usize];
        let start = rest.start;
        rest.start += len;
        rest.len -= len;
        let prev = core::mem::replace(&mut rest.prev, slot);
        slab[prev as usize].next = slot;
        let block = &mut slab[slot as usize];
        self.vacant = block.next;
        (block.start, block.len) = (start, len);
        (block.prev, block.next) = (prev, from);
        block.become_block(serial, number);
        (slot, start)
    }

    /// Makes a piece part of the one behind it. Returns that one.
    #[inline]
    pub(super) fn join_next(&mut self, slot: Slot) -> Slot {
        let slab = self.slab.as_mut_slice();
        let piece = &mut slab[slot as usize];
        let (start, len, prev, next) = (piece.start, piece.len, piece.prev, piece.next);
        (piece.kind, piece.next) = (Kind::Absent, self.vacant);
        self.vacant = slot;
        slab[prev as usize].next = next;
        let joined = &mut slab[next as usize];
        (joined.start, joined.prev) = (start, prev);
        joined.len += len;
        next
    }

    #[inline]
    fn insert_before(&mut self, next: Slot, mut piece: Piece) -> Slot {
        if self.vacant == NONE {
            self.extend();
        }
        let slot = self.vacant;
        let slab = self.slab.as_mut_slice();
        let prev = core::mem::replace(&mut slab[next as usize].prev, slot);
        slab[prev as usize].next = slot;
        (piece.prev, piece.next) = (prev, next);
        self.vacant = core::mem::replace(&mut slab[slot as usize], piece).next;
        slot
    }

    /// Adds a slot in no use, where there is none.
    #[cold]
    fn extend(&mut self) {
        #[expect(clippy::cast_possible_truncation, reason = "see FULL")]
        let slot = self.slab.len() as Slot;
        self.slab.push(Piece::new(Kind::Absent, 0, 0));
        self.vacant = slot;
    }
}

/// Every slot that is stored anywhere is one that the slab has, which never shrinks.
impl Index<Slot> for Pieces {
    type Output = Piece;

    #[inline]
    fn index(&self, slot: Slot) -> &Piece {
        &self.slab[slot as usize]
    }
}

impl IndexMut<Slot> for Pieces {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Piece {
        &mut self.slab[slot as usize]
    }
}
