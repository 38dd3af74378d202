//! What property tests would hardly hit; those are in the workspace's `tests`.

use alloc::vec;
use alloc::vec::Vec;

use super::problem::Component;
use super::skyline::{self, Taste};
use super::*;

/// Blocks of random sizes; where more than `live` are alive, one at random ends. A moment is a
/// block.
pub(crate) fn at_random(blocks: u64, live: usize) -> Vec<Block> {
    let mut random = fastrand::Rng::with_seed(blocks);
    let mut all: Vec<Block> = Vec::new();
    let mut alive = Vec::new();
    for lower in 0..blocks {
        all.push(Block::new(lower, blocks, 512 * random.u64(1..200)));
        alive.push(all.len() - 1);
        if alive.len() > live {
            let ends = alive.swap_remove(random.usize(0..alive.len()));
            all[ends].upper = lower + 1;
        }
    }
    all
}

fn blocks(all: &[(u64, u64, u64)]) -> Vec<Block> {
    all.iter().map(|&(lower, upper, size)| Block::new(lower, upper, size)).collect()
}

/// Perfectly packed in 6 bytes, which none of the fast plans of the original order sees at once.
fn tight() -> Vec<Block> {
    blocks(&[(0, 2, 3), (0, 3, 1), (1, 4, 2), (2, 6, 3), (4, 6, 3)])
}

#[test]
fn nothing_to_plan() {
    for all in [vec![], blocks(&[(3, 3, 9), (0, 5, 0), (u64::MAX, u64::MAX, 1)])] {
        let plan = Planner::new(&all).expect("valid").work(0).run();
        assert_eq!((plan.height, plan.lower_bound, plan.proven), (0, 0, true));
        assert_eq!(plan.offsets, vec![0; all.len()]);
        assert_eq!(check(&all, &plan.offsets), Ok(0));
        assert_eq!(extent(&all, &plan.offsets, 0).map(|extent| extent.ratio()), Ok(1.0));
    }
}

#[test]
fn touching_lifetimes_share_their_place() {
    let all = blocks(&[(0, 1, 7), (1, 2, 7), (2, 3, 5), (0, 3, 1)]);
    let plan = Planner::new(&all).expect("valid").run();
    assert_eq!((plan.height, check(&all, &plan.offsets)), (8, Ok(8)));
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let backwards = blocks(&[(0, 1, 1), (5, 4, 1)]);
    let error = PlanError::Backwards { block: 1, lower: 5, upper: 4 };
    assert_eq!(Planner::new(&backwards).err(), Some(error));
    assert_eq!(baseline(&backwards, Baseline::SmartPoolBestFit).err(), Some(error));
    assert_eq!(check(&backwards, &[0, 0]), Err(error));
    let unaligned = [Block::new(0, 1, 1).aligned(0)];
    assert_eq!(Planner::new(&unaligned).err(), Some(PlanError::Unaligned { block: 0 }));
    let large = blocks(&[(0, 1, u64::MAX / 2), (7, 8, u64::MAX / 2), (0, 1, 3)]);
    assert_eq!(Planner::new(&large).err(), Some(PlanError::TooLarge { block: 1 }));
    assert!(Planner::new(&blocks(&[(0, u64::MAX, u64::MAX - 1)])).is_ok());
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let all = blocks(&[(0, 4, 10), (3, 6, 10), (4, 8, 5)]);
    assert_eq!(check(&all, &[0, 10, 0]), Ok(20));
    let error = PlanError::Missing { blocks: 3, offsets: 2 };
    assert_eq!(check(&all, &[0, 10]), Err(error));
    let error = PlanError::Overlap { first: 0, second: 1, at: 3, byte: 9 };
    assert_eq!(check(&all, &[0, 9, 0]), Err(error));
    let error = PlanError::Overlap { first: 1, second: 2, at: 4, byte: 14 };
    assert_eq!(check(&all, &[0, 10, 14]), Err(error));
    assert_eq!(check(&all, &[u64::MAX, 10, 0]), Err(PlanError::TooLarge { block: 0 }));
    let aligned = [Block::new(0, 1, 1).aligned(8)];
    let error = PlanError::Misplaced { block: 0, offset: 4, align: 8 };
    assert_eq!(check(&aligned, &[4]), Err(error));
}

