//! One job's memory of one lifetime: places blocks in an address range of its own.
//!
//! The range is much larger than what is ever backed; region-sized pages of it are backed by
//! regions that the pool leases. Because the addresses are the arena's alone, where a block goes
//! depends on the job's own allocations only, never on what other jobs do: an iteration that
//! repeats gets the same addresses and needs the same number of regions each time. That is what
//! makes a job's claim on the budget known.
//!
//! A block that is small beside a page does not lie across the border of two, so that one which
//! outlives its neighbours keeps one region and not two.
//!
//! Placement is exact best fit, ties to the lowest address: first among free bytes that are backed,
//! else where the fewest pages have to be leased ([`grow`]). When a free leaves whole pages empty
//! they go back at once: that is the memory that other jobs can have.
//!
//! # How
//!
//! All below `top` is divided into [`pieces`]: live blocks, free bytes that are backed (*ready*)
//! and free pages that are not (*bare*). They know their neighbours, so a block is split off and
//! joined again in O(1). [`bins`] find the tightest of the ready pieces: best fit packs as well as
//! a search tree by size, which we had before, at the price of a segregated fit. A ready piece
//! holds no whole page but between a lease and the block that it was for, so there are few lengths.
//!
//! A handle has its block's slot, so a free finds it in O(1), and its serial, so that nothing but
//! this very block is freed. Placing and freeing are O(1) but for pieces of about one length, O(log
//! n) of those amortised; for alignments above a granule, and where a small block would lie across
//! a border, the pieces that are long enough and do not fit are looked at too. Positions are sums
//! of lengths that the range has room for, so none overflows.

mod bins;
mod bitmap;
mod fixed;
mod grow;
mod pairing;
mod pieces;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::ops::Range;

use super::compact::OptionalU32;
use crate::types::tuning::SMALL_BLOCK;
use crate::types::units::Bytes;
use bins::Bins;
use grow::Tightest;
use pieces::{Kind, PARKED, Pieces};

pub(crate) use crate::types::block::{GRANULE, Slot};
pub(crate) use fixed::Standing;

/// All positions are offsets into the arena's range.
pub(super) struct Arena {
    /// log2 of a page.
    page_shift: u32,
    /// The range's length.
    len: u64,
    /// Below this lies every block there has been; a multiple of the page size.
    top: u64,
    pieces: Pieces,
    ready: Bins,
    bare: Bins,
    /// For each page below `top`, the bare piece that begins there.
    bare_at: Vec<Slot>,
    /// To look for places in.
    inside: Tightest,
}

impl Arena {
    /// An arena on a range of `len` bytes. A page is a power of two, and at least a granule.
    pub(crate) fn new(page_bytes: u64, len: u64) -> Self {
        let page_shift = page_bytes.trailing_zeros();
        Self {
            page_shift,
            len,
            top: 0,
            pieces: Pieces::new(),
            // What holds no whole page is less than two pages long.
            ready: Bins::new(GRANULE.trailing_zeros(), page_bytes.saturating_mul(2)),
            bare: Bins::new(page_shift, len),
            bare_at: Vec::new(),
            inside: Tightest::default(),
        }
    }

    /// The length of the arena's range.
    pub(crate) fn len(&self) -> Bytes {
        Bytes::new(self.len)
    }

