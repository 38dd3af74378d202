//! Iterations that repeat, and those that do not.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::LiveRange;
use super::*;
use crate::types::units::Bytes;

/// Sizes in these tests are in granules.
const UNIT: u64 = crate::heap::arena::GRANULE;
const PAGE: u64 = 1 << 12;
const PAGE_BYTES: u64 = PAGE * UNIT;

/// What a program does: allocates so much, or frees what was allocated as the n-th of all.
#[derive(Clone, Copy, Debug)]
enum Op {
    Alloc(u64),
    Free(usize),
}
use Op::{Alloc, Free};

/// A block as the program knows it: its serial and slot, where it is and how long.
type Handle = (u64, Slot, u64, u64);

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
    assert_eq!((planning.plans, planning.placed, planning.departed), (1, 8, 0));
    assert_eq!(
        (planning.height, planning.lower_bound),
        (Bytes::new(14000 * UNIT), Bytes::new(14000 * UNIT))
    );
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
    for _ in 0..2 {
        job.iteration(None, &late);
        assert_eq!((job.planned(), job.places[3]), (3, None));
    }
    job.iteration(None, &late);
    assert_eq!(job.planned(), 4, "planned anew when it has come twice");
    assert_eq!(job.planned.planning().height, Bytes::new(19000 * UNIT));
    job.iteration(None, &FORWARD);
    assert_eq!(job.planned(), 4, "what is freed early is in nobody's way");
}

#[test]
fn what_is_not_as_foreseen_ends_the_plan_for_its_iteration() {
    let mut job = Program::new();
    let step = |i: usize| Alloc(512 * (i as u64 + 1));
    let pairs = |range: Range<usize>, shift: usize| -> Vec<Op> {
        range.flat_map(|i| [step(i), Free(i + shift)]).collect()
    };
    let long = pairs(0..200, 0);
    for _ in 0..3 {
        job.iteration(None, &long);
    }
    assert_eq!((job.planned(), job.most), (200, 25));
    let more = [pairs(0..100, 0), [Alloc(77_777), Free(100)].into(), pairs(100..200, 1)].concat();
    let other = [pairs(0..70, 0), [Alloc(99_999), Free(70)].into(), pairs(71..200, 0)].concat();
    let early = [vec![Alloc(99_999), Free(0)], pairs(0..200, 1)].concat();
    let fewer = pairs(0..90, 0);
    for (ops, planned, most) in [(more, 100, 25), (other, 70, 25), (fewer, 90, 12), (early, 0, 25)]
    {
        job.iteration(None, &ops);
        assert_eq!((job.planned(), job.most), (planned, most), "as few pages as it needs");
    }
    job.iteration(None, &long);
    assert_eq!(job.planned(), 200, "the plan is still there");
    assert_eq!(job.planned.planning().plans, 1, "none of the others was seen twice");
    assert_eq!(job.planned.planning().departed, 2);
}

