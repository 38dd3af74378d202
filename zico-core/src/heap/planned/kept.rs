//! The plans that a job has, and what is said of them.

use super::layout::Layout;
use super::{Plan, Planned};
use crate::types::report::Planning;
use crate::types::sync::Arc;
use crate::types::units::Bytes;

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
            Some(plan) => plan.layout = layout,
            None => self.plans.insert(Plan { layout, next: None }),
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
