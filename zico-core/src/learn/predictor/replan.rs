//! What is expected of iterations that are to be placed as planned, and of those that begin like
//! them.

use alloc::vec::Vec;

use super::Predictor;
use crate::learn::kinds::Kind;
use crate::types::tuning::UNTRIED_PLAN;

/// The most pages that an iteration of this kind comes to hold which is as planned.
#[derive(Clone, Debug)]
pub(crate) struct Peak {
    pub(crate) kind: Kind,
    pub(crate) pages: u32,
    /// Without those of blocks that outlive the iteration, which may have been counted as what
    /// persists.
    pub(crate) within: u32,
    /// The most during its first 1, 2, 4 allocations and so on.
    pub(crate) starts: Vec<u32>,
}

impl Peak {
    /// What such an iteration leaves for the next, in pages.
    const fn left(&self) -> u32 {
        self.pages.abs_diff(self.within)
    }

    /// The most pages of an iteration that goes by the plan up to its mark with this number, at
    /// most.
    fn until(&self, mark: usize) -> u32 {
        self.starts.get(mark).copied().unwrap_or(self.pages)
    }
}

impl Predictor {
    /// Iterations of one kind are to be placed as planned: they come to hold at most so much, and
    /// at other moments than before. Until they have shown when, they may need as much at any time.
    /// If the plan leaves blocks for the next iteration, the need of that one is unknown, since those
    /// blocks may lie elsewhere; then it [is known again](Self::is_known_again). One of a kind
    /// without a plan that begins as this one does follows the plan as far as it is alike: it may
    /// need what it did without, and as much as the plan has come to hold by then. Whether the plan
    /// takes no more than iterations of its kind have held so far; else nothing has changed.
    pub(crate) fn replan(&mut self, peak: &Peak) -> bool {
        let planned = self.find(peak.kind).and_then(|at| self.kinds.iter().nth(at));
        let height = planned.and_then(|record| record.expected.height);
        if height.is_some_and(|height| peak.within > height) {
            return false;
        }
        let marks = planned.map_or_else(Vec::new, |record| record.marks.clone());
        self.alike = None;
        self.arrangement.note_plan();
        for record in self.kinds.iter_mut() {
            let is_its_kind = record.kind.is_expected_as(&peak.kind);
            if is_its_kind {
                record.is_planned = true;
                record.expected.raise(peak.pages, 0);
            } else if !record.is_planned && peak.kind.may_follow(record.kind.told) {
                let alike = record.shared(&marks).count();
                if alike > 0 {
                    let (claim, until) = (record.expected.wave.claim().value(), peak.until(alike));
                    let more = until.saturating_sub(record.held_until(alike));
                    record.expected.raise(claim.saturating_add(until), more);
                }
            }
            if peak.left() > 0 && (is_its_kind || !record.is_planned) {
                record.beside(peak.left());
            }
        }
        let heights = self.kinds.iter().map(|record| record.expected.height);
        let most = heights.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten();
        for expected in self.usual.iter_mut().chain(&mut self.now) {
            let height = expected.height.zip(most).map(|(height, most)| height.max(most));
            (expected.settled, expected.height) = (false, height);
        }
        true
    }

    /// An iteration has ended since a plan was made that leaves blocks: it has shown how it gets on
    /// with them. A kind that has not come since may need as much as they take beside what it
    /// needed before, at any time; the kind that is planned only when it has not come for long. It
    /// may never come again, and would keep the need of all that begin alike unknown for ever.
    pub(super) fn is_known_again(&mut self) {
        for record in self.kinds.iter_mut().filter(|record| record.expected.height.is_none()) {
            record.passed_over += 1;
            if !record.is_planned || record.passed_over >= UNTRIED_PLAN {
                record.expected.settled = false;
                record.expected.height = Some(record.needs.saturating_add(record.left));
            }
        }
    }
}
