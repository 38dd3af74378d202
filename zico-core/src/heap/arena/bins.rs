//! Free pieces by their length: finds the tightest that is long enough, and of those the lowest.
//!
//! A segregated fit, in units of a granule or a page. Lengths up to [`EXACT_BINS`] units have a bin
//! each; longer ones share a bin if they differ by less than a 2,048th. So the first
//! bin that is not empty ([`Bitmap`]) has the exact best fit: the piece on top of its heap
//! ([`pairing`]), the tightest of the bin and the lowest of those. Only in the bin that a block's
//! own size falls into there may be pieces that are too short, where lengths share it; those are
//! passed by.
//!
//! The piece that was added last waits outside the bins until another one is added. A program that
//! allocates and frees in turns cuts from the same piece and gives back to it again and again; this
//! way its bin does not change each time.
//!
//! Adding is O(1), taking out O(log of the pieces in that bin) amortised, finding O(1 and those
//! that are passed by).

use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::Fit;
use super::bitmap::Bitmap;
use super::pairing;
use super::pieces::{NONE, Pieces, Slot};
use crate::types::tuning::EXACT_BINS;

/// A bin holds no two lengths that differ by more than this part of them: 2 to the power of so
/// much.
const PRECISION: u32 = EXACT_BINS.ilog2() - 1;

pub(super) struct Bins {
    /// log2 of the unit, of which every length and every start is a multiple.
    shift: u32,
    /// The bin of the longest, and of all that are longer than was expected.
    last: usize,
    /// The top of each bin's heap.
    tops: Vec<Slot>,
    filled: Bitmap,
    /// The piece that waits outside.
    waiting: Slot,
}

impl Bins {
    /// Bins for lengths in units of 2^`shift`, up to about `longest`.
    pub(super) fn new(shift: u32, longest: u64) -> Self {
        const { assert!(bin(u64::MAX) < Bitmap::MOST) };
        let last = bin(longest >> shift);
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
        bin(len >> self.shift).min(self.last)
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
        *top = pairing::push(pieces, *top, slot);
    }

    /// Takes a piece out of its bin, to wait outside: its start and length are about to change.
    #[inline]
    pub(super) fn take_aside(&mut self, pieces: &mut Pieces, slot: Slot) {
        if slot != self.waiting {
            self.remove_from_bin(pieces, slot);
            self.insert(pieces, slot);
        }
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
        *top = pairing::remove(pieces, *top, slot);
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

    /// The tightest piece that is long enough, or none, if every piece is aligned as is asked for.
    #[inline(always)]
    fn tightest(&self, pieces: &Pieces, Fit { size, align, .. }: Fit) -> Option<Slot> {
        if align > 1 << self.shift {
            return None;
        }
        let top = match self.filled.at_least(self.bin(size)) {
            Some(bin) => match self.tops[bin] {
                top if pieces[top].len >= size => top,
                _ => self.tightest_of(pieces, bin, size),
            },
            None => NONE,
        };
        // Where none waits that is the sentinel, whose length is nothing.
        let waits = pieces[self.waiting].len >= size
            && (top == NONE || pieces[self.waiting].key() < pieces[top].key());
        Some(if waits { self.waiting } else { top })
    }

    /// The same from a bin on whose first piece is too short.
    #[cold]
    fn tightest_of(&self, pieces: &Pieces, bin: usize, size: u64) -> Slot {
        let best = pairing::first(pieces, self.tops[bin], |slot| pieces[slot].len >= size);
        if best != NONE {
            return best;
        }
        self.filled.at_least(bin + 1).map_or(NONE, |bin| self.tops[bin])
    }

    /// The same as [`best`](Self::best) where not every piece of a bin will do. O(pieces that do
    /// not).
    #[cold]
    fn search(&self, pieces: &Pieces, block: Fit) -> Option<(Slot, u64)> {
        let fit = |slot: Slot| {
            let piece = &pieces[slot];
            block.at(piece.start, piece.len).is_some()
        };
        let mut from = self.bin(block.size);
        let mut best = NONE;
        while let Some(bin) = self.filled.at_least(from) {
            best = pairing::first(pieces, self.tops[bin], fit);
            if best != NONE {
                break;
            }
            from = bin + 1;
        }
        let waits = self.waiting != NONE && fit(self.waiting);
        if waits && (best == NONE || pieces[self.waiting].key() < pieces[best].key()) {
            best = self.waiting;
        }
        let piece = Some(&pieces[best]).filter(|_| best != NONE)?;
        Some((best, block.at(piece.start, piece.len)? - piece.start))
    }

    /// Shows pieces of at least `len` bytes, and perhaps some that are less: the one that waits,
    /// then those of the shortest bin first, in the order of [`pairing::visit`]. Ends at a break,
    /// and before the bins behind one whose first piece got a no.
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
            pairing::visit(pieces, top, |slot| {
                let answer = show(slot)?;
                more &= answer || slot != top;
                ControlFlow::Continue(answer)
            })?;
            from = bin + 1;
        }
        ControlFlow::Continue(())
    }
}

/// The bin of a length of so many units: the units themselves up to [`EXACT_BINS`], from there on
/// their first twelve bits and how many more there are.
#[expect(clippy::cast_possible_truncation, reason = "see the assertion above")]
#[inline]
const fn bin(units: u64) -> usize {
    let more = (units | 1 << PRECISION).ilog2() - PRECISION;
    (units >> more) as usize + ((more as usize) << PRECISION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_rise_with_the_length_and_are_exact_where_that_is_promised() {
        let around = |power: u32| (1u64 << power).saturating_sub(3)..(1u64 << power) + 3;
        let mut lengths: Vec<u64> = (0..EXACT_BINS).chain((12..63).flat_map(around)).collect();
        lengths.extend([u64::MAX - 1, u64::MAX]);
        lengths.sort_unstable();
        for pair in lengths.windows(2) {
            let (one, next) = (bin(pair[0]), bin(pair[1]));
            assert!(one <= next, "{pair:?}");
            assert!(
                pair[1] >= EXACT_BINS
                    || one as u64 == pair[0] && (pair[0] == pair[1] || one < next)
            );
            let far = pair[1] - pair[0] > pair[0] >> PRECISION;
            assert!(!far || one < next, "{pair:?} are too far apart for one bin");
        }
        let longest = lengths.iter().map(|&units| bin(units)).max();
        assert!(longest < Some(Bitmap::MOST));
    }
}
