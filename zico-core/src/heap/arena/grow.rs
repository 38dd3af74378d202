//! Pages come and go: which ones to lease for a block, taking them over, giving up what is empty.
//!
//! A free range of an arena is a run of free pieces, ready and bare in turns. Where no ready piece
//! fits, a block's place has bare pages in it, so the candidates are the bare pieces, each with the
//! ready ones around it, and what lies above `top`. As no ready piece beside a bare one holds a
//! whole page, such a range is less than two pages longer than its bare piece: with the bare pieces
//! in bins by length, those that are too short or much too long are not looked at.
//!
//! Planning is O(bare pieces of about the right length), and O(1) of those where they are many;
//! taking over and giving up are O(1) a page. None depends on how many blocks live.

use alloc::vec::Vec;
use core::ops::{ControlFlow, Range};

use super::pieces::{Kind, NONE, Slot};
use super::{Arena, Fit};
use crate::types::tuning::{PIECES_COMPARED, PLACES_COMPARED};

/// A free range, and where in it a block could be.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    len: u64,
    start: u64,
    at: u64,
    first: Slot,
}

/// The tightest places so far, in order. A list to use again: each lease looks for some.
#[derive(Default)]
pub(super) struct Tightest(Vec<Candidate>);

impl Tightest {
    /// The worst, if there are as many as are compared.
    fn worst(&self) -> Option<&Candidate> {
        self.0.get(PLACES_COMPARED - 1)
    }

    /// Adds one, in the place of the worst if there are as many as are compared.
    fn insert(&mut self, candidate: Candidate) {
        self.0.truncate(PLACES_COMPARED - 1);
        let place = self.0.partition_point(|other| *other <= candidate);
        self.0.insert(place, candidate);
    }
}

impl Arena {
    /// Where `size` bytes could go if more pages were backed, and which: the fewest, then the
    /// tightest place, then the lowest. None if the range is used up. The list is one to use again.
    pub(crate) fn plan(&mut self, size: u64, align: u64, mut pages: Vec<u64>) -> Option<Vec<u64>> {
        pages.clear();
        if self.pieces.is_full() {
            return None;
        }
        let fit = self.fit(size, align);
        if self.ready.best(&self.pieces, fit).is_some() {
            // Another thread has made room since this one found none.
            return Some(pages);
        }
        let on_top = self.on_top(fit);
        let longer = self.page_bytes().saturating_mul(2);
        let mut inside = core::mem::take(&mut self.inside);
        inside.0.clear();
        self.tightest(fit, size.saturating_sub(longer), PIECES_COMPARED, &mut inside);
        if inside.0.is_empty() && on_top.is_none() {
            // The last resort. One page leased for another block may still be whole, beside a bare
            // piece that is shorter than that.
            self.tightest(fit, 0, usize::MAX, &mut inside);
        }
        let mut best: Option<(u64, &Candidate)> = None;
        for place in inside.0.iter().chain(&on_top) {
            let count = self.missing_count(place, size);
            if best.is_none_or(|(least, _)| count < least) {
                best = Some((count, place));
            }
        }
        let best = best.map(|(count, place)| {
            pages.reserve(usize::try_from(count).unwrap_or_default());
            self.missing(place, size, |run| pages.extend(run));
            pages
        });
        self.inside = inside;
        best
    }

    /// The tightest free ranges with bare pages in which a block fits, by length and address. Looks
    /// at so `many` bare pieces, and at few of less than `least` bytes.
    fn tightest(&self, fit: Fit, least: u64, mut many: usize, found: &mut Tightest) {
        let _ = self.bare.from(&self.pieces, least, |slot| {
            many = many.checked_sub(1).map_or(ControlFlow::Break(()), ControlFlow::Continue)?;
            let piece = &self.pieces[slot];
            let worst = found.worst();
            // A range is longer than its bare piece, or begins where that does.
            if worst.is_some_and(|worst| (worst.len, worst.start) < (piece.len, piece.start)) {
                return ControlFlow::Continue(false);
            }
            if let Some(candidate) = self.around(slot, fit)
                && worst.is_none_or(|worst| candidate < *worst)
            {
                found.insert(candidate);
            }
            ControlFlow::Continue(true)
        });
    }

    /// The free range around a bare piece. None if the block does not fit, and if the piece is not
    /// the first bare one in it, so that no range is looked at twice.
    fn around(&self, slot: Slot, fit: Fit) -> Option<Candidate> {
        let mut first = slot;
        let mut before = self.pieces[slot].prev;
        while self.pieces[before].kind.is_free() {
            if self.pieces[before].kind == Kind::Bare {
                return None;
            }
            first = before;
            before = self.pieces[first].prev;
        }
        let mut behind = self.pieces[slot].next;
        while self.pieces[behind].kind.is_free() {
            behind = self.pieces[behind].next;
        }
        let end = if behind == NONE { self.top } else { self.pieces[behind].start };
        let start = self.pieces[first].start;
        let at = fit.at(start, end - start)?;
        Some(Candidate { len: end - start, start, at, first })
    }

    /// The place that begins in the last free range, or above all, and may go on above `top`.
    fn on_top(&self, fit: Fit) -> Option<Candidate> {
        let (mut first, mut start) = (NONE, self.top);
        let mut last = self.pieces.last();
        while self.pieces[last].kind.is_free() {
            (first, start) = (last, self.pieces[last].start);
            last = self.pieces[last].prev;
        }
        let len = self.len.checked_sub(start)?;
        let at = fit.at(start, len)?;
        Some(Candidate { len, start, at, first })
    }

