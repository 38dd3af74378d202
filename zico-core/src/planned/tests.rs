//! Iterations that repeat, and those that do not.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::Stay;
use super::*;
use crate::units::Bytes;

const PAGE: u64 = 1 << 12;

/// What a program does: allocates so many bytes, or frees what was allocated as the n-th of all.
#[derive(Clone, Copy, Debug)]
enum Op {
    Alloc(u64),
    Free(usize),
}
use Op::{Alloc, Free};

/// A block as the program knows it: its serial and slot, where it is and how long.
type Handle = (u64, Slot, u64, u64);

/// The planned arena of a job whose other arenas place nothing.
struct Program {
    planned: Planned,
    habits: Habits,
    serial: u64,
    signature: Signature,
    live: Vec<Option<Handle>>,
    /// Numbers of blocks that went elsewhere, by serial.
    elsewhere: Vec<(u64, u32)>,
    /// For each allocation of the last iteration where it was placed, if as planned.
    places: Vec<Option<u64>>,
}

impl Program {
    fn new() -> Self {
        Self {
            planned: Planned::new(PAGE, 1 << 30),
            habits: Habits::default(),
            serial: 0,
            signature: Signature::default(),
            live: Vec::new(),
            elsewhere: Vec::new(),
            places: Vec::new(),
        }
    }

    fn begin(&mut self, told: Option<u64>) {
        self.habits.begin(self.serial + 1);
        self.planned.begin(told);
        self.signature = Signature::default();
        self.live.clear();
        self.places.clear();
    }

    fn end(&mut self) {
        let lesson = self.planned.end(&mut self.habits, self.signature, self.serial + 1);
        self.planned.give_up_spare();
        assert!(!self.planned.pages.has_spare(), "nothing is kept for the next iteration");
        if let Some(lesson) = lesson {
            self.planned.install(lesson.plan(PAGE).unwrap());
        }
    }

    fn alloc(&mut self, size: u64) -> Handle {
        self.serial += 1;
        self.signature.push(size);
        let place = |this: &mut Self| this.planned.place(&mut this.habits, size, 1, this.serial);
        let mut placed = if self.planned.follows() { place(self) } else { Placed::Elsewhere };
        if placed == Placed::Bare {
            let spot = self.planned.spot(&mut self.habits, size, 1).unwrap();
            let pages = self.planned.missing(spot, Vec::new());
            assert!(!pages.is_empty());
            self.planned.back(&pages);
            placed = place(self);
        }
        let (slot, start) = match placed {
            Placed::At(slot, start) => (slot, start),
            _ => {
                if self.planned.follows() {
                    self.planned.missed();
                }
                let number = self.habits.next();
                self.habits.made(number, size, 1);
                self.elsewhere.push((self.serial, number));
                (NONE, u64::MAX)
            }
        };
        let handle = (self.serial, slot, start, size);
        if slot != NONE {
            let overlaps =
                |&(from, len, _): &(u64, u64, u64)| from < start + size && start < from + len;
            let others = self.planned.blocks().filter(|block| block.2 != self.serial);
            assert_eq!(others.filter(overlaps).count(), 0, "{handle:?}");
            assert_eq!(self.planned.live(slot, self.serial), Some((start, size)));
        }
        self.places.push((slot != NONE).then_some(start));
        self.live.push(Some(handle));
        handle
    }

    fn free(&mut self, (serial, slot, start, size): Handle) {
        if slot == NONE {
            let number = self.elsewhere.iter().find(|other| other.0 == serial).unwrap().1;
            return self.habits.freed(number, serial);
        }
        assert_eq!(self.planned.live(slot, serial), Some((start, size)));
        let freed = self.planned.free(&mut self.habits, slot, serial, Some(start));
        let (len, pages) = freed.unwrap();
        assert_eq!(len, size);
        assert_eq!(self.planned.live(slot, serial), None);
        let left: Vec<(u64, u64, u64)> = self.planned.blocks().collect();
        let touched = start / PAGE..(start + size).div_ceil(PAGE);
        let has_block = |page: u64| {
            left.iter().any(|&(from, len, _)| from < (page + 1) * PAGE && page * PAGE < from + len)
        };
        let empty: Vec<u64> = touched.filter(|&page| !has_block(page)).collect();
        let pages: Vec<u64> = pages.collect();
        let stays = |&page: &u64| self.planned.pages.is_spare(page);
        assert!(
            pages == empty || pages.is_empty() && empty.iter().all(stays),
            "what is empty goes back, or is kept: {pages:?} of {empty:?}"
        );
    }

    /// Runs an iteration. Returns what is still live in the end.
    fn iteration(&mut self, told: Option<u64>, ops: &[Op]) -> Vec<Handle> {
        self.begin(told);
        for &op in ops {
            match op {
                Alloc(size) => {
                    self.alloc(size);
                }
                Free(which) => {
                    let handle = self.live[which].take().unwrap();
                    self.free(handle);
                }
            }
        }
        self.end();
        core::mem::take(&mut self.live).into_iter().flatten().collect()
    }

