//! What is expected of an iteration, and of one that is new.

use alloc::sync::Arc;

use crate::learn::profile::Profile;
use crate::types::tuning::{
    NOVELTY_CLAIMS, NOVELTY_DRAWS, NOVELTY_FACTOR, NOVELTY_FEWEST, NOVELTY_KINDS, NOVELTY_PART,
};
use crate::types::units::Progress;

/// What an iteration is expected to do.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) wave: Arc<Profile>,
    /// Two iterations in a row have made the same number of operations: it is believed where demand
    /// falls.
    pub(super) settled: bool,
    /// The claim at the beginning: that of the wave, or more. None if nobody knows.
    pub(super) height: Option<u32>,
    /// By how many regions it may hold more in all, what persists included, than any that is known.
    pub(super) more: u32,
}

impl Expected {
    pub(super) fn of(wave: Arc<Profile>, settled: bool) -> Self {
        let height = Some(wave.claim().value());
        Self { wave, settled, height, more: 0 }
    }

    /// The newest iteration and the one before.
    pub(super) fn after(newest: &Arc<Profile>, older: &Arc<Profile>) -> Self {
        let settled = newest.operations() == older.operations();
        Self::of(Arc::new(newest.envelope(older)), settled)
    }

    /// The most that it holds leased from `progress` on: the wave's, raised to the height. Raised
    /// by as much everywhere: a wave of another height falls elsewhere as well.
    pub(super) fn claim_from(&self, progress: Progress) -> Option<u32> {
        let (height, whole) = (self.height?, self.wave.claim().value());
        if !self.settled {
            return Some(height);
        }
        let ahead = self.wave.claim_from(progress).value();
        Some(ahead.saturating_add(height.saturating_sub(whole)))
    }

    /// It may need so much at any time, if it is known what it needs; and hold so much more in all.
    pub(super) fn raise(&mut self, height: u32, more: u32) {
        self.settled = false;
        self.height = self.height.map(|known| known.max(height));
        self.more = self.more.max(more);
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        let claims = |one: &Self| (one.settled, one.height, one.more);
        let same = claims(self) == claims(other);
        same && Arc::ptr_eq(&self.wave, &other.wave)
    }
}

/// The claims of the last iterations that were new, how many were not, and what the next new one
/// may need.
#[derive(Debug, Default)]
pub(super) struct Novelty {
    claims: [u32; NOVELTY_CLAIMS],
    count: usize,
    /// The largest that is of no kind: that of the job's first iteration, where its blocks'
    /// lifetimes were told, or of those in which lifetimes were being learned.
    first: u32,
    /// How many iterations have been of a kind that was known.
    repeats: usize,
    /// The largest claim of all, until so many have been new after it.
    record: u32,
    new_since: usize,
    /// How many iterations have not exceeded it since.
    within: usize,
}

impl Novelty {
    /// Of a job of which so much is known only, from iterations that tell nothing of new ones.
    pub(super) fn since(highest: u32) -> Self {
        Self { first: highest, record: highest, ..Self::default() }
    }

    pub(super) fn note(&mut self, claim: u32) {
        self.claims[self.count % NOVELTY_CLAIMS] = claim;
        self.count += 1;
        if claim > self.record {
            (self.record, self.new_since, self.within) = (claim, 0, 0);
            return;
        }
        self.new_since += 1;
        self.within += 1;
        if self.new_since > NOVELTY_DRAWS {
            self.record = self.claims.into_iter().fold(0, u32::max);
            (self.new_since, self.within) = (NOVELTY_CLAIMS, NOVELTY_CLAIMS);
        }
    }

    pub(super) fn note_repeat(&mut self) {
        self.repeats = self.repeats.saturating_add(1);
        self.within = self.within.saturating_add(1);
    }

    pub(super) fn note_first(&mut self, claim: u32) {
        self.first = claim;
        self.record = self.record.max(claim);
    }

    fn known(&self) -> impl Iterator<Item = u32> + '_ {
        let kinds = self.claims.iter().take(self.count).copied();
        kinds.chain(Some(self.first).filter(|&first| first > 0))
    }

    /// The highest of all that is known.
    pub(super) const fn highest(&self) -> u32 {
        self.record
    }

    /// What the next iteration may need, which may be new. None if there are too few to tell.
    pub(super) fn next(&self) -> Option<u32> {
        let lately = self.known().count().saturating_add(self.repeats).min(NOVELTY_CLAIMS);
        let count = lately.max(self.within.min(NOVELTY_DRAWS)) as u64;
        let (highest, lowest) = (self.record, self.known().min()?);
        let range = highest - lowest;
        let differ = range > highest / NOVELTY_PART;
        if count < if differ { NOVELTY_FEWEST } else { 2 } {
            return None;
        }
        let more = (NOVELTY_FACTOR * u64::from(range)).div_ceil(count);
        Some(highest.saturating_add(u32::try_from(more).unwrap_or(u32::MAX)))
    }

    /// What one needs that is new, for sure: it is not drawn as those that repeat were. None if too
    /// few have been new to tell.
    pub(super) fn new_for_sure(&self) -> Option<u32> {
        if self.count < NOVELTY_KINDS { None } else { self.next() }
    }
}
