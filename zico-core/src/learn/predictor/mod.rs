//! What is expected of a job's next or running iteration, from those that have ended.
//!
//! A job keeps a profile for each of the last few [kinds](crate::learn::kinds) of iteration. An
//! iteration of a known kind is expected to do what that kind has done. Before its first allocation
//! it is expected to do what the last two iterations did, and to need no more than the largest of
//! all; or, as long as there have been new kinds lately, than a new one. Where lifetimes are
//! learned kinds differ by what has been learned in between, so those count as new that come after
//! that.
//!
//! An iteration of a *new* kind may need more than any before. Of n values drawn alike from some
//! range the next one exceeds them all once in n times, by about an n-th of the range. So that much
//! is added to the largest, eight times over ([`Novelty`]). While there are fewer than three to
//! tell from, and these differ, the next one may need whatever there is; so may one that is known
//! to be new while fewer than eight have been. As long as there have been new kinds lately that
//! holds for each iteration until its allocations have told which one it is: a beginning that two
//! known kinds share tells nothing. That keeps nobody waiting who is known: the banker's test
//! grants a known iteration what leaves it able to finish, and a new one what leaves all known
//! ones able to.

mod alike;
mod arrangement;
mod expected;
mod in_all;
mod record;
mod replan;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::learn::footprint::{Footprint, Most, Rests};
use crate::learn::kinds::{Kind, RecentlyUsed};
use crate::learn::leftovers::Leftovers;
use crate::learn::margin::Margin;
use crate::learn::profile::Profile;
use crate::learn::recent::Recent;
use crate::learn::signature::{Mark, Signature};
use crate::learn::steadiness::Steadiness;
use crate::types::tuning::{KINDS, LEARNING, LEARNING_PART};
use crate::types::units::{Progress, Regions};
use arrangement::Arrangement;
use expected::{Expected, Novelty};
use record::{Passed, Record};

pub(crate) use replan::Peak;

/// What an iteration has shown that has ended.
pub(crate) struct Took {
    pub(crate) profile: Profile,
    /// Its allocations.
    pub(crate) signature: Signature,
    /// By how many regions it has held more than was promised.
    pub(crate) exceeded: u32,
    /// How many it has left behind beside what persists.
    pub(crate) left: u32,
    /// What it held at its most, what persists included ...
    pub(crate) footprint: Footprint,
    /// ... and at its end, in regions.
    pub(crate) rest: u32,
}

/// What one job's iterations are expected to do.
#[derive(Debug, Default)]
pub(crate) struct Predictor {
    kinds: RecentlyUsed<Record, KINDS>,
    /// The last iteration, of whatever kind.
    last: Option<Arc<Profile>>,
    /// Those of the last two, the newest first.
    footprints: [Option<Footprint>; 2],
    /// The most of those, and of those of all kinds.
    known: Option<Most>,
    /// What is expected of an iteration that has not allocated anything.
    usual: Option<Expected>,
    /// What is expected now.
    now: Option<Expected>,
    /// The shape that the job tells of the iteration that is to come or runs.
    told: Option<u64>,
    /// Nobody knows any more where the running iteration ends.
    lost: bool,
    /// The marks of the running iteration, while it may turn out to be like an earlier one.
    marks: Vec<Passed>,
    /// The kinds that began so when they were looked at last, a bit for each, and what one that is
    /// new after all may need: they are what is expected now. None if something else is.
    alike: Option<(u32, Option<Option<u32>>)>,
    novelty: Novelty,
    /// Which of the last iterations were of a new kind: 1, or else 0.
    lately_new: Recent,
    arrangement: Arrangement,
    /// What the job has said that an iteration takes at most.
    declared: Option<u32>,
    margin: Margin,
    /// That of what iterations hold in all.
    margin_in_all: Margin,
    leftovers: Leftovers,
    rests: Rests,
    steadiness: Steadiness,
    iterations: u64,
}

impl Predictor {
    /// Of a job that has said what its iterations take at most, if it has.
    pub(crate) fn of(declared: Option<u32>) -> Self {
        let flat = |maximum| Expected::of(Arc::new(Profile::flat(Regions::new(maximum))), false);
        let usual = declared.map(flat);
        Self { now: usual.clone(), usual, declared, ..Self::default() }
    }

