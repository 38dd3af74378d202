//! The arena against its [model](super::model), and its own structure.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::model::Model;
use super::pieces::{NONE, Piece};
use super::*;

const PAGE: u64 = 1 << 21;

/// A small random number generator (PCG).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mixed = ((self.0 >> 18) ^ self.0) >> 27;
        let mixed = (mixed & 0xffff_ffff).rotate_right(u32::try_from(self.0 >> 59).unwrap());
        mixed % end
    }

    /// Each power of two as likely as any other.
    fn size(&mut self, most: u64) -> u64 {
        let octave = self.below(u64::from((most / GRANULE).ilog2()) + 1);
        ((1 << octave) + self.below(1 << octave)).min(most / GRANULE) * GRANULE
    }
}

impl Arena {
    fn all(&self) -> Vec<(Slot, Piece)> {
        let mut all = Vec::new();
        let mut at = self.pieces[NONE].next;
        while at != NONE {
            all.push((at, self.pieces[at]));
            at = self.pieces[at].next;
        }
        all
    }

    /// That the pieces tile all below the top, and the bins have each free one.
    fn check(&self) {
        let all = self.all();
        let mut end = 0;
        let mut before = NONE;
        for (slot, piece) in &all {
            assert_eq!((piece.start, piece.prev), (end, before), "the pieces tile the range");
            assert!(piece.len > 0 && piece.kind != Kind::Absent);
            let joined = piece.kind.is_free() && self.pieces[before].kind == piece.kind;
            assert!(!joined, "neighbours of a kind are one piece");
            if piece.kind == Kind::Bare {
                assert!(piece.start % self.page_bytes() == 0 && piece.len % self.page_bytes() == 0);
            }
            (end, before) = (piece.end(), *slot);
        }
        assert_eq!((end, self.pieces.last()), (self.top, before));
        for (bins, kind) in [(&self.ready, Kind::Ready), (&self.bare, Kind::Bare)] {
            let mut indexed = Vec::new();
            let _ = bins.from(&self.pieces, 0, |slot| {
                indexed.push(slot);
                ControlFlow::Continue(true)
            });
            indexed.sort_unstable();
            let mut slots: Vec<Slot> =
                all.iter().filter(|(_, piece)| piece.kind == kind).map(|&(slot, _)| slot).collect();
            slots.sort_unstable();
            assert_eq!(indexed, slots, "the bins hold what is {kind:?}");
        }
        let marks = self.bare_at.iter().enumerate().filter(|&(_, &slot)| slot != NONE);
        let marks: Vec<(u64, Slot)> =
            marks.map(|(page, &slot)| ((page as u64) << self.page_shift, slot)).collect();
        let bare = all.iter().filter(|(_, piece)| piece.kind == Kind::Bare);
        let bare: Vec<(u64, Slot)> = bare.map(|&(slot, piece)| (piece.start, slot)).collect();
        assert_eq!(marks, bare);
    }
}

/// An arena and its model, with the blocks that live in both.
struct Pair {
    arena: Arena,
    model: Model,
    live: Vec<(Slot, u64, u64, u64)>,
    serial: u64,
}

impl Pair {
    fn new(page: u64, pages: u64) -> Self {
        let (arena, model) = (Arena::new(page, page * pages), Model::new(page, page * pages));
        Self { arena, model, live: Vec::new(), serial: 0 }
    }

    /// Allocates as a job does. Whether there was room in the range.
    fn alloc(&mut self, size: u64, align: u64) -> bool {
        loop {
            self.serial += 1;
            let placed = self.arena.place(size, align, self.serial, OptionalU32::NONE);
            assert_eq!(placed.map(|(_, at)| at), self.model.place(size, align));
            if let Some((slot, at)) = placed {
                self.live.push((slot, self.serial, at, size));
                return true;
            }
            let pages = self.arena.plan(size, align, Vec::new());
            assert_eq!(pages, self.model.plan(size, align), "{size} at {align}");
            let Some(pages) = pages else { return false };
            self.arena.back(&pages);
            self.model.back(&pages);
        }
    }

    fn free(&mut self, index: usize) {
        let (slot, serial, at, size) = self.live.swap_remove(index);
        assert_eq!(self.arena.live_at(slot, serial).map(|live| live.start), Some(at));
        assert_eq!(self.arena.free(slot), self.model.free(at, size));
        assert!(self.arena.live_at(slot, serial).is_none(), "it is freed once");
    }

    fn check(&self) {
        self.arena.check();
        let pieces = self.arena.all();
        let ready = pieces.iter().filter(|(_, piece)| piece.kind == Kind::Ready);
        let ready: Vec<(u64, u64)> = ready.map(|(_, piece)| (piece.start, piece.len)).collect();
        let model = self.model.ready.by_start.iter().map(|(&start, &len)| (start, len));
        assert_eq!(ready, model.collect::<Vec<_>>());
    }
}

