//! The search by itself: behind the fast plans few problems would reach it.

extern crate std;

use alloc::vec::Vec;
use core::ops::Range;

use super::super::{Block, check};
use super::*;

/// Searches the first component of some blocks for a plan up to a height.
fn search(blocks: &[Block], capacity: u64, mut turn: u64) -> Outcome {
    let component = Component::all(blocks).remove(0);
    let conflicts = Conflicts::listed(&component);
    let ground = Ground { component: &component, conflicts: &conflicts, capacity };
    let mut work = Work::new(u64::MAX);
    let mut search = Search::new(&ground, &mut work);
    let outcome = search.run(&ground, &mut turn, &mut work);
    if outcome == Outcome::Found {
        let within = |&id: &u32| blocks[id as usize];
        let found: Vec<Block> = component.ids.iter().map(within).collect();
        assert!(check(&found, search.offsets()).is_ok_and(|height| height <= capacity));
    }
    outcome
}

/// The least height: every order of the blocks, each at the lowest free place.
fn exhaustive(blocks: &[Block], offsets: &mut Vec<Option<u64>>, height: u64, best: &mut u64) {
    if height >= *best {
        return;
    }
    if offsets.iter().all(Option::is_some) {
        *best = height;
    }
    for i in 0..blocks.len() {
        if offsets[i].is_none() {
            let block = &blocks[i];
            let free = |&offset: &u64| {
                blocks.iter().zip(offsets.iter()).all(|(other, at)| {
                    let apart = other.upper <= block.lower || block.upper <= other.lower;
                    let beside = |at| at + other.size <= offset || offset + block.size <= at;
                    apart || at.is_none_or(beside)
                })
            };
            let places = (0..).step_by(usize::try_from(block.align).expect("small"));
            let offset = places.into_iter().find(free).expect("above all others at least");
            offsets[i] = Some(offset);
            exhaustive(blocks, offsets, height.max(offset + block.size), best);
            offsets[i] = None;
        }
    }
}

/// A component of a few small blocks.
fn few(random: &mut fastrand::Rng, aligns: Range<u64>) -> Vec<Block> {
    let mut block = |_| {
        let (lower, align) = (random.u64(0..6), random.u64(aligns.clone()));
        Block::new(lower, lower + random.u64(1..5), random.u64(1..9)).aligned(align)
    };
    let all: Vec<Block> = (0..7).map(&mut block).collect();
    Component::all(&all)[0].ids.iter().map(|&id| all[id as usize]).collect()
}

#[test]
fn it_finds_a_plan_exactly_if_there_is_one() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut refuted = 0;
    for case in 0..3000 {
        let blocks = few(&mut random, if case % 2 == 0 { 1..2 } else { 1..5 });
        let mut least = u64::MAX;
        exhaustive(&blocks, &mut alloc::vec![None; blocks.len()], 0, &mut least);
        let bound = Component::all(&blocks)[0].bound;
        for capacity in bound..=least {
            let expected = if capacity < least { Outcome::Impossible } else { Outcome::Found };
            assert_eq!(search(&blocks, capacity, u64::MAX), expected, "{capacity}: {blocks:?}");
            refuted += u32::from(capacity < least);
        }
    }
    assert!(refuted > 500, "only {refuted} problems had no plan at the bound");
}

#[test]
fn it_never_refutes_a_plan_that_there_is() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut found = 0;
    for _ in 0..1500 {
        let (height, cuts) = (random.u64(6..30), random.usize(6..26));
        let mut blocks = alloc::vec![Block::new(0, 16, height)];
        for _ in 0..cuts {
            let i = random.usize(0..blocks.len());
            let Block { lower, upper, size, .. } = blocks[i];
            if random.bool() && upper - lower > 1 {
                let at = random.u64(lower + 1..upper);
                blocks[i].upper = at;
                blocks.push(Block::new(at, upper, size));
            } else if size > 1 {
                let below = random.u64(1..size);
                blocks[i].size = below;
                blocks.push(Block::new(lower, upper, size - below));
            }
        }
        random.shuffle(&mut blocks);
        // As it is, and with room to spare in some sections.
        for less in [0, random.usize(1..4)] {
            let some = &blocks[less.min(blocks.len() - 1)..];
            let outcome = search(some, height, 30_000);
            assert_ne!(outcome, Outcome::Impossible, "{height}: {some:?}");
            found += u32::from(outcome == Outcome::Found);
        }
    }
    assert!(found > 2500, "only {found} were found");
}
