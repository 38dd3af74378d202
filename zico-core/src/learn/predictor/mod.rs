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
mod expected;
mod replan;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::learn::kinds::{Kind, RecentlyUsed};
use crate::learn::leftovers::Leftovers;
use crate::learn::margin::Margin;
use crate::learn::profile::Profile;
use crate::learn::recent::Recent;
use crate::learn::signature::{Mark, Signature};
use crate::learn::steadiness::Steadiness;
use crate::types::tuning::KINDS;
use crate::types::tuning::{
    KINDS_MARGIN, KINDS_MARGIN_PART, LEARNING, LEARNING_KINDS, LEARNING_PART,
};
use crate::types::units::{Progress, Regions};
use expected::{Expected, Novelty};

pub(crate) use replan::Peak;

/// What iterations of one kind have done. It is used when one of them ends.
#[derive(Debug)]
struct Record {
    /// That of the newest.
    kind: Kind,
    /// The running hashes after 1, 2, 4 allocations and so on.
    marks: Vec<u64>,
    newest: Arc<Profile>,
    expected: Expected,
    footprint: Footprint,
    /// Its iterations are placed as planned.
    is_planned: bool,
    /// While its need is not known: what it was, in regions,
    needs: u32,
    /// the most that plans have left beside that, since it came last,
    left: u32,
    /// and how many iterations of other kinds have passed it over since the last of these plans.
    passed_over: u32,
}

/// What an iteration held at its most, what persists included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    /// In regions.
    pub(crate) total: u32,
    /// What persisted at its end, but for what earlier iterations had among their own blocks: how
    /// long these live was learned in between.
    pub(crate) settled: i64,
}

impl Footprint {
    /// What an iteration would hold that is like it, now that so much persists.
    fn now(self, settled: i64) -> u32 {
        let more = u32::try_from(settled.saturating_sub(self.settled)).unwrap_or(0);
        self.total.saturating_add(more)
    }
}

/// What one job's iterations are expected to do.
#[derive(Debug, Default)]
pub(crate) struct Predictor {
    kinds: RecentlyUsed<Record, KINDS>,
    /// The last iteration, of whatever kind.
    last: Option<Arc<Profile>>,
    /// Those of the last two, the newest first.
    footprints: [Option<Footprint>; 2],
    /// What is expected of an iteration that has not allocated anything.
    usual: Option<Expected>,
    /// What is expected now.
    now: Option<Expected>,
    /// The shape that the job tells of the iteration that is to come or runs.
    told: Option<u64>,
    /// Nobody knows any more where the running iteration ends.
    lost: bool,
    /// The marks of the running iteration, while it may turn out to be like an earlier one.
    marks: Vec<u64>,
    /// The kinds that began so when they were looked at last, a bit for each, and what one that is
    /// new after all may need: they are what is expected now. None if something else is.
    alike: Option<(u32, Option<Option<u32>>)>,
    novelty: Novelty,
    /// Which of the last iterations were of a new kind: 1, or else 0.
    lately_new: Recent,
    /// What the job has said that an iteration takes at most.
    declared: Option<u32>,
    margin: Margin,
    leftovers: Leftovers,
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
        let learning = if self.iterations < LEARNING { promised / LEARNING_PART } else { 0 };
        let varies = self.iterations < LEARNING_KINDS && self.kinds.iter().len() > 1;
        let kinds = if varies { KINDS_MARGIN.min(promised / KINDS_MARGIN_PART) } else { 0 };
        let least = learning.max(kinds);
        let declared = self.declared.filter(|_| self.iterations < LEARNING).unwrap_or(0);
        Some(promised.saturating_add(self.margin.regions().max(least)).max(declared))
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

    /// The most that an iteration lately would hold, what persists included, now that so much
    /// persists and is settled: room for as much has to be left for the job. Before the first, as
    /// the job has declared; none if nothing is known.
    pub(crate) fn largest(&self, persistent: u32, settled: i64) -> Option<u32> {
        let kinds = self.kinds.iter().map(|record| record.footprint);
        let lately = self.footprints.into_iter().flatten();
        let known = kinds.chain(lately).map(|footprint| footprint.now(settled)).max();
        known.or_else(|| Some(persistent.saturating_add(self.declared?)))
    }

    /// What the next iteration takes for sure, what persists included, if its like have: as much as
    /// each of the last two would, or, if the job has told a shape, as the last of that shape.
    pub(crate) fn surely(&self, settled: i64) -> Option<u32> {
        if let Some(record) = self.told.and_then(|shape| self.told(shape)) {
            return Some(record.footprint.now(settled));
        }
        let [newest, older] = self.footprints;
        Some(newest?.now(settled).min(older?.now(settled)))
    }

    /// An iteration begins with so many regions that those before it have left.
    pub(crate) fn note_carried(&mut self, regions: u32) {
        self.leftovers.note_carried(regions);
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

    /// The running iteration has made its allocations up to a mark. What had been expected until
    /// then, if that is something else than now. O(kinds), and an envelope of those that are left
    /// when they are not the same as at the mark before.
    pub(crate) fn recognise(&mut self, mark: Mark) -> Option<Rollback> {
        if self.told.is_some() || self.lost || self.marks.len() != mark.power as usize {
            return None;
        }
        self.marks.push(mark.hash);
        let alike = self.alike();
        let new = self.may_still_be_new(alike);
        if self.alike.replace((alike, new)) == Some((alike, new)) {
            return None;
        }
        let mut next = self.most_of(alike).or_else(|| self.unlike_any())?;
        if let Some(new) = new {
            next.height = next.height.zip(new).map(|(height, new)| height.max(new));
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
        let unknown = Expected { wave: now.wave.clone(), settled: false, height: None };
        Some(Rollback(core::mem::replace(now, unknown)))
    }

    /// What was expected before still is.
    pub(crate) fn keep(&mut self, before: Rollback) {
        (self.now, self.alike) = (Some(before.0), None);
    }

    /// An iteration has ended: what it took, by which allocations, by how many regions it exceeded
    /// its promise, how many it has left behind beside what persists, and what it held in all.
    pub(crate) fn learn(
        &mut self,
        newest: Profile,
        signature: Signature,
        exceeded: u32,
        left: u32,
        footprint: Footprint,
    ) {
        let newest = Arc::new(newest);
        let varied = self.steadiness.note(footprint.total);
        self.margin.note(exceeded.max(varied));
        self.leftovers.note_left(left);
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
