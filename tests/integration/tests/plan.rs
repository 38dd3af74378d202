//! Plans of random problems against an exhaustive search, and of problems whose answer is known.

#![allow(missing_docs, clippy::unwrap_used, reason = "a failure fails the test")]

use proptest::prelude::*;
use zico_plan::{Baseline, Block, Planner, baseline, check, extent};

/// The least height of all: every order of the blocks, each at the lowest free place. In the order
/// of their offsets in a lowest plan this gives one that is no higher.
fn exhaustive(blocks: &[Block]) -> u64 {
    fn go(blocks: &[Block], offsets: &mut Vec<Option<u64>>, height: u64, best: &mut u64) {
        if height >= *best {
            return;
        }
        let left: Vec<usize> = (0..blocks.len()).filter(|&i| offsets[i].is_none()).collect();
        if left.is_empty() {
            *best = height;
        }
        for i in left {
            let offset = lowest(blocks, offsets, i);
            offsets[i] = Some(offset);
            go(blocks, offsets, height.max(offset + blocks[i].size), best);
            offsets[i] = None;
        }
    }
    let mut best = u64::MAX;
    go(blocks, &mut vec![None; blocks.len()], 0, &mut best);
    best
}

fn lowest(blocks: &[Block], offsets: &[Option<u64>], i: usize) -> u64 {
    let free = |&offset: &u64| {
        blocks.iter().zip(offsets).all(|(other, at)| {
            let apart = other.upper <= blocks[i].lower || blocks[i].upper <= other.lower;
            at.is_none_or(|at| apart || at + other.size <= offset || offset + blocks[i].size <= at)
        })
    };
    (0..).step_by(usize::try_from(blocks[i].align).unwrap()).find(free).unwrap()
}

fn few() -> impl Strategy<Value = Vec<Block>> {
    let block = (0..6_u64, 1..5_u64, 1..9_u64, prop_oneof![4 => Just(1_u64), 1 => 1..4_u64]);
    prop::collection::vec(block, 1..8).prop_map(|all| {
        let block =
            |(lower, life, size, align)| Block::new(lower, lower + life, size).aligned(align);
        all.into_iter().map(block).collect()
    })
}

fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    // Many of one size: skylines then have many parts of one height.
    let size = prop_oneof![0..100_u64, 1..4_u64];
    let block = (0..40_u64, 0..20_u64, size, prop_oneof![1..9_u64, Just(1_u64)]);
    prop::collection::vec(block, 0..60).prop_map(|all| {
        let block =
            |(lower, life, size, align)| Block::new(lower, lower + life, size).aligned(align);
        all.into_iter().map(block).collect()
    })
}

/// Blocks that fill a rectangle without a gap: it is cut in two at random, again and again.
fn perfect() -> impl Strategy<Value = (Vec<Block>, u64)> {
    let cuts =
        prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 1..10_u64), 4..40);
    (cuts, 6..60_u64).prop_map(|(cuts, height)| {
        let mut pieces = vec![Block::new(0, 30, height)];
        for (which, through_time, share) in cuts {
            let i = which.index(pieces.len());
            let piece = pieces[i];
            let whole = if through_time { piece.upper - piece.lower } else { piece.size };
            let cut = whole * share / 10;
            if cut == 0 || cut == whole {
                continue;
            }
            let (a, b) = if through_time {
                let at = piece.lower + cut;
                (Block { upper: at, ..piece }, Block { lower: at, ..piece })
            } else {
                (Block { size: cut, ..piece }, Block { size: whole - cut, ..piece })
            };
            pieces[i] = a;
            pieces.push(b);
        }
        // The order must not give the answer away.
        pieces.sort_by_key(|block| (block.size * 7919 + block.lower * 104_729) % 1009);
        (pieces, height)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..ProptestConfig::default() })]

    #[test]
    fn few_blocks_are_planned_as_low_as_can_be(blocks in few()) {
        let plan = Planner::new(&blocks).unwrap().run();
        prop_assert_eq!(check(&blocks, &plan.offsets), Ok(plan.height));
        prop_assert!(plan.proven, "{plan:?}");
        prop_assert_eq!(plan.height, exhaustive(&blocks));
    }

    #[test]
    fn a_capacity_is_met_exactly_if_it_can_be(blocks in few(), above in 0..4_u64) {
        let least = exhaustive(&blocks);
        let capacity = (least + above).saturating_sub(2);
        let plan = Planner::new(&blocks).unwrap().capacity(Some(capacity)).run();
        prop_assert_eq!(check(&blocks, &plan.offsets), Ok(plan.height));
        prop_assert_eq!(plan.height <= capacity, least <= capacity);
        prop_assert!(plan.least <= least && (plan.height <= capacity || plan.least > capacity));
    }

    #[test]
    fn no_lower_bound_is_above_a_plan_that_is_known((blocks, height) in perfect()) {
        let plan = Planner::new(&blocks).unwrap().work(20_000_000).run();
        prop_assert_eq!(check(&blocks, &plan.offsets), Ok(plan.height));
        prop_assert_eq!(plan.lower_bound, height);
        prop_assert_eq!(plan.least, height, "the search has refuted a plan that there is");
    }

    #[test]
    fn every_answer_is_a_plan(blocks in any_blocks(), work in 0..3_000_000_u64, region in 0..50_u64) {
        let mut planner = Planner::new(&blocks).unwrap().work(work).regions(Some(region));
        let (first, second) = (planner.run(), planner.run());
        for plan in [&first, &second] {
            prop_assert_eq!(check(&blocks, &plan.offsets), Ok(plan.height));
            prop_assert!(plan.lower_bound <= plan.least && plan.least <= plan.height);
            prop_assert_eq!(plan.proven, plan.least == plan.height);
        }
        prop_assert!(second.height <= first.height && second.least >= first.least);
        for known in Baseline::ALL {
            let offsets = baseline(&blocks, known).unwrap();
            prop_assert!(check(&blocks, &offsets).is_ok_and(|height| height >= first.lower_bound));
        }
        let measured = extent(&blocks, &first.offsets, region).unwrap();
        prop_assert!(measured.region_moments * u128::from(measured.region) >= measured.byte_moments);
    }
}
