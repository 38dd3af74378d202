//! Plans an iteration: where each of its allocations goes, checked, and which pages stay between
//! them.

use alloc::vec::Vec;

use super::gaps;
use super::layout::{Layout, LiveRange, Need};
use crate::types::tuning::{ONE_PLAN_FROM, PLAN_STEPS};
use zico_plan::{Block, PlanError, Planner, Work, check, sorting};

/// Why an iteration gets no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlan {
    /// Its blocks cannot be planned, or the plan was none.
    Refused(PlanError),
    /// Not even one plan was made within the work.
    TooLong,
}

impl From<PlanError> for NoPlan {
    fn from(error: PlanError) -> Self {
        Self::Refused(error)
    }
}

/// Plans an iteration of these allocations, with few regions of `page` bytes in use over time.
///
/// O(n log n) steps for any lifetimes, which are counted: at most [`PLAN_STEPS`] for the plans, 170
/// to measure the regions of ten, and 90 for gaps, for each slot and binary digit of their
/// number. A fast plan for which there is no work left is not made, and the exact search is for
/// those who have time.
pub(super) fn plan(needs: &[Need], page: u64) -> Result<Layout, NoPlan> {
    let all = needs.len() as u64;
    let mut blocks: Vec<Block> =
        (0..).zip(needs).map(|(number, need)| need.block(number, all)).collect();
    // The second slots come behind all first ones.
    let in_turn = needs.iter().filter(|need| need.life == LiveRange::Alternating);
    blocks.extend(in_turn.map(|need| need.block(0, all)));
    let mut planner = Planner::new(&blocks)?;
    let plan = if needs.len() > ONE_PLAN_FROM {
        planner.first()
    } else {
        planner = planner.regions(Some(page));
        planner.fast(Work::new(sorting(blocks.len()).saturating_mul(PLAN_STEPS)))
    };
    let plan = plan.ok_or(NoPlan::TooLong)?;
    // All that keeps blocks apart rests on this.
    check(&blocks, &plan.offsets)?;
    let mut layout = Layout::of(needs, &plan);
    let own = layout.slots().filter(|entry| entry.is_alone());
    let pages = own.map(|entry| entry.size / page + 2).fold(0, u64::saturating_add);
    layout.own_pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let mut work = Work::new(gaps::most(needs.len()));
    gaps::close(&mut layout, page.trailing_zeros(), &mut work);
    layout.steps = plan.work.saturating_add(work.spent());
    Ok(layout)
}