/// Steps of one kind of program; every so often everything goes.
fn random_steps(seed: u64, page: u64, pages: u64, most: u64, steps: u64, live: usize) {
    let mut random = Random(seed);
    let mut pair = Pair::new(page, pages);
    for step in 0..steps {
        let grow = pair.live.len() < live && random.below(100) < 55;
        if grow || pair.live.is_empty() {
            // Alignments up to a page now and then.
            let octaves = u64::from((page / GRANULE).ilog2()) + 1;
            let align =
                if random.below(8) == 0 { GRANULE << random.below(octaves) } else { GRANULE };
            pair.alloc(random.size(most), align);
        } else if random.below(4) == 0 {
            pair.free(pair.live.len() - 1);
        } else {
            pair.free(usize::try_from(random.below(pair.live.len() as u64)).unwrap());
        }
        if step % 64 == 0 {
            pair.check();
        }
        if random.below(2_000) == 0 {
            (0..pair.live.len()).for_each(|_| pair.free(0));
            pair.check();
        }
    }
}

#[test]
fn places_frees_and_plans_as_the_model_does() {
    random_steps(1, PAGE, 1_000, 4 * PAGE, 20_000, 300);
    random_steps(2, PAGE, 1_000, PAGE / 8, 20_000, 2_000);
    // Small pages, so that blocks span many and most holes have bare pages in them.
    random_steps(3, 4 * GRANULE, 4_000, 100 * GRANULE, 20_000, 300);
    random_steps(4, GRANULE, 4_000, 20 * GRANULE, 20_000, 300);
    // Few lengths: many ties.
    random_steps(5, 64 * GRANULE, 1_000, 3 * GRANULE, 20_000, 1_000);
    // A range that is used up again and again.
    random_steps(6, 64 * GRANULE, 20, 500 * GRANULE, 20_000, 300);
    // Pages so large that lengths share bins.
    random_steps(7, 1 << 30, 100, 1 << 30, 5_000, 100);
}

#[test]
fn lengths_that_share_a_bin_are_told_apart() {
    let mut random = Random(13);
    let mut pair = Pair::new(1 << 30, 20);
    for _ in 0..10_000 {
        if pair.live.len() < 400 && random.below(100) < 55 {
            // A bin has 16 of these lengths.
            pair.alloc(((1 << 15) + random.below(48)) * GRANULE, GRANULE);
        } else if !pair.live.is_empty() {
            pair.free(usize::try_from(random.below(pair.live.len() as u64)).unwrap());
        }
    }
    pair.check();
}

/// What another thread may do between a plan and its pages.
#[test]
fn pages_can_come_late_and_go_to_another_block() {
    let mut random = Random(11);
    let page = 16 * GRANULE;
    let mut pair = Pair::new(page, 1_000);
    for step in 0..20_000 {
        let (size, align) = (random.size(8 * page), GRANULE << random.below(5));
        if pair.live.len() < 200 && random.below(2) == 0 {
            let pages = pair.model.plan(size, align).unwrap();
            // Blocks come and go that need no pages.
            for _ in 0..random.below(4) {
                if let Some(index) = (pair.live.len() as u64).checked_sub(1) {
                    pair.free(usize::try_from(random.below(index + 1)).unwrap());
                }
            }
            pair.arena.back(&pages);
            pair.model.back(&pages);
            pair.check();
            let size = random.size(2 * page);
            let placed = pair.arena.place(size, align, step + 1, OptionalU32::NONE);
            assert_eq!(placed.map(|(_, at)| at), pair.model.place(size, align));
            pair.live.extend(placed.map(|(slot, at)| (slot, step + 1, at, size)));
        } else if !pair.live.is_empty() {
            pair.free(usize::try_from(random.below(pair.live.len() as u64)).unwrap());
        }
        // A range with whole ready pages in it may be passed over, but not where no other is left.
        let planned = pair.arena.plan(size, align, Vec::new());
        assert_eq!(planned.is_some(), pair.model.plan(size, align).is_some());
        pair.check();
    }
}

/// Grows where needed, as a job does.
fn put(arena: &mut Arena, size: u64) -> (Slot, u64, usize) {
    let mut backed = 0;
    loop {
        if let Some((slot, at)) = arena.place(size, GRANULE, 1, OptionalU32::NONE) {
            return (slot, at, backed);
        }
        let pages = arena.plan(size, GRANULE, Vec::new()).unwrap();
        arena.back(&pages);
        backed += pages.len();
    }
}

fn take(arena: &mut Arena, (slot, at, _): (Slot, u64, usize)) -> Range<u64> {
    assert_eq!(arena.live_at(slot, 1).map(|live| live.start), Some(at));
    arena.free(slot)
}

