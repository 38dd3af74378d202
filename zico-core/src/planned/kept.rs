//! The plans that a job has, and what is said of them.

use alloc::vec::Vec;

use super::Planned;
use super::layout::{Entry, Layout};
use crate::signature::Signature;
use crate::sync::Arc;
use crate::units::Bytes;

/// The plans that are kept; the one that was followed least recently goes.
const LAYOUTS: usize = 8;

/// The most pages that an iteration comes to hold which makes the allocations of this signature, or is of
/// the shape that was told, and follows its plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peak {
    pub(crate) signature: Signature,
    pub(crate) told: Option<u64>,
    pub(crate) pages: u32,
}

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
    /// Allocations that went elsewhere while a plan was followed.
    pub missed: u64,
}

impl Planned {
    /// What iterations come to hold at most that follow a plan, once this one is among them. Nothing is
    /// said of those that leave something for the next iteration: of that some may lie elsewhere.
    pub(crate) fn peaks(&self, new: &Layout) -> Vec<Peak> {
        let old = self.layouts.iter().map(|(layout, _)| &**layout);
        let all = || old.clone().filter(|old| old.signature != new.signature).chain([new]);
        let whole = all().filter(|layout| !layout.entries.iter().any(Entry::is_alone));
        let peak = |layout: &Layout| {
            let others = all().filter(|other| other.signature != layout.signature);
            let alike = others.map(|other| layout.alike(other)).max().unwrap_or(0);
            // What comes before the plan is known lies in the other arenas, in pages of its own.
            let pages = layout.entries[..alike].iter().map(|e| self.pages.most_of(e.size));
            let pages = u32::try_from(pages.sum::<u64>()).unwrap_or(u32::MAX);
            let Layout { signature, told, peak, .. } = *layout;
            Peak { signature, told, pages: peak.saturating_add(pages) }
        };
        whole.map(peak).collect()
    }

    /// A plan is to be followed from the next iteration on. It replaces one of the same allocations, or
    /// the one that was followed least recently.
    pub(crate) fn install(&mut self, layout: Layout) {
        if layout.height > self.len {
            return;
        }
        let layout = Arc::new(layout);
        let is_same = |(old, _): &&mut (Arc<Layout>, u64)| old.signature == layout.signature;
        if let Some((old, _)) = self.layouts.iter_mut().find(is_same) {
            *old = layout;
            return;
        }
        if self.layouts.len() >= LAYOUTS {
            let oldest = self.layouts.iter().enumerate().min_by_key(|(_, (_, used))| *used);
            oldest.map(|(at, _)| at).into_iter().for_each(|at| drop(self.layouts.remove(at)));
        }
        self.layouts.push((layout, self.iterations));
    }

    pub(crate) fn planning(&self) -> Planning {
        let followed = self.layouts.iter().max_by_key(|(_, used)| *used);
        Planning {
            plans: self.layouts.len(),
            height: Bytes::new(followed.map_or(0, |(layout, _)| layout.height)),
            lower_bound: Bytes::new(followed.map_or(0, |(layout, _)| layout.lower_bound)),
            placed: self.placed,
            missed: self.missed,
        }
    }
}
