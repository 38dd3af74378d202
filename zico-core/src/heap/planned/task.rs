//! What an iteration that has ended teaches: whether its like is to be planned.

use alloc::vec::Vec;
// A count that nothing else rests on: no interleaving of it is worth to be explored.
use core::sync::atomic::{AtomicU32, Ordering};

use super::Plan;
use super::layout::{Layout, LiveRange, Need};
use super::pages::pages_beside;
use super::planning::{NoPlan, plan};
use crate::heap::arena::{Arena, Standing};
use crate::heap::compact::OptionalU32;
use crate::heap::history::{History, Past};
use crate::learn::kinds::{Kind, RecentlyUsed};
use crate::learn::signature::mixed;
use crate::types::sync::Arc;
use crate::types::tuning::KINDS;
use crate::types::tuning::{MOST_PLANNED, PLANNED_ANEW};

/// What an iteration was, in short: its allocations, and how long their blocks lived.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pattern {
    kind: Kind,
    /// Of an iteration that has a plan already; else nothing yet.
    lives: u64,
}

/// Iterations that are to be planned when they come again: the last few.
#[derive(Default)]
pub(super) struct Seen {
    patterns: RecentlyUsed<Pattern, KINDS>,
    /// How often a plan has taken too long. A job of which that is so [`PLANNED_ANEW`] times is
    /// planned no more.
    pub(super) too_long: Arc<AtomicU32>,
}

/// How long blocks lived, in short.
fn digest(needs: &[Need]) -> u64 {
    let word = |need: &Need| match need.life {
        LiveRange::Until(until) => u64::from(until),
        LiveRange::Always => u64::from(u32::MAX),
        LiveRange::Alternating => u64::from(u32::MAX) + 1,
        LiveRange::Beyond => u64::from(u32::MAX) + 2,
    };
    needs.iter().map(word).fold(1, mixed)
}

/// An iteration to be planned. That takes long, and needs no lock.
pub(crate) struct PlanTask {
    needs: Vec<Need>,
    kind: Kind,
    /// How often it has been planned before.
    times: u32,
    /// The pages of what lies in the arena between it and the next one.
    beside: u32,
    too_long: Arc<AtomicU32>,
}

impl PlanTask {
    /// What the iteration teaches whose allocations have been noted.
    pub(super) fn of(
        history: &History,
        plans: &RecentlyUsed<Plan, KINDS>,
        seen: &mut Seen,
        kind: Kind,
    ) -> Option<Self> {
        let now = history.so_far();
        if now.is_empty() || now.len() > MOST_PLANNED {
            return None;
        }
        if seen.too_long.load(Ordering::Relaxed) >= PLANNED_ANEW {
            return None;
        }
        let mut layouts = plans.iter().map(|plan| &plan.layout);
        let known = layouts.find(|layout| layout.kind.may_follow(kind.told) && layout.is_of(now));
        // A plan stays that of the shape which was told first.
        let kind = known.map_or(kind, |known| known.kind);
        let times = known.map_or(0, |known| known.times + 1);
        if known.is_none() && !seen.patterns.note(Pattern { kind, lives: 0 })
            || times > PLANNED_ANEW
        {
            return None;
        }
        // What outlived the iteration before tells when this one's will be freed.
        let alike = |before: &&[Past]| {
            before.len() == now.len() && before.iter().zip(now).all(|(a, b)| a.size == b.size)
        };
        let before = history.before().filter(alike);
        let all = u32::try_from(now.len()).unwrap_or(u32::MAX);
        let need = |(number, past): (usize, &Past)| {
            let next_until = before.map_or(OptionalU32::NONE, |before| before[number].next_until);
            let outlives = before.is_some_and(|before| before[number].until.is_none());
            let life = LiveRange::of(&Past { next_until, ..*past }, number, all, outlives);
            let foreseen = known.map(|known| known.entries[number].life);
            let unknown = past.until.is_none() && before.is_none();
            let foreseen =
                foreseen.filter(|&foreseen| unknown && foreseen >= LiveRange::Until(all));
            Need { size: past.size, align: past.align, life: foreseen.unwrap_or(life) }
        };
        let needs: Vec<Need> = now.iter().enumerate().map(need).collect();
        if let Some(known) = known {
            // What came once is no reason to hold more from then on.
            let is_foreseen = known.entries.iter().zip(&needs).all(|(a, b)| a.life == b.life);
            if is_foreseen || !seen.patterns.note(Pattern { kind, lives: digest(&needs) }) {
                return None;
            }
        }
        let too_long = Arc::clone(&seen.too_long);
        Some(Self { needs, kind, times, beside: 0, too_long })
    }

    /// What lies in the arena may lie beside the plan's slots, but for blocks of this iteration that
    /// are gone, or in a slot of their own, in the next.
    pub(super) fn note_beside(&mut self, history: &History, arena: &Arena, page: u64) {
        let stays = |block: &Standing| {
            let need = block.number.of_list(&self.needs);
            let is_of_now = !block.parked && history.is_of_now(block.serial);
            !is_of_now || need.is_some_and(|need| need.life == LiveRange::Beyond)
        };
        self.beside = pages_beside(arena.blocks().filter(stays), |_| false, page);
    }

    /// Plans the iteration, with few regions of `page` bytes in use over time.
    ///
    /// # Errors
    /// If its blocks are more, or larger, than can be planned, or that takes too many steps.
    pub(crate) fn plan(self, page: u64) -> Result<Layout, NoPlan> {
        let Self { needs, kind, times, beside, too_long } = self;
        let plan = plan(&needs, page);
        if plan.as_ref().is_err_and(|error| *error == NoPlan::TooLong) {
            too_long.fetch_add(1, Ordering::Relaxed);
        }
        let mut layout = plan?;
        (layout.kind, layout.times, layout.beside) = (kind, times, beside);
        Ok(layout)
    }
}