    /// Places a block of `size` bytes at a multiple of `align` where all is backed. Both are
    /// multiples of a granule, and `align` is a power of two. Its slot, and where it begins. The
    /// number that it has among the allocations of its iteration is noted of it.
    // Always inlined, as are the searches and the joins: a call would save and restore as many
    // registers again, and return through memory.
    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        size: u64,
        align: u64,
        serial: u64,
        number: OptionalU32,
    ) -> Option<(Slot, u64)> {
        let (slot, gap) = self.ready.best(&self.pieces, self.fit(size, align))?;
        if self.pieces.is_full() {
            return None;
        }
        if gap > 0 {
            self.cut_gap(slot, gap);
        }
        let piece = &self.pieces[slot];
        if size < piece.len {
            self.ready.take_aside(&mut self.pieces, slot);
            return Some(self.pieces.cut_block(slot, size, serial, number));
        }
        let start = piece.start;
        self.ready.remove(&mut self.pieces, slot);
        self.pieces[slot].become_block(serial, number);
        Some((slot, start))
    }

    /// Cuts the bytes off a ready piece that lie before the place of a block. They wait to be put
    /// into a bin, then what is left.
    #[cold]
    fn cut_gap(&mut self, slot: Slot, gap: u64) {
        self.ready.take_aside(&mut self.pieces, slot);
        let front = self.pieces.split_front(slot, gap);
        self.ready.insert(&mut self.pieces, front);
    }

    /// The number that was noted of a live block.
    #[inline]
    pub(crate) fn noted(&self, slot: Slot) -> OptionalU32 {
        self.pieces[slot].number
    }

    /// A live block is no longer known by its serial, and its place not free yet.
    pub(crate) fn park(&mut self, slot: Slot) {
        self.pieces[slot].serial = PARKED;
    }

    /// The live blocks in no order: where each begins, its length and its serial.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let live = self.pieces.any_order().filter(|piece| piece.is_live());
        live.map(|piece| (piece.start, piece.len, piece.serial))
    }

    /// The longest piece that is free and backed. O(pieces): for the way that ends in an error.
    pub(crate) fn largest_free(&self) -> Bytes {
        let ready = self.pieces.any_order().filter(|piece| piece.kind == Kind::Ready);
        Bytes::new(ready.map(|piece| piece.len).max().unwrap_or(0))
    }

    /// The live block with this serial, if the slot has it.
    #[inline]
    pub(super) fn live_at(&self, slot: Slot, serial: u64) -> Option<Live> {
        let block = self.pieces.live(slot, serial)?;
        Some(Live { start: block.start, len: block.len, number: block.number })
    }

    /// Takes back a live block. Returns the pages that this left empty, which are backed no more.
    #[inline(always)]
    pub(crate) fn free(&mut self, slot: Slot) -> Range<u64> {
        let slot = self.join(slot, Kind::Ready);
        let pages = self.whole_pages(slot);
        if !pages.is_empty() {
            self.release(slot, pages.clone());
            return pages;
        }
        self.ready.insert(&mut self.pieces, slot);
        0..0
    }

    /// Makes a piece that is in no bins free, and joins it with its neighbours of the same kind.
    /// Returns what it is part of now, which is in no bins either.
    #[inline(always)]
    fn join(&mut self, slot: Slot, kind: Kind) -> Slot {
        let mut slot = slot;
        self.pieces[slot].kind = kind;
        let next = self.pieces[slot].next;
        if self.pieces[next].kind == kind {
            self.take_out(next, kind);
            slot = self.pieces.join_next(slot);
        }
        let prev = self.pieces[slot].prev;
        if self.pieces[prev].kind == kind {
            self.take_out(prev, kind);
            slot = self.pieces.join_next(prev);
        }
        slot
    }

    #[inline]
    fn take_out(&mut self, slot: Slot, kind: Kind) {
        if kind == Kind::Ready {
            self.ready.remove(&mut self.pieces, slot);
        } else {
            self.remove_bare(slot);
        }
    }

    const fn fit(&self, size: u64, align: u64) -> Fit {
        Fit { size, align, page_shift: self.page_shift }
    }

    const fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }
}

/// A live block: where it is, and the number that has been noted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) number: OptionalU32,
}

/// What a block needs of its place.
#[derive(Clone, Copy)]
struct Fit {
    size: u64,
    align: u64,
    page_shift: u32,
}

impl Fit {
    /// The lowest place in a range at which the block fits.
    fn at(self, start: u64, len: u64) -> Option<u64> {
        let mut at = next_multiple(start, self.align)?;
        let mut end = at.checked_add(self.size)?;
        if self.is_across(at, end) {
            // A multiple of the page is one of every alignment.
            at = next_multiple(at, 1 << self.page_shift)?;
            end = at.checked_add(self.size)?;
        }
        (end <= start.checked_add(len)?).then_some(at)
    }

    /// Whether a small block would lie in two pages there.
    #[inline]
    const fn is_across(self, at: u64, end: u64) -> bool {
        self.size <= 1 << self.page_shift >> SMALL_BLOCK && (at ^ (end - 1)) >> self.page_shift != 0
    }
}

/// The next multiple of a power of two, without the division that it takes where the compiler does
/// not know that it is one.
#[inline]
const fn next_multiple(number: u64, power: u64) -> Option<u64> {
    match number.checked_add(power - 1) {
        Some(end) => Some(end & !(power - 1)),
        None => None,
    }
}