#[test]
fn a_capacity_that_is_too_small_is_known_to_be() {
    let plan = Planner::new(&tight()).expect("valid").capacity(Some(5)).run();
    assert!(plan.least > 5 && check(&tight(), &plan.offsets) == Ok(plan.height));
}

#[test]
fn the_order_of_going_on_does_not_matter() {
    // Lives and sizes from a linear congruence: nothing special, but hard enough to be searched.
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let all: Vec<Block> = (0..60)
        .map(|_| {
            let lower = next(20);
            Block::new(lower, lower + 1 + next(8), 1 + next(30)).aligned(1 + next(3))
        })
        .collect();
    let whole = Planner::new(&all).expect("valid").work(30_000_000).run();
    assert_eq!(whole, Planner::new(&all).expect("valid").work(30_000_000).run());
    let mut planner = Planner::new(&all).expect("valid").work(0);
    let mut plan = planner.run();
    planner = planner.work(977_000);
    let mut heights = vec![plan.height];
    while plan.work < whole.work && !plan.proven {
        plan = planner.run();
        assert_eq!(check(&all, &plan.offsets), Ok(plan.height));
        heights.push(plan.height);
    }
    assert!(heights.is_sorted_by(|before, after| before >= after), "{heights:?}");
    assert_eq!(plan.height, whole.height);
}

#[test]
fn extents_count_regions_while_they_are_in_use() {
    let all = blocks(&[(0, 10, 4), (0, 2, 4), (2, 10, 1)]);
    // Regions of 4: the first is in use for ever, the second by one block after the other.
    let measured = extent(&all, &[0, 4, 4], 4).expect("a plan");
    assert_eq!((measured.region_moments, measured.byte_moments, measured.most), (20, 56, 2));
    assert!((measured.ratio() - 80.0 / 56.0).abs() < 1e-9);
    // One block in two regions.
    let measured = extent(&all, &[2, 6, 6], 4).expect("a plan");
    assert_eq!((measured.region_moments, measured.most), (2 * 3 + 8 * 2, 3));
}

#[test]
fn the_long_lived_lie_low_where_regions_are_preferred() {
    let all = blocks(&[(0, 100, 10), (10, 20, 50), (12, 18, 50)]);
    let plan = Planner::new(&all).expect("valid").regions(Some(10)).run();
    assert_eq!((plan.height, plan.offsets[0] % 10), (110, 0));
    let upright = extent(&all, &plan.offsets, 10).expect("a plan");
    assert_eq!(upright.region_moments, 100 + 50 + 30);
}

#[test]
fn an_alignment_can_lift_a_block_beyond_the_capacity() {
    // Found by a property test: there the search blamed nobody, and so refuted a plan that there
    // is.
    let all = [
        Block::new(3, 9, 1).aligned(8),
        Block::new(0, 9, 5).aligned(4),
        Block::new(0, 6, 83).aligned(2),
        Block::new(0, 4, 84).aligned(7),
        Block::new(0, 6, 89).aligned(4),
    ];
    let plan = Planner::new(&all).expect("valid").run();
    assert_eq!((plan.height, plan.least, plan.lower_bound), (269, 269, 262));
}

