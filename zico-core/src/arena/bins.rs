//! Free pieces by their length: finds the tightest that is long enough, and of those the lowest.
//!
//! A segregated fit with a bin for every length there can be, in units of a granule or a page:
//! what a bin holds is of one length, so the first bin that is not empty ([`Bitmap`]) has the exact
//! best fit, and the piece on top of its heap ([`heap`]) is the lowest. Only the last bin mixes
//! lengths, all that are too long for a bin of their own.
//!
//! The piece that was added last waits outside the bins until another one is added. A program that
//! allocates and frees in turns cuts from the same piece and gives back to it again and again; this
//! way its bin does not change each time.
//!
//! Adding is O(1), taking out O(log of the pieces of that length) amortised, finding O(1).

use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::Fit;
use super::bitmap::Bitmap;
use super::heap;
use super::pieces::{NONE, Pieces, Slot};

pub(super) struct Bins {
    /// log2 of the unit, of which every length and every start is a multiple.
    shift: u32,
    /// The bin of all lengths that have none of their own.
    last: usize,
    /// The top of each bin's heap.
    tops: Vec<Slot>,
    filled: Bitmap,
    /// The piece that waits outside.
    waiting: Slot,
}

impl Bins {
    /// Bins for lengths in units of 2^`shift`, of their own for those up to about `longest`.
    pub(super) fn new(shift: u32, longest: u64) -> Self {
        let last = usize::try_from(longest >> shift).unwrap_or(usize::MAX).min(Bitmap::MOST - 1);
        Self {
            shift,
            last,
            tops: vec![NONE; last + 1],
            filled: Bitmap::new(last + 1),
            waiting: NONE,
        }
    }

    #[inline]
    fn bin(&self, len: u64) -> usize {
        usize::try_from(len >> self.shift).unwrap_or(usize::MAX).min(self.last)
    }

    /// Adds a piece. Its start and length stay the same until it is taken out.
    #[inline]
    pub(super) fn insert(&mut self, pieces: &mut Pieces, slot: Slot) {
        let waiting = core::mem::replace(&mut self.waiting, slot);
        if waiting != NONE {
            self.insert_in_bin(pieces, waiting);
        }
    }

    fn insert_in_bin(&mut self, pieces: &mut Pieces, slot: Slot) {
        let bin = self.bin(pieces[slot].len);
        let top = &mut self.tops[bin];
        if *top == NONE {
            self.filled.insert(bin);
        }
        *top = heap::push(pieces, *top, slot);
    }

    /// Takes a piece out.
    #[inline]
    pub(super) fn remove(&mut self, pieces: &mut Pieces, slot: Slot) {
        if slot == self.waiting {
            self.waiting = NONE;
        } else {
            self.remove_from_bin(pieces, slot);
        }
    }

    fn remove_from_bin(&mut self, pieces: &mut Pieces, slot: Slot) {
        let bin = self.bin(pieces[slot].len);
        let top = &mut self.tops[bin];
        *top = heap::remove(pieces, *top, slot);
        if *top == NONE {
            self.filled.remove(bin);
        }
    }

    /// The tightest piece in which a block fits, the lowest of those, and how far from its start.
    #[inline(always)]
    pub(super) fn best(&self, pieces: &Pieces, fit: Fit) -> Option<(Slot, u64)> {
        if let Some(slot) = self.tightest(pieces, fit) {
            let start = pieces[slot].start;
            if slot == NONE {
                return None;
            }
            if !fit.is_across(start, start + fit.size) {
                return Some((slot, 0));
            }
        }
        self.search(pieces, fit)
    }

    /// The tightest piece that is long enough, if all pieces of its bin are, for any alignment that is
    /// asked for.
    #[inline(always)]
    fn tightest(&self, pieces: &Pieces, Fit { size, align, .. }: Fit) -> Option<Slot> {
        let bin = self.filled.at_least(self.bin(size)).unwrap_or(usize::MAX);
        if align > 1 << self.shift || bin == self.last {
            return None;
        }
        let top = self.tops.get(bin).copied().unwrap_or(NONE);
        // Where none waits that is the guard, whose length is nothing.
        let waiting = &pieces[self.waiting];
        if waiting.len < size {
            return Some(top);
        }
        let others = (bin as u64) << self.shift;
        let behind =
            others < waiting.len || others == waiting.len && pieces[top].start < waiting.start;
        Some(if behind && top != NONE { top } else { self.waiting })
    }

    /// The same as [`best`](Self::best) where not every piece of a bin will do. O(pieces that do not).
    #[cold]
    fn search(&self, pieces: &Pieces, block: Fit) -> Option<(Slot, u64)> {
        let fit = |slot: Slot| {
            let piece = &pieces[slot];
            block.at(piece.start, piece.len).is_some()
        };
        let mut from = self.bin(block.size);
        let mut best = NONE;
        while let Some(bin) = self.filled.at_least(from) {
            best = heap::first(pieces, self.tops[bin], fit);
            if best != NONE {
                break;
            }
            from = bin + 1;
        }
        let key = |slot: Slot| (pieces[slot].len, pieces[slot].start);
        let waits = self.waiting != NONE && fit(self.waiting);
        if waits && (best == NONE || key(self.waiting) < key(best)) {
            best = self.waiting;
        }
        let piece = Some(&pieces[best]).filter(|_| best != NONE)?;
        Some((best, block.at(piece.start, piece.len)? - piece.start))
    }

    /// Shows pieces of at least `len` bytes, and perhaps some that are less: the one that waits, then
    /// those of the shortest bin first, in the order of [`heap::visit`]. Ends at a break, and before
    /// the bins behind one whose first piece got a no.
    pub(super) fn from(
        &self,
        pieces: &Pieces,
        len: u64,
        mut show: impl FnMut(Slot) -> ControlFlow<(), bool>,
    ) -> ControlFlow<()> {
        if self.waiting != NONE {
            show(self.waiting)?;
        }
        let (mut from, mut more) = (self.bin(len), true);
        while more && let Some(bin) = self.filled.at_least(from) {
            let top = self.tops[bin];
            heap::visit(pieces, top, |slot| {
                let answer = show(slot)?;
                more &= answer || slot != top;
                ControlFlow::Continue(answer)
            })?;
            from = bin + 1;
        }
        ControlFlow::Continue(())
    }
}