/// What a plan leaves free is used, and pages that it keeps between two blocks are no exception.
#[test]
fn an_iteration_that_departs_takes_no_page_that_it_has_room_for() {
    let mut job = Program::new();
    let ops = [Alloc(PAGE), Free(0), Alloc(PAGE), Alloc(PAGE), Free(1), Free(2)];
    for _ in 0..3 {
        job.iteration(None, &ops);
    }
    assert_eq!((job.planned(), job.most), (3, 2));
    job.iteration(
        None,
        &[Alloc(PAGE), Free(0), Alloc(PAGE / 2), Alloc(PAGE / 2), Free(1), Free(2)],
    );
    assert_eq!((job.planned(), job.most), (1, 1));
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

/// What it leaves may lie where a block goes whose time is over before that of what is left begins.
#[test]
fn what_an_iteration_that_ends_early_leaves_is_not_overlapped() {
    let mut job = Program::new();
    let ops = [Alloc(5000), Free(0), Alloc(6000), Free(1), Alloc(512), Free(2)];
    for _ in 0..3 {
        job.iteration(None, &ops);
    }
    assert_eq!((job.planned(), job.places[0]), (3, job.places[1]), "in one place");
    let left = job.iteration(None, &ops[..3]);
    assert_eq!((left.len(), job.planned()), (1, 2));
    job.iteration(None, &ops);
    assert_eq!(job.planned(), 0, "the first one would lie over what is left");
    job.free(left[0]);
    job.iteration(None, &ops);
    assert_eq!(job.planned(), 3);
}

#[test]
fn kinds_of_iteration_have_plans_of_their_own() {
    let (a, b) = (FORWARD, [Alloc(5000), Alloc(700), Free(0), Alloc(6000), Free(1), Free(2)]);
    // Untold, both begin with the same allocation: the one is expected after the other.
    for told in [[None, None], [Some(1), Some(2)]] {
        let mut job = Program::new();
        for round in 0..6 {
            job.iteration(told[0], &a);
            let known = round > 2 || told[0].is_some() && round > 1;
            assert!(!known || job.planned() == 4, "{told:?} {round}: {:?}", job.places);
            job.iteration(told[1], &b);
            assert!(!known || job.planned() == 3, "{told:?} {round}: {:?}", job.places);
        }
        assert_eq!(job.planned.planning().plans, 2);
        // It was the other one: from there on it goes without.
        job.iteration(told[0], &a);
        job.iteration(told[0], &a);
        assert_eq!(job.planned(), if told[0].is_some() { 4 } else { 1 });
    }
}

/// A shape that the job tells gets a plan of its own, even where another one allocates the same.
#[test]
fn told_shapes_that_allocate_alike_are_each_planned() {
    let mut job = Program::new();
    for round in 0..4 {
        for told in [1, 2] {
            job.iteration(Some(told), &FORWARD);
            assert_eq!(job.planned(), if round < 2 { 0 } else { 4 }, "{told} {round}");
        }
    }
    assert_eq!(job.planned.planning().plans, 2);
}

/// What an iteration teaches for which nothing was told goes to the plan that it follows.
#[test]
fn a_plan_of_a_told_shape_is_made_anew_for_that_shape() {
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(Some(1), &FORWARD);
    }
    let late =
        [Alloc(5000), Alloc(512), Free(1), Alloc(9000), Alloc(5000), Free(0), Free(2), Free(3)];
    for _ in 0..2 {
        job.iteration(None, &late);
        assert_eq!(job.planned(), 3);
    }
    job.iteration(Some(1), &late);
    assert_eq!((job.planned(), job.planned.planning().plans), (4, 1));
}

#[test]
fn a_block_that_others_still_use_keeps_its_place() {
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(None, &FORWARD);
    }
    job.begin(None);
    let parked = job.alloc(5000);
    job.planned.park((&mut job.history, &mut job.arena), parked.1, parked.0);
    assert_eq!(job.planned.live(&job.arena, parked.1, parked.0), None, "it has been freed");
    let blocks = [512, 9000, 5000].map(|size| job.alloc(size));
    assert_eq!(job.places[3], None);
    let parts = (&mut job.history, &mut job.arena);
    let pages: Vec<u64> = job.planned.release(parts, parked.1, parked.0).collect();
    assert_eq!(pages.len(), 1);
    job.backed.remove(&pages[0]);
    blocks.into_iter().for_each(|block| job.free(block));
    job.end();
}

#[test]
fn a_block_that_others_still_use_is_freed_once_though_the_plan_is_given_up() {
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(None, &FORWARD);
    }
    job.begin(None);
    let parked = job.alloc(5000);
    job.planned.park((&mut job.history, &mut job.arena), parked.1, parked.0);
    let other = job.alloc(99_999);
    assert!(!job.planned.in_slots(), "it is not as foreseen");
    assert_eq!(job.planned.live(&job.arena, parked.1, parked.0), None, "it has been freed");
    let parts = (&mut job.history, &mut job.arena);
    let pages: Vec<u64> = job.planned.release(parts, parked.1, parked.0).collect();
    pages.iter().for_each(|page| assert!(job.backed.remove(page)));
    job.free(other);
    job.end();
}

#[test]
fn blocks_that_lie_elsewhere_do_not_count() {
    let job = Program::new();
    assert_eq!(job.planned.live(&job.arena, 0, 0), None);
    assert_eq!(job.planned.live(&job.arena, u32::MAX, 7), None);
    let mut small = Program::within(8000 * UNIT);
    for _ in 0..4 {
        small.iteration(None, &FORWARD);
        assert_eq!(small.planned(), 0, "the plan is higher than the range is long");
    }
}

mod beside;
mod gaps;
mod outliving;
mod program;
mod random;
mod steps;

use program::Program;