    fn planned(&self) -> usize {
        self.places.iter().flatten().count()
    }
}

const FORWARD: [Op; 8] =
    [Alloc(5000), Alloc(512), Free(1), Alloc(9000), Free(0), Alloc(5000), Free(2), Free(3)];

#[test]
fn the_third_of_three_alike_is_planned() {
    let mut job = Program::new();
    for planned in [0, 0, 4, 4] {
        assert_eq!(job.iteration(None, &FORWARD), []);
        assert_eq!(job.planned(), planned);
    }
    let planning = job.planned.planning();
    assert_eq!((planning.plans, planning.placed, planning.missed), (1, 8, 0));
    assert_eq!((planning.height, planning.lower_bound), (Bytes::new(14000), Bytes::new(14000)));
}

#[test]
fn what_is_freed_late_is_not_overlapped_and_the_plan_learns_it() {
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(None, &FORWARD);
    }
    // The first block stays: the fourth, which has its place, goes elsewhere.
    let late =
        [Alloc(5000), Alloc(512), Free(1), Alloc(9000), Alloc(5000), Free(0), Free(2), Free(3)];
    job.iteration(None, &late);
    assert_eq!((job.planned(), job.places[3]), (3, None));
    job.iteration(None, &late);
    assert_eq!(job.planned(), 4, "planned anew");
    assert_eq!(job.planned.planning().height, Bytes::new(19000));
    job.iteration(None, &FORWARD);
    assert_eq!(job.planned(), 4, "what is freed early is in nobody's way");
}

#[test]
fn what_comes_between_or_is_left_out_costs_little() {
    let mut job = Program::new();
    let step = |i: usize| Alloc(512 * (i as u64 + 1));
    let pairs = |range: Range<usize>, shift: usize| -> Vec<Op> {
        range.flat_map(|i| [step(i), Free(i + shift)]).collect()
    };
    let long = pairs(0..200, 0);
    for _ in 0..3 {
        job.iteration(None, &long);
    }
    assert_eq!(job.planned(), 200);
    let more = [pairs(0..100, 0), [Alloc(777_777), Free(100)].into(), pairs(100..200, 1)];
    job.iteration(None, &more.concat());
    assert_eq!(job.planned(), 200, "one too many");
    let other = [pairs(0..70, 0), [Alloc(999_999), Free(70)].into(), pairs(71..200, 0)];
    job.iteration(None, &other.concat());
    assert_eq!(job.planned(), 199, "one of another size");
    let fewer = long.iter().take(200).copied();
    let rest = (103..200).flat_map(|i| [step(i), Free(i - 3)]);
    job.iteration(None, &fewer.chain(rest).collect::<Vec<_>>());
    assert!((190..197).contains(&job.planned()), "three left out: {}", job.planned());
    let early = [vec![Alloc(999_999), Free(0)], pairs(0..200, 1)].concat();
    job.iteration(None, &early);
    assert_eq!(job.planned(), 0, "it is of another kind from the beginning");
    job.iteration(None, &long);
    assert_eq!(job.planned(), 200, "the plan is still there");
    assert_eq!(job.planned.planning().plans, 1, "none of the others was seen twice");
}

#[test]
fn what_should_be_gone_by_what_is_left_out_is_looked_at() {
    let mut job = Program::new();
    let pair = |i: usize, at: usize| [Alloc(512 * (i as u64 + 1)), Free(at)];
    let first: Vec<Op> = (0..100).flat_map(|i| pair(i, i)).collect();
    let (large, next) = (Alloc(512 * 300), Alloc(512 * 301));
    let pairs: Vec<Op> = (101..107).flat_map(|i| pair(i, i)).collect();
    let ops = [&first[..], &[large], &pairs[..4], &[Free(100)], &pairs[4..], &[next, Free(107)]];
    for _ in 0..3 {
        job.iteration(None, &ops.concat());
    }
    assert_eq!((job.planned(), job.places[100]), (108, job.places[107]), "in one place");
    // The large one stays, and some of those between are left out.
    let fewer: Vec<Op> = (104..107).zip(101..).flat_map(|(i, at)| pair(i, at)).collect();
    let left = job.iteration(None, &[&first[..], &[large], &fewer, &[next, Free(104)]].concat());
    assert_eq!((left.len(), job.places[104]), (1, None));
    job.free(left[0]);
}

#[test]
fn an_iteration_that_ends_early_leaves_nothing_in_the_way_unseen() {
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(None, &FORWARD);
    }
    // Ends while the first block is alive, whose place is the fourth's.
    let left = job.iteration(None, &[Alloc(5000)]);
    assert_eq!((left.len(), job.planned()), (1, 1));
    job.iteration(None, &FORWARD);
    assert_eq!(job.planned(), 0, "what is left lies where the first one would");
    job.free(left[0]);
    job.iteration(None, &FORWARD);
    assert_eq!(job.planned(), 4);
}

