//! The plans that a job has, and what is said of them.

use super::Planned;
use super::layout::Layout;
use crate::learn::kinds::Kind;
use crate::types::report::Planning;
use crate::types::sync::Arc;
use crate::types::units::Bytes;

/// A layout that iterations of its kind follow. It is used when one does.
pub(super) struct Plan {
    pub(super) layout: Arc<Layout>,
    /// What came after the last iteration of this kind.
    pub(super) next: Option<Kind>,
    /// Where its slots begin: at a page.
    pub(super) base: u64,
    /// How many iterations in a row have begun with something in the way.
    pub(super) obstructed: u32,
    /// How often its slots have been moved.
    pub(super) moves: u32,
    /// How many times in a row a block was freed early that was foreseen to outlive the next
    /// iteration.
    pub(super) doubts: u32,
}

impl Planned {
    /// A plan is to be followed from the next iteration on. It replaces the one of its kind, or
    /// the one that was followed least recently.
    pub(crate) fn install(&mut self, layout: Layout) {
        if layout.height > self.len {
            return;
        }
        let layout = Arc::new(layout);
        let mut plans = self.plans.iter_mut();
        match plans.find(|plan| plan.layout.kind == layout.kind) {
            Some(plan) => {
                let fits = layout.height <= self.len.saturating_sub(plan.base);
                (plan.base, plan.obstructed) = (if fits { plan.base } else { 0 }, 0);
                plan.layout = layout;
            }
            None => {
                let (next, base, obstructed, moves, doubts) = (None, 0, 0, 0, 0);
                self.plans.insert(Plan { layout, next, base, obstructed, moves, doubts });
            }
        }
    }

    pub(crate) fn planning(&self) -> Planning {
        let followed = self.plans.iter().next().map(|plan| &plan.layout);
        Planning {
            plans: self.plans.iter().len(),
            height: Bytes::new(followed.map_or(0, |layout| layout.height)),
            lower_bound: Bytes::new(followed.map_or(0, |layout| layout.lower_bound)),
            placed: self.placed,
            departed: self.departed,
        }
    }
}