/// Valleys that were joined with both shores came back from the heap.
#[test]
fn a_valley_that_is_gone_is_not_filled() {
    let lives = [
        (20, 1350, 1),
        (1348, 1841, 1),
        (1355, 1357, 60212),
        (1356, 1358, 2),
        (1367, 1370, 5),
        (1370, 1373, 1),
        (1371, 1373, 1),
        (1373, 1376, 1),
        (1374, 1376, 1),
        (1375, 1376, 1),
        (1376, 1379, 2),
    ];
    let blocks = lives.map(|(lower, upper, size)| Block::new(lower, upper, size));
    for component in Component::all(&blocks) {
        for taste in Taste::ALL {
            let weight = alloc::vec![1; component.len()];
            let plan = skyline::plan(&component, taste, &weight, &mut Work::new(u64::MAX));
            let plan = plan.expect("work enough");
            assert!(check(&blocks, &plan).is_ok(), "{taste:?}: {plan:?}");
        }
    }
}

/// What a plan may take: for each block and binary digit of their number.
fn within(blocks: usize, times: u64, spent: u64, budget: u64) {
    let most = budget + times * sorting(blocks);
    assert!(spent <= most, "{blocks} blocks: {spent} steps are more than {most}");
}

#[test]
fn the_first_plan_is_bounded_for_any_lifetimes() {
    for n in [1000, 2000, 4000, 8000, 32_000] {
        for live in [10, n / 8, n / 2] {
            let all = at_random(n, usize::try_from(live).expect("few"));
            let plan = Planner::new(&all).expect("valid").work(0).run();
            assert_eq!(check(&all, &plan.offsets), Ok(plan.height));
            within(all.len(), 40, plan.work, 0);
        }
    }
}

/// All begin before any ends, or all end together, or one lies within the other.
#[test]
fn lifetimes_of_one_form_are_planned_within_the_same_bound() {
    type Form = fn(u64, u64) -> (u64, u64);
    let n = 8000_u64;
    let forms: [Form; 4] = [
        |i, n| (i, n + i),
        |i, n| (i, n),
        |i, n| (i, 2 * n - i),
        |i, n| (i % 2 * n, i % 2 * n + 1 + i),
    ];
    for form in forms {
        let block = |i| {
            let (lower, upper) = form(i, n);
            Block::new(lower, upper, 1 + i * 7919 % 1009)
        };
        let all: Vec<Block> = (0..n).map(block).collect();
        let plan = Planner::new(&all).expect("valid").work(0).run();
        assert_eq!(check(&all, &plan.offsets), Ok(plan.height));
        within(all.len(), 40, plan.work, 0);
    }
}

#[test]
fn a_run_takes_no_more_than_its_work_and_a_plan() {
    for (n, live) in [(300, 20), (2000, 250)] {
        let all = at_random(n, live);
        for budget in [0, 1, 1000, 300_000, 3_000_000, 30_000_000] {
            for regions in [None, Some(2 << 20)] {
                let mut planner = Planner::new(&all).expect("valid").work(budget).regions(regions);
                let (first, second) = (planner.run(), planner.run());
                let times = 128 + if regions.is_some() { 170 } else { 0 };
                within(all.len(), times, first.work, budget);
                within(all.len(), times, second.work - first.work, budget);
            }
        }
    }
}

#[test]
fn how_work_is_dealt_out_does_not_matter_to_the_search() {
    let all = at_random(60, 12);
    let whole = Planner::new(&all).expect("valid").work(40_000_000).run();
    let mut planner = Planner::new(&all).expect("valid").work(10_000);
    let mut plan = planner.run();
    while !plan.proven && plan.work < whole.work {
        plan = planner.run();
    }
    assert!(planner.has_searched());
    assert_eq!((plan.height, plan.least), (whole.height, whole.least));
}

#[test]
fn fast_plans_end_with_the_work_and_search_nothing() {
    let all = at_random(1000, 125);
    let mut last = u64::MAX;
    for work in [0, 50_000, 200_000, 1_000_000, 100_000_000] {
        let mut planner = Planner::new(&all).expect("valid");
        let plan = planner.fast(Work::new(work));
        assert!(!planner.has_searched());
        assert_eq!(plan.is_some(), work >= 200_000, "{work}");
        if let Some(plan) = plan {
            assert!(plan.work <= work && plan.height <= last);
            last = plan.height;
        }
    }
}
