//! The plans that a job has, and what is said of them.

use super::layout::Layout;
use super::{Kind, Planned};
use crate::types::sync::Arc;
use crate::types::units::Bytes;

/// The plans that are kept; the one that was followed least recently goes.
const LAYOUTS: usize = 8;

/// How a job's plans serve it.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planning {
    /// Kinds of iteration that are planned.
    pub plans: usize,
    /// Of the plan that was followed last: the end of its highest block.
    pub height: Bytes,
    /// The most bytes that its blocks come to at one moment. No plan is lower.
    pub lower_bound: Bytes,
    /// Allocations that were placed as planned.
    pub placed: u64,
    /// Iterations that were no longer as planned from some allocation on.
    pub departed: u64,
}

impl Planned {
    /// A plan is to be followed from the next iteration on. It replaces one of the same allocations, or
    /// the one that was followed least recently.
    pub(crate) fn install(&mut self, layout: Layout) {
        if layout.height > self.len {
            return;
        }
        let layout = Arc::new(layout);
        let is_same = |old: &&mut Kind| old.layout.signature == layout.signature;
        if let Some(old) = self.kinds.iter_mut().find(is_same) {
            old.layout = layout;
            return;
        }
        if self.kinds.len() >= LAYOUTS {
            let oldest = self.kinds.iter().enumerate().min_by_key(|(_, kind)| kind.used);
            oldest.map(|(at, _)| at).into_iter().for_each(|at| drop(self.kinds.remove(at)));
        }
        self.kinds.push(Kind { layout, used: self.iterations, next: None });
    }

    pub(crate) fn planning(&self) -> Planning {
        let followed = self.kinds.iter().max_by_key(|kind| kind.used).map(|kind| &kind.layout);
        Planning {
            plans: self.kinds.len(),
            height: Bytes::new(followed.map_or(0, |layout| layout.height)),
            lower_bound: Bytes::new(followed.map_or(0, |layout| layout.lower_bound)),
            placed: self.placed,
            departed: self.departed,
        }
    }
}
