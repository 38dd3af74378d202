//! What planning takes, in steps.

use super::super::gaps;
use super::super::layout::Need;
use super::super::planning::plan;
use super::*;
use crate::types::tuning::PLAN_STEPS;
use zico_plan::{Block, Planner, Work, sorting};

/// Blocks of random sizes; where more than `live` are alive, one at random ends. A moment is a
/// block.
fn at_random(blocks: u64, live: usize) -> Vec<Block> {
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

fn need(block: &Block) -> Need {
    let life = LiveRange::Until(u32::try_from(block.upper).unwrap());
    Need { size: block.size, align: 1, life }
}

#[test]
fn random_lifetimes_are_planned_within_a_bound() {
    for (n, live) in [(1000, 125), (2000, 250), (4000, 500), (8000, 1000)] {
        let needs: Vec<Need> = at_random(n, live).iter().map(need).collect();
        let layout = plan(&needs, PAGE).unwrap();
        let most = (PLAN_STEPS + 170 + 90) * sorting(needs.len());
        assert!(layout.steps <= most, "{n}: {} steps are more than {most}", layout.steps);
        assert!(layout.height < layout.lower_bound * 6 / 5);
    }
}

#[test]
fn a_job_whose_plans_take_too_long_is_planned_no_more() {
    for (times, planned) in [(3, true), (4, false)] {
        let mut job = Program::new();
        job.planned.seen.too_long.store(times, core::sync::atomic::Ordering::Relaxed);
        for _ in 0..3 {
            job.iteration(None, &[Alloc(PAGE), Free(0), Alloc(PAGE), Free(1)]);
        }
        assert_eq!(job.planned.plans.iter().next().is_some(), planned);
    }
}

/// Many blocks of a page each, then as many that take up all of their pages one after the other.
fn wide(half: u64) -> Layout {
    let small = (0..half).map(|i| Block::new(i, half, PAGE));
    let wide = (half..2 * half).map(|i| Block::new(i, i + 1, half * PAGE));
    let needs: Vec<Need> = small.chain(wide).map(|block| need(&block)).collect();
    plan(&needs, PAGE).unwrap()
}

#[test]
fn pages_of_gaps_are_counted() {
    for half in [500, 1000, 2000, 4000] {
        let mut layout = wide(half);
        let most = 90 * sorting(layout.entries.len());
        let mut work = Work::new(gaps::most(layout.entries.len()));
        gaps::close(&mut layout, PAGE.trailing_zeros(), &mut work);
        assert!(work.spent() <= most, "{half}: {} steps are more than {most}", work.spent());
        assert_eq!(u64::from(layout.peak), half, "the peak is known all the same");
    }
}

/// A block of a hundred thousand pages costs no more than one of a page.
#[test]
fn pages_that_lie_in_the_same_blocks_count_as_one() {
    let spent = |page: u64| {
        let needs: Vec<Need> = at_random(500, 20).iter().map(need).collect();
        let mut layout = plan(&needs, PAGE).unwrap();
        for entry in &mut layout.entries {
            (entry.start, entry.size) = (entry.start * 1000, entry.size * 1000);
        }
        layout.height *= 1000;
        let mut work = Work::new(u64::MAX);
        gaps::close(&mut layout, page.trailing_zeros(), &mut work);
        work.spent()
    };
    assert!(spent(512) <= 2 * spent(512 << 10));
}

#[test]
fn the_peak_is_the_same_however_it_is_found() {
    for (n, live) in [(50, 5), (300, 40), (1000, 300)] {
        let needs: Vec<Need> = at_random(n, live).iter().map(need).collect();
        let mut layout = plan(&needs, PAGE).unwrap();
        let peak = layout.peak;
        layout.peak = 0;
        gaps::close(&mut layout, PAGE.trailing_zeros(), &mut Work::new(0));
        assert_eq!(layout.peak, peak);
    }
}

#[test]
fn recorded_iterations_are_planned_at_their_bounds() {
    for name in zico_mock::bundled::names() {
        let all = zico_mock::bundled::open(name).unwrap().repeating().blocks;
        let blocks: Vec<Block> =
            all.iter().map(|b| Block::new(b.lower, b.upper, b.size).aligned(b.align)).collect();
        let work = PLAN_STEPS * sorting(blocks.len());
        let plan = Planner::new(&blocks).unwrap().fast(Work::new(work)).unwrap();
        assert_eq!(plan.height, plan.lower_bound, "{name}");
        // There is some room left for iterations that are harder.
        assert!(plan.work <= work * 3 / 4, "{name}: {} of {work}", plan.work);
    }
}