    /// Shows the pages that a place needs and that are not backed, those of a bare piece together.
    #[inline]
    fn missing(&self, place: &Candidate, size: u64, mut show: impl FnMut(Range<u64>)) {
        let (at, end) = (place.at, place.at + size);
        let mut slot = place.first;
        // The sentinel is not free.
        while self.pieces[slot].kind.is_free() && self.pieces[slot].start < end {
            let piece = &self.pieces[slot];
            if piece.kind == Kind::Bare && piece.end() > at {
                show(self.pages_of(piece.start.max(at), piece.end().min(end)));
            }
            slot = piece.next;
        }
        show(self.pages_of(self.top.max(at), end));
    }

    /// How many they are. O(pieces), however long these are.
    fn missing_count(&self, place: &Candidate, size: u64) -> u64 {
        let mut count = 0;
        self.missing(place, size, |run| count += run.end.saturating_sub(run.start));
        count
    }

    /// The pages that a range touches; none if it ends before it begins.
    fn pages_of(&self, start: u64, end: u64) -> Range<u64> {
        let within = end & (self.page_bytes() - 1) != 0;
        start >> self.page_shift..(end >> self.page_shift) + u64::from(within)
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, pages: &[u64]) {
        for &page in pages {
            let start = page << self.page_shift;
            if start >= self.top {
                self.raise(start + self.page_bytes());
            }
            let Some(slot) = self.cut_bare(start) else { continue };
            let slot = self.join(slot, Kind::Ready);
            self.ready.insert(&mut self.pieces, slot);
        }
    }

    /// Gives up those of the pages that have been backed last in which nothing lies: they are
    /// backed no more. O(pages log ready pieces): only those pieces are looked at that hold a whole
    /// page, which none does but between a lease and this.
    pub(crate) fn give_up_spare(&mut self) -> Vec<u64> {
        let mut spare = Vec::new();
        while let Some((slot, pages)) = self.spare() {
            self.ready.remove(&mut self.pieces, slot);
            spare.extend(pages.clone());
            self.release(slot, pages);
        }
        spare
    }

    /// A ready piece that holds whole pages, and which.
    pub(super) fn spare(&self) -> Option<(Slot, Range<u64>)> {
        let mut found = None;
        let _ = self.ready.from(&self.pieces, self.page_bytes(), |slot| {
            let pages = self.whole_pages(slot);
            if pages.is_empty() {
                return ControlFlow::Continue(true);
            }
            found = Some((slot, pages));
            ControlFlow::Break(())
        });
        found
    }

    /// The pages that lie in a piece as a whole.
    pub(super) fn whole_pages(&self, slot: Slot) -> Range<u64> {
        let piece = &self.pieces[slot];
        let within = piece.start & (self.page_bytes() - 1) != 0;
        (piece.start >> self.page_shift) + u64::from(within)..piece.end() >> self.page_shift
    }

    /// Makes all below a new top the arena's, nothing of it backed.
    fn raise(&mut self, top: u64) {
        let slot = self.pieces.push(Kind::Bare, self.top, top - self.top);
        self.top = top;
        if let Ok(pages) = usize::try_from(top >> self.page_shift) {
            self.bare_at.resize(pages, NONE);
        }
        let slot = self.join(slot, Kind::Bare);
        self.insert_bare(slot);
    }

    /// Cuts one page out of the bare piece that it lies in. The page is in no bins then.
    fn cut_bare(&mut self, start: u64) -> Option<Slot> {
        let page = usize::try_from(start >> self.page_shift).ok()?;
        // Mostly the first page of its piece, or else not far behind: what is backed is what has
        // just been planned, from the front of a bare piece on.
        let piece = *self.bare_at.get(..=page)?.iter().rfind(|&&slot| slot != NONE)?;
        let (from, end) = (self.pieces[piece].start, self.pieces[piece].end());
        if start >= end {
            return None;
        }
        self.remove_bare(piece);
        if from < start {
            let front = self.pieces.split_front(piece, start - from);
            self.insert_bare(front);
        }
        if start + self.page_bytes() == end {
            return Some(piece);
        }
        let page = self.pieces.split_front(piece, self.page_bytes());
        self.insert_bare(piece);
        Some(page)
    }

    /// Gives up the pages that lie in a ready piece, which is in no bins: they are bare then, and
    /// what is left of the piece before and behind them is ready.
    #[cold]
    pub(super) fn release(&mut self, slot: Slot, pages: Range<u64>) {
        let (first, last) = (pages.start << self.page_shift, pages.end << self.page_shift);
        let (start, end) = (self.pieces[slot].start, self.pieces[slot].end());
        if start < first {
            let front = self.pieces.split_front(slot, first - start);
            self.ready.insert(&mut self.pieces, front);
        }
        let mut middle = slot;
        if last < end {
            middle = self.pieces.split_front(slot, last - first);
            self.ready.insert(&mut self.pieces, slot);
        }
        let middle = self.join(middle, Kind::Bare);
        self.insert_bare(middle);
    }

    fn insert_bare(&mut self, slot: Slot) {
        self.bare.insert(&mut self.pieces, slot);
        self.mark_bare(self.pieces[slot].start, slot);
    }

    pub(super) fn remove_bare(&mut self, slot: Slot) {
        self.bare.remove(&mut self.pieces, slot);
        self.mark_bare(self.pieces[slot].start, NONE);
    }

    fn mark_bare(&mut self, start: u64, slot: Slot) {
        let page = usize::try_from(start >> self.page_shift).ok();
        if let Some(at) = page.and_then(|page| self.bare_at.get_mut(page)) {
            *at = slot;
        }
    }
}
