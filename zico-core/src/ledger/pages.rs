//! The pages of an arena: which region is mapped at each, and when it is in use.

use alloc::vec::Vec;

use crate::types::tuning::MOVES_IN_A_ROW;

/// A page of an arena's range.
#[derive(Clone, Copy, Default)]
pub(super) struct Page {
    /// The region that is mapped there.
    pub(crate) region: Option<usize>,
    /// The batch in which it was last given up; 0 if never. Its mapping may be taken away once the
    /// device has completed that batch: its region may be in use elsewhere before.
    pub(super) last: u64,
    /// Somebody is changing what is mapped there.
    pub(super) pinned: bool,
    pub(super) usage: Usage,
    pub(super) moves: Moves,
}

/// In how many iterations in a row a page has been mapped anew.
#[derive(Clone, Copy, Default)]
pub(super) struct Moves {
    /// The last of them.
    iteration: u64,
    in_a_row: u32,
}

/// The parts of an iteration in which a page is in use, a bit for each sixty-fourth of the job's
/// operations, in the iteration under way and in the one before. Pages with no part in common can
/// have the same region in each iteration, so that none of them is ever mapped anew.
#[derive(Clone, Copy, Default)]
pub(super) struct Usage {
    now: u64,
    before: u64,
    /// The iteration that `now` speaks of.
    iteration: u64,
    /// The part in which it was leased last.
    since: u32,
}

/// A moment of a job: its iteration, and the part of it if a profile tells.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) iteration: u64,
    pub(super) part: Option<u32>,
}

impl Usage {
    /// All parts, for what outlives an iteration.
    const ALWAYS: u64 = u64::MAX;

    pub(crate) fn begin(&mut self, moment: Moment) {
        self.turn(moment);
        self.since = moment.part.unwrap_or(0);
    }

    pub(crate) fn end(&mut self, moment: Moment) {
        let whole = self.iteration != moment.iteration;
        self.turn(moment);
        self.now |= match moment.part {
            _ if whole => Self::ALWAYS,
            Some(part) => Self::ALWAYS << self.since.min(63) & Self::ALWAYS >> (63 - part.min(63)),
            None => 0,
        };
    }

    /// The parts in which it is in use.
    pub(super) fn parts(self) -> u64 {
        self.now | self.before
    }

    fn turn(&mut self, moment: Moment) {
        if self.iteration != moment.iteration {
            self.before = if self.iteration + 1 == moment.iteration { self.now } else { 0 };
            (self.now, self.iteration) = (0, moment.iteration);
        }
    }
}

impl Moves {
    /// The page is mapped anew.
    pub(super) fn note(&mut self, moment: Moment) {
        let before = core::mem::replace(&mut self.iteration, moment.iteration);
        if before != moment.iteration {
            let follows = before + 1 == moment.iteration;
            self.in_a_row = if follows { self.in_a_row.saturating_add(1) } else { 1 };
        }
    }

    /// Whether that was so in each of the last iterations, so that it is not by chance.
    pub(super) fn at_each(self, moment: Moment) -> bool {
        self.in_a_row >= MOVES_IN_A_ROW && self.iteration + 1 == moment.iteration
    }
}

/// The pages of one arena, by number.
#[derive(Default)]
pub(super) struct Pages(Vec<Page>);

impl Pages {
    pub(crate) fn page(&self, page: u64) -> Page {
        let known = usize::try_from(page).ok().and_then(|page| self.0.get(page));
        known.copied().unwrap_or_default()
    }

    /// The pages that anything is known of: all others have never been backed.
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The pages that have a region, and which.
    pub(crate) fn mapped(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        (0..).zip(&self.0).filter_map(|(number, page)| Some((number, page.region?)))
    }

    /// Changes what is known of a page.
    pub(super) fn set(&mut self, page: u64, change: impl FnOnce(&mut Page)) {
        let Ok(page) = usize::try_from(page) else { return };
        if page >= self.0.len() {
            self.0.resize(page + 1, Page::default());
        }
        change(&mut self.0[page]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(iteration: u64, part: Option<u32>) -> Moment {
        Moment { iteration, part }
    }

    #[test]
    fn usage_is_of_this_iteration_and_the_one_before() {
        let mut usage = Usage::default();
        usage.begin(at(1, Some(2)));
        assert_eq!(usage.parts(), 0, "known when it ends");
        usage.end(at(1, Some(4)));
        assert_eq!(usage.parts(), 0b1_1100);
        usage.begin(at(1, Some(63)));
        usage.end(at(1, Some(63)));
        assert_eq!(usage.parts(), 1 << 63 | 0b1_1100);
        usage.begin(at(2, Some(0)));
        usage.end(at(2, Some(0)));
        assert_eq!(usage.parts(), 1 << 63 | 0b1_1101, "the iteration before still counts");
        usage.begin(at(3, Some(5)));
        usage.end(at(3, Some(5)));
        assert_eq!(usage.parts(), 0b10_0001, "the one before that does not");
        usage.begin(at(5, Some(7)));
        usage.end(at(5, Some(7)));
        assert_eq!(usage.parts(), 1 << 7, "nor one that was left out");
    }

    #[test]
    fn what_outlives_an_iteration_is_always_in_use_and_the_unknown_never() {
        let mut usage = Usage::default();
        usage.begin(at(1, Some(2)));
        usage.end(at(2, Some(1)));
        assert_eq!(usage.parts(), u64::MAX);
        let mut usage = Usage::default();
        usage.begin(at(1, None));
        usage.end(at(1, None));
        assert_eq!(usage.parts(), 0);
    }
}