#[test]
fn blocks_share_pages_and_empty_pages_go_back() {
    let mut arena = Arena::new(PAGE, 100 * PAGE);
    let first = put(&mut arena, 3 * PAGE / 2);
    let second = put(&mut arena, 3 * PAGE / 2);
    assert_eq!((first.1, first.2), (0, 2));
    assert_eq!((second.1, second.2), (3 * PAGE / 2, 1), "it starts in a page half used");
    assert_eq!(take(&mut arena, first), 0..1, "the shared page stays");
    let third = put(&mut arena, PAGE / 2);
    assert_eq!((third.1, third.2), (PAGE, 0), "the rest of the shared page is used first");
    let fourth = put(&mut arena, PAGE);
    assert_eq!((fourth.1, fourth.2), (0, 1), "the hole is filled before the arena grows");
    assert_eq!(take(&mut arena, second), 2..3);
    assert_eq!(take(&mut arena, third), 1..2);
    assert_eq!(take(&mut arena, fourth), 0..1);
    arena.check();
}

#[test]
fn growing_takes_the_place_with_the_fewest_new_pages() {
    let mut arena = Arena::new(PAGE, 100 * PAGE);
    let low = put(&mut arena, 4 * PAGE);
    put(&mut arena, PAGE / 4);
    assert_eq!(take(&mut arena, low), 0..4);
    // In the hole it would take three pages, after the small block two.
    let (_, at, pages) = put(&mut arena, 11 * PAGE / 4);
    assert_eq!((at, pages), (17 * PAGE / 4, 2));
}

#[test]
fn a_full_range_is_no_place() {
    let mut arena = Arena::new(PAGE, 2 * PAGE);
    let (_, at, pages) = put(&mut arena, 2 * PAGE);
    assert_eq!((at, pages), (0, 2));
    assert_eq!(arena.plan(GRANULE, GRANULE, Vec::new()), None);
    assert_eq!(Arena::new(PAGE, 2 * PAGE).plan(u64::MAX - 511, GRANULE, Vec::new()), None);
    assert_eq!(arena.place(u64::MAX - 511, PAGE, 1, OptionalU32::NONE), None);
}

#[test]
fn only_the_very_block_is_freed() {
    let mut arena = Arena::new(PAGE, 2 * PAGE);
    arena.back(&[0]);
    let (slot, at) = arena.place(GRANULE, GRANULE, 7, OptionalU32::NONE).unwrap();
    for (slot, serial) in [(slot, 6), (slot + 1, 7), (NONE, 0), (u32::MAX, 7)] {
        assert_eq!(arena.live_at(slot, serial), None);
    }
    assert_eq!(
        arena.live_at(slot, 7),
        Some(Live { start: at, len: GRANULE, number: OptionalU32::NONE })
    );
    assert_eq!(arena.free(slot), 0..1);
    assert_eq!(arena.live_at(slot, 7), None);
}

#[test]
fn a_small_block_lies_in_one_page() {
    let fit = |size, align| Fit { size, align, page_shift: 12 };
    // At most a 16th of the page is small.
    assert_eq!(fit(256, 1).at(4096 - 100, 4096), Some(4096));
    assert_eq!(fit(256, 1).at(4096 - 256, 4096), Some(4096 - 256));
    assert_eq!(fit(256, 1).at(4096 - 100, 355), None, "behind the border it is too long");
    assert_eq!(fit(256, 1).at(4096 - 100, 356), Some(4096));
    assert_eq!(fit(257, 1).at(4096 - 100, 4096), Some(4096 - 100));
    assert_eq!(fit(256, 512).at(3500, 5000), Some(3584));
    assert_eq!(fit(u64::MAX, 1).at(1, u64::MAX - 1), None);
}

#[test]
fn an_arena_knows_its_length_its_blocks_and_what_is_free() {
    let mut arena = Arena::new(1 << 12, 1 << 20);
    assert_eq!(arena.len(), Bytes::new(1 << 20));
    assert_eq!(arena.largest_free(), Bytes::ZERO);
    let pages = arena.plan(3072, GRANULE, Vec::new()).unwrap();
    arena.back(&pages);
    let (slot, _) = arena.place(3072, GRANULE, 5, OptionalU32::NONE).unwrap();
    assert_eq!(arena.largest_free(), Bytes::new(1024));
    assert_eq!(arena.live().collect::<Vec<_>>(), [(0, 3072, 5)]);
    assert_eq!(
        arena.live_at(slot, 5),
        Some(Live { start: 0, len: 3072, number: OptionalU32::NONE })
    );
    arena.park(slot);
    assert_eq!(arena.live_at(slot, 5), None);
    assert_eq!(arena.live().count(), 0);
    assert_eq!(arena.free(slot), 0..1);
    assert_eq!(arena.largest_free(), Bytes::ZERO);
}
