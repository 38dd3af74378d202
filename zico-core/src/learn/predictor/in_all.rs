//! What iterations hold in all, what persists included.
//!
//! What an iteration has of its own and what persists are known apart, and the most of both need
//! not come together: gradients that persist until the next iteration begins are gone when they
//! grow again. So what iterations have held in all bounds what is claimed, and what they have begun
//! with in all what is kept.

use super::Predictor;
use crate::learn::footprint::{Footprint, Most};
use crate::types::tuning::LEARNING;

impl Predictor {
    /// The most that an iteration lately would hold, what persists included, now that so much
    /// persists and is settled: room for as much has to be left for the job. Before the first, as
    /// the job has declared; none if nothing is known.
    pub(crate) fn largest(&self, persistent: u32, settled: i64) -> Option<u32> {
        let known = self.known.map(|known| known.now(settled));
        known.or_else(|| Some(persistent.saturating_add(self.declared?)))
    }

    /// Looks at what all kinds and the last two iterations have held.
    pub(super) fn know_in_all(&mut self) {
        let kinds = self.kinds.iter().map(|record| record.footprint);
        self.known = Most::of(kinds.chain(self.footprints.into_iter().flatten()));
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

    /// The most that the running iteration comes to hold in all, what persists included, now that so
    /// much persists and is settled, if that is known.
    pub(crate) fn in_all(&self, settled: i64) -> Option<u32> {
        let now = self.now.as_ref().filter(|_| self.knows_in_all())?;
        let least = self.least_margin(now.height?);
        let most = self.known?.now(settled).saturating_add(now.more);
        Some(most.saturating_add(self.margin_in_all.regions().max(least)))
    }

    /// The most that one of the last iterations would hold at its end, now that so much persists and
    /// is settled, if that is known.
    pub(crate) fn rests(&self, settled: i64) -> Option<u32> {
        if self.knows_in_all() { self.rests.most(settled) } else { None }
    }

    /// What the last iterations have all begun with, what persists included, now that so much is
    /// settled; or they and another one that begins with so many regions. None if that is not known.
    pub(crate) fn surely_rests(&self, settled: i64, begin: Option<u32>) -> Option<u32> {
        if !self.knows_in_all() {
            return None;
        }
        match begin {
            Some(begin) => self.rests.least_then(begin, settled),
            None => self.rests.least(settled),
        }
    }

    /// Whether enough iterations have shown what they hold in all.
    fn knows_in_all(&self) -> bool {
        self.iterations >= LEARNING && !self.is_learning()
    }

    /// By how many regions an iteration has held more in all than any that was known.
    pub(super) fn beyond_largest(&self, footprint: Footprint) -> u32 {
        let known = self.known.filter(|_| self.kinds.iter().len() > 0);
        known.map_or(0, |known| footprint.total.saturating_sub(known.now(footprint.settled)))
    }
}