    /// The wave that is expected now.
    pub(crate) fn profile(&self) -> Option<&Arc<Profile>> {
        Some(&self.now.as_ref()?.wave)
    }

    /// Whether the wave is known to repeat.
    pub(crate) fn is_settled(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.settled)
    }

    /// The most that the running iteration comes to hold leased from `progress` on, as promised, if
    /// anything is ...
    pub(crate) fn promised(&self, progress: Progress) -> Option<u32> {
        self.now.as_ref()?.claim_from(progress)
    }

    /// ... and with the margin that iterations have shown to need. The first few have shown little
    /// yet: how long blocks live is learned meanwhile, and so they are placed otherwise than
    /// before; and what the job has declared may come still. Nothing while lifetimes are being
    /// learned, unless the job has declared its peak.
    pub(crate) fn ahead(&self, progress: Progress) -> Option<u32> {
        let promised = self.promised(progress).filter(|_| !self.is_learning())?;
        let declared = self.declared.filter(|_| self.iterations < LEARNING).unwrap_or(0);
        let least = self.least_margin(promised);
        Some(promised.saturating_add(self.margin.regions().max(least)).max(declared))
    }

    /// The least margin of a promise of so much, where iterations have shown little of it: there
    /// have been few, or the blocks of this one may lie otherwise.
    fn least_margin(&self, promised: u32) -> u32 {
        let learning = if self.iterations < LEARNING { promised / LEARNING_PART } else { 0 };
        learning.max(self.arrangement.least_margin(promised))
    }

    /// Memory is leased for a block of which nobody has said how long it lives.
    pub(crate) fn note_learned(&mut self) {
        self.steadiness.note_learned();
    }

    /// Whether the last iterations tell little of the next one: how long blocks live is being
    /// learned.
    pub(crate) fn is_learning(&self) -> bool {
        self.declared.is_none() && self.steadiness.is_learning()
    }

    /// An iteration begins with so many regions that those before it have left, and with so much in
    /// all.
    pub(crate) fn note_begin(&mut self, carried: u32, all: Footprint) {
        self.leftovers.note_carried(carried);
        self.rests.note_begin(all);
    }

    /// The most that one of the last iterations has left behind beside what persists, in regions.
    pub(crate) fn left(&self) -> u32 {
        self.leftovers.left()
    }

    /// What the last iterations have all begun with beside what persists, in regions.
    pub(crate) fn carried(&self) -> u32 {
        self.leftovers.carried()
    }

    /// The same once another iteration begins, with so many.
    pub(crate) fn carried_then(&self, regions: u32) -> u32 {
        self.leftovers.carried_then(regions)
    }

    /// The next iteration is to be of a shape that the job tells, or it says nothing. Whether
    /// something else is expected since.
    pub(crate) fn expect(&mut self, told: Option<u64>) -> bool {
        self.begin_anew();
        let changed = core::mem::replace(&mut self.told, told) != told;
        if changed {
            self.now = match told {
                Some(shape) => {
                    let known = self.told(shape).map(|record| record.expected.clone());
                    known.or_else(|| self.unlike_any())
                }
                None => self.usual.clone(),
            };
        }
        changed
    }

    /// The running iteration has made its allocations up to a mark, and held at most so many regions
    /// beside what persists. What had been expected until then, if that is something else than now.
    /// O(kinds), and an envelope of those that are left when they are not the same as at the mark
    /// before.
    pub(crate) fn recognise(&mut self, mark: Mark, held: u32) -> Option<Rollback> {
        if self.told.is_some() || self.lost || self.marks.len() != mark.power as usize {
            return None;
        }
        self.marks.push(Passed { hash: mark.hash, held });
        let alike = self.alike();
        let new = self.may_still_be_new(alike);
        if self.alike.replace((alike, new)) == Some((alike, new)) {
            return None;
        }
        let mut next = self.most_of(alike).or_else(|| self.unlike_any())?;
        if let Some(new) = new {
            next.height = next.height.zip(new).map(|(height, new)| height.max(new));
            next.more = next.more.max(new.map_or(0, |new| self.beyond_known(new)));
        }
        if self.now.as_ref().is_some_and(|now| now.is(&next)) {
            return None;
        }
        self.now.replace(next).map(Rollback)
    }

    /// The running iteration may go on for ever, and need whatever there is. What had been expected
    /// until then.
    pub(crate) fn lose(&mut self) -> Option<Rollback> {
        if core::mem::replace(&mut self.lost, true) {
            return None;
        }
        let now = self.now.as_mut()?;
        let unknown = Expected { settled: false, height: None, ..now.clone() };
        Some(Rollback(core::mem::replace(now, unknown)))
    }

    /// Whether nobody knows where the running iteration ends.
    pub(crate) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// What was expected before still is.
    pub(crate) fn keep(&mut self, before: Rollback) {
        (self.now, self.alike) = (Some(before.0), None);
    }

    /// An iteration has ended.
    pub(crate) fn learn(&mut self, took: Took) {
        let Took { profile, signature, exceeded, left, footprint, rest } = took;
        let newest = Arc::new(profile);
        let varied = self.steadiness.note(footprint.total);
        self.margin.note(exceeded.max(varied));
        self.leftovers.note_left(left);
        self.margin_in_all.note(self.beyond_largest(footprint).max(varied));
        self.rests.note(Footprint { total: rest, ..footprint });
        self.footprints = [Some(footprint), self.footprints[0]];
        // The first one is different: it makes what persists. That is no part of its wave where the
        // job has said so.
        let first = self.iterations == 0;
        self.iterations = self.iterations.saturating_add(1);
        let is_alike = !first || self.told.is_some();
        if !is_alike && !self.steadiness.is_learned() {
            self.novelty.note_first(newest.claim().value());
        }
        let alike = is_alike.then(|| self.file(&newest, signature, footprint));
        let is_another = alike.as_ref().is_some_and(|(_, again)| !again);
        self.arrangement.note(is_another && self.kinds.iter().len() > 1);
        self.know_in_all();
        if self.steadiness.is_learning() {
            self.novelty = Novelty::since(self.novelty.highest());
            self.lately_new = Recent::default();
        }
        self.is_known_again();
        let last = self.last.replace(newest.clone());
        let mut usual = match (alike, last) {
            // The same kind twice in a row: that has both in it.
            (Some((expected, true)), _) => expected,
            (_, Some(last)) => Expected::after(&newest, &last),
            _ => Expected::of(newest, false),
        };
        let most = match self.is_new_usual() {
            true => self.new_kind(),
            false => Some(self.novelty.highest()),
        };
        usual.height = usual.height.zip(most).map(|(height, most)| height.max(most));
        usual.more = most.map_or(0, |most| self.beyond_known(most));
        self.now = Some(usual.clone());
        self.usual = Some(usual);
        (self.told, self.lost) = (None, false);
        self.begin_anew();
    }

    /// Nothing is known of the iteration that is to come.
    fn begin_anew(&mut self) {
        self.marks.clear();
        self.alike = None;
    }

    /// Puts an iteration with those of its kind. What is expected of them, and whether the last one
    /// was of that kind too.
    fn file(
        &mut self,
        newest: &Arc<Profile>,
        signature: Signature,
        footprint: Footprint,
    ) -> (Expected, bool) {
        let kind = Kind { told: self.told, signature };
        let (marks, newest) = (core::mem::take(&mut self.marks), newest.clone());
        let found = self.find(kind);
        let record = |expected: &Expected, is_planned| Record {
            kind,
            marks,
            newest: newest.clone(),
            expected: expected.clone(),
            footprint,
            is_planned,
            needs: 0,
            left: 0,
            passed_over: 0,
        };
        if let Some(known) = found.and_then(|at| self.kinds.make_latest(at)) {
            self.lately_new.note(0);
            self.novelty.note_repeat();
            let expected = Expected::after(&newest, &known.newest);
            *known = record(&expected, known.is_planned);
            return (expected, found == Some(0));
        }
        self.novelty.note(newest.claim().value());
        self.lately_new.note(1);
        let expected = Expected::of(newest.clone(), false);
        let record = record(&expected, false);
        self.kinds.insert(record);
        (expected, false)
    }

    fn find(&self, kind: Kind) -> Option<usize> {
        self.kinds.position(|record| record.kind.is_expected_as(&kind))
    }
}

/// An expectation to go back to.
pub(crate) struct Rollback(Expected);

impl Rollback {
    pub(crate) fn promised(&self, progress: Progress) -> Option<u32> {
        self.0.claim_from(progress)
    }
}

#[cfg(test)]
mod tests;
