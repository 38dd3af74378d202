//! One plan for two jobs whose iterations run at a fixed shift, beside a plan for each.
//!
//! Apart, each job's planned blocks lie in pages of its own, and what is held is the sum of the
//! pages in use. Together they are planned in one space. No plan is lower than the most bytes alive
//! at once, so the possible gain is bounded without any planning.

use zico_core::Lifetime;
use zico_mock::trace::{Iteration, Step, Trace};
use zico_plan::{Block, PlanError, Planner};

/// The memory that two jobs need for the blocks of their iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Across {
    /// The most bytes in pages that are in use, with a plan for each.
    pub apart: u64,
    /// The height of one plan for both, in whole pages.
    pub together: u64,
    /// The most bytes alive at once.
    pub bound: u64,
}

/// The planner's steps for each block: enough for all fast plans.
const EACH: u64 = 1 << 13;

/// Operations at one moment, at most.
const ORDER: u64 = 1 << 24;

/// Two jobs, the second of which begins when the first has done this share of its iteration.
///
/// # Errors
/// If the blocks of a trace cannot be planned: none that is bundled.
pub fn across(first: &Trace, second: &Trace, shift: f64, page: u64) -> Result<Across, PlanError> {
    let (one, length) = blocks(first, 0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of u64")]
    let (two, _) = blocks(second, (length as f64 * shift) as u64);
    let both: Vec<Block> = one.iter().chain(&two).copied().collect();
    let mut changes: Vec<(u64, i64)> = Vec::new();
    for blocks in [&one, &two] {
        let plan = Planner::new(blocks)?.regions(Some(page)).work(blocks.len() as u64 * EACH).run();
        changes.extend(pages(blocks, &plan.offsets, page));
    }
    changes.sort_unstable();
    let most = changes.iter().scan(0, |held, change| {
        *held += change.1;
        Some(*held)
    });
    let apart = u64::try_from(most.max().unwrap_or(0)).unwrap_or(0) * page;
    let plan = Planner::new(&both)?.work(both.len() as u64 * EACH).run();
    Ok(Across { apart, together: plan.height.next_multiple_of(page), bound: plan.lower_bound })
}

/// The blocks of the last recorded iteration in time, from `start` on, and how long it is.
fn blocks(trace: &Trace, start: u64) -> (Vec<Block>, u64) {
    let mut time = start;
    let mut moments: Vec<u64> = Vec::new();
    for step in trace.iterations().last().map(Iteration::steps).unwrap_or_default() {
        match *step {
            Step::Launch { work, .. } => time += work.value(),
            Step::Use { .. }
            | Step::Phase(_)
            | Step::Alloc { lifetime: Lifetime::Persistent, .. } => {}
            Step::Alloc { .. } | Step::Free { .. } => {
                moments.push(time * ORDER + moments.len() as u64);
            }
        }
    }
    let end = time * ORDER + moments.len() as u64;
    let at = |operation: u64| {
        let operation = usize::try_from(operation).unwrap_or(usize::MAX);
        moments.get(operation).copied().unwrap_or(end)
    };
    let block = |block: &Block| Block { lower: at(block.lower), upper: at(block.upper), ..*block };
    (trace.repeating().blocks.iter().map(block).collect(), time - start)
}

/// When each page comes into use, and when it is no longer.
fn pages(blocks: &[Block], offsets: &[u64], page: u64) -> Vec<(u64, i64)> {
    let mut changes: Vec<(u64, u64, i64)> = Vec::new();
    for (block, &offset) in blocks.iter().zip(offsets) {
        for page in offset / page..(offset + block.size).div_ceil(page) {
            changes.extend([(page, block.lower, 1), (page, block.upper, -1)]);
        }
    }
    changes.sort_unstable();
    let mut held = Vec::new();
    for of_page in changes.chunk_by(|one, other| one.0 == other.0) {
        let mut blocks = 0;
        for &(_, moment, change) in of_page {
            if blocks == 0 && change > 0 || blocks == 1 && change < 0 {
                held.push((moment, change));
            }
            blocks += change;
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_below_the_bound_and_apart_is_little_above() {
        let [one, two] =
            ["dlrm", "gnmt"].map(|name| zico_mock::bundled::open(name).expect("bundled"));
        let across = across(&one, &two, 0.5, 2 << 20).expect("planned");
        assert!(across.bound <= across.together && across.bound <= across.apart, "{across:?}");
        assert!(across.apart - across.bound <= 16 * (2 << 20), "{across:?}");
    }

    #[test]
    fn a_page_is_in_use_from_its_first_block_to_its_last() {
        let blocks = [Block::new(0, 4, 3), Block::new(2, 6, 3), Block::new(8, 9, 8)];
        let mut changes = pages(&blocks, &[0, 3, 0], 8);
        changes.sort_unstable();
        assert_eq!(changes, [(0, 1), (6, -1), (8, 1), (9, -1)]);
    }
}
