//! What is known of the iterations of one kind.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::expected::Expected;
use crate::learn::footprint::Footprint;
use crate::learn::kinds::Kind;
use crate::learn::profile::Profile;

/// What iterations of one kind have done. It is used when one of them ends.
#[derive(Debug)]
pub(super) struct Record {
    /// That of the newest.
    pub(super) kind: Kind,
    /// After 1, 2, 4 allocations and so on.
    pub(super) marks: Vec<Passed>,
    pub(super) newest: Arc<Profile>,
    pub(super) expected: Expected,
    pub(super) footprint: Footprint,
    /// Its iterations are placed as planned.
    pub(super) is_planned: bool,
    /// While its need is not known: what it was, in regions,
    pub(super) needs: u32,
    /// the most that plans have left beside that, since it came last,
    pub(super) left: u32,
    /// and how many iterations of other kinds have passed it over since the last of these plans.
    pub(super) passed_over: u32,
}

/// A mark that an iteration has passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// Of its allocations up to there.
    pub(super) hash: u64,
    /// The most that it held until then beside what persists, in regions.
    pub(super) held: u32,
}

impl Record {
    /// The marks that an iteration of this kind has in common with another one from the beginning.
    pub(super) fn shared<'a>(&'a self, marks: &'a [Passed]) -> impl Iterator<Item = &'a Passed> {
        let pairs = self.marks.iter().zip(marks);
        pairs.take_while(|(own, other)| own.hash == other.hash).map(|(own, _)| own)
    }

    /// The most that an iteration of this kind held until its mark with this number.
    pub(super) fn held_until(&self, mark: usize) -> u32 {
        self.marks.get(mark).map_or(self.newest.claim().value(), |passed| passed.held)
    }

    /// A plan leaves so much for the next iteration, which may be of this kind: what it needs is
    /// not known.
    pub(super) fn beside(&mut self, left: u32) {
        if let Some(height) = self.expected.height.take() {
            self.needs = height.saturating_sub(self.left);
        }
        (self.left, self.passed_over) = (self.left.max(left), 0);
    }
}