#[test]
fn kinds_of_iteration_have_plans_of_their_own() {
    let (a, b) = (FORWARD, [Alloc(5000), Alloc(700), Free(0), Alloc(6000), Free(1), Free(2)]);
    // Untold, both begin with the same allocation, which is nobody's then.
    for (told, elsewhere) in [([None, None], 1), ([Some(1), Some(2)], 0)] {
        let mut job = Program::new();
        for round in 0..4 {
            job.iteration(told[0], &a);
            assert_eq!(
                job.planned(),
                if round < 2 { 0 } else { 4 - elsewhere },
                "{told:?} {round}"
            );
            job.iteration(told[1], &b);
            let known = told[0].is_some() || round > 1;
            let planned = if round < 2 { 0 } else { 3 - elsewhere };
            assert!(!known || job.planned() == planned, "{told:?} {round}: {:?}", job.places);
        }
        assert_eq!(job.planned.planning().plans, 2);
    }
}

#[test]
fn what_is_left_of_an_iteration_is_seen_however_late_the_next_is_understood() {
    let (a, b) = (
        [Alloc(5000), Alloc(9000), Free(1), Alloc(9000), Free(2), Free(0)],
        [Alloc(5000), Alloc(700), Free(1), Free(0)],
    );
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(None, &a);
        job.iteration(None, &b);
    }
    // The last block stays where the one before it was, and will be.
    let without_its_free = [&a[..4], &a[5..]].concat();
    let left = job.iteration(None, &without_its_free);
    assert_eq!((left.len(), job.planned()), (1, 2));
    job.iteration(None, &a);
    assert_eq!(job.planned(), 0, "both would be in its way");
    job.free(left[0]);
}

#[test]
fn what_outlives_its_iteration_takes_turns() {
    let mut job = Program::new();
    let ops = [Alloc(512), Alloc(5000), Free(0), Alloc(700), Free(2)];
    let mut kept: Option<Handle> = None;
    let mut places = Vec::new();
    for round in 0..6 {
        // Of the iteration before it is freed when the new one has been made.
        job.begin(None);
        for &op in &ops {
            match op {
                Alloc(size) => _ = job.alloc(size),
                Free(which) => {
                    let handle = job.live[which].take().unwrap();
                    job.free(handle);
                }
            }
            if matches!(op, Alloc(5000))
                && let Some(old) = kept.take()
            {
                job.free(old);
            }
        }
        kept = job.live[1].take();
        job.end();
        places.push(job.places[1]);
        assert_eq!(job.planned(), if round < 2 { 0 } else { 3 }, "{round}");
    }
    assert_eq!(places[2], places[4]);
    assert_eq!(places[3], places[5]);
    assert_ne!(places[2], places[3]);
    assert_eq!(job.planned.planning().height, Bytes::new(10_700));
}

#[test]
fn what_is_gone_before_its_successor_has_one_place() {
    for (free_at, height) in [(0, 5700), (1, 5700 + 512)] {
        let mut job = Program::new();
        let mut kept: Option<Handle> = None;
        for round in 0..6 {
            if free_at == 0
                && let Some(old) = kept.take()
            {
                job.free(old);
            }
            job.begin(None);
            let first = job.alloc(512);
            if let Some(old) = kept.take() {
                job.free(old);
            }
            let block = job.alloc(700);
            job.free(first);
            job.free(block);
            kept = Some(job.alloc(5000));
            let third = job.alloc(700);
            job.free(third);
            job.end();
            // What outlives the first iteration is known to be freed when the second has ended.
            assert_eq!(job.planned(), if round < 2 { 0 } else { 4 }, "{free_at} {round}");
        }
        let planned = job.planned.planning().height;
        assert!(planned <= Bytes::new(height + 700), "{free_at}: {planned:?}");
    }
}

#[test]
fn a_block_that_others_still_use_keeps_its_place() {
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(None, &FORWARD);
    }
    job.begin(None);
    let parked = job.alloc(5000);
    job.planned.park(parked.1, parked.0);
    assert_eq!(job.planned.live(parked.1, parked.0), None, "it has been freed");
    let blocks = [512, 9000, 5000].map(|size| job.alloc(size));
    assert_eq!(job.places[3], None);
    let pages = job.planned.release(&mut job.habits, parked.1, parked.0);
    assert_eq!(pages.count(), 1);
    blocks.into_iter().for_each(|block| job.free(block));
    job.end();
}

#[test]
fn blocks_that_lie_elsewhere_do_not_count() {
    let planned = Planned::new(PAGE, 1 << 30);
    assert_eq!(planned.live(0, 0), None);
    assert_eq!(planned.live(NONE, 7), None);
    let mut small = Program::new();
    small.planned = Planned::new(PAGE, 8000);
    for _ in 0..4 {
        small.iteration(None, &FORWARD);
        assert_eq!(small.planned(), 0, "the plan is higher than the range is long");
    }
}

mod gaps;
mod random;
mod steps;
