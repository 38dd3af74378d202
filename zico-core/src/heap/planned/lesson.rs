//! What an iteration that has ended teaches: whether its like is to be planned.

use alloc::vec::Vec;
// A count that nothing else rests on: no interleaving of it is worth to be explored.
use core::sync::atomic::{AtomicU32, Ordering};

use super::Plan;
use super::layout::{Layout, Need, NoPlan, Stay};
use crate::heap::history::{History, NONE, Past};
use crate::learn::kinds::{KINDS, Kind, RecentlyUsed};
use crate::learn::signature::mixed;
use crate::types::sync::Arc;

/// An iteration of more allocations is not planned.
const MOST: usize = 1 << 16;

/// How often a plan is made anew because blocks lived otherwise than it had foreseen.
const TIMES: u32 = 4;

/// What an iteration was, in short: its allocations, and how long their blocks lived.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Course {
    kind: Kind,
    /// Of an iteration that has a plan already; else nothing yet.
    stays: u64,
}

/// Iterations that are to be planned when they come again: the last few.
#[derive(Default)]
pub(super) struct Seen {
    courses: RecentlyUsed<Course, KINDS>,
    /// How often a plan has taken too long. A job of which that is so [`TIMES`] times is planned no more.
    pub(super) too_long: Arc<AtomicU32>,
}

/// How long blocks lived, in short.
fn digest(needs: &[Need]) -> u64 {
    let word = |need: &Need| match need.stay {
        Stay::Until(until) => u64::from(until),
        Stay::Always => u64::from(NONE),
        Stay::InTurn => u64::from(NONE) + 1,
    };
    needs.iter().map(word).fold(1, mixed)
}

/// An iteration to be planned. That takes long, and needs no lock.
pub(crate) struct Lesson {
    needs: Vec<Need>,
    kind: Kind,
    /// How often it has been planned before.
    times: u32,
    too_long: Arc<AtomicU32>,
}

impl Lesson {
    /// What the iteration teaches whose allocations have been noted.
    pub(super) fn of(
        history: &History,
        plans: &RecentlyUsed<Plan, KINDS>,
        seen: &mut Seen,
        kind: Kind,
    ) -> Option<Self> {
        let now = history.so_far();
        if now.is_empty() || now.len() > MOST {
            return None;
        }
        if seen.too_long.load(Ordering::Relaxed) >= TIMES {
            return None;
        }
        let mut layouts = plans.iter().map(|plan| &plan.layout);
        let known = layouts.find(|layout| layout.kind.may_follow(kind.told) && layout.is_of(now));
        // A plan stays that of the shape which was told first.
        let kind = known.map_or(kind, |known| known.kind);
        let times = known.map_or(0, |known| known.times + 1);
        if known.is_none() && !seen.courses.note(Course { kind, stays: 0 }) || times > TIMES {
            return None;
        }
        // What outlived the iteration before tells when this one's will be freed.
        let alike = |before: &&[Past]| {
            before.len() == now.len() && before.iter().zip(now).all(|(a, b)| a.size == b.size)
        };
        let before = history.before().filter(alike);
        let all = u32::try_from(now.len()).unwrap_or(NONE);
        let need = |(number, habit): (usize, &Past)| {
            let next_until = before.map_or(NONE, |before| before[number].next_until);
            let stay = Stay::of(&Past { next_until, ..*habit }, number, all);
            let foreseen = known.map(|known| known.entries[number].stay);
            let unknown = habit.until == NONE && before.is_none();
            let foreseen = foreseen.filter(|&foreseen| unknown && foreseen >= Stay::Until(all));
            Need { size: habit.size, align: habit.align, stay: foreseen.unwrap_or(stay) }
        };
        let needs: Vec<Need> = now.iter().enumerate().map(need).collect();
        if let Some(known) = known {
            // What came once is no reason to hold more from then on.
            let is_foreseen = known.entries.iter().zip(&needs).all(|(a, b)| a.stay == b.stay);
            if is_foreseen || !seen.courses.note(Course { kind, stays: digest(&needs) }) {
                return None;
            }
        }
        let too_long = Arc::clone(&seen.too_long);
        Some(Self { needs, kind, times, too_long })
    }

    /// Plans the iteration, with few regions of `page` bytes in use over time.
    ///
    /// # Errors
    /// If its blocks are more, or larger, than can be planned, or that takes too many steps.
    pub(crate) fn plan(self, page: u64) -> Result<Layout, NoPlan> {
        let Self { needs, kind, times, too_long } = self;
        let plan = Layout::new(&needs, page);
        if plan.as_ref().is_err_and(|error| *error == NoPlan::TooLong) {
            too_long.fetch_add(1, Ordering::Relaxed);
        }
        let mut layout = plan?;
        (layout.kind, layout.times) = (kind, times);
        Ok(layout)
    }
}
