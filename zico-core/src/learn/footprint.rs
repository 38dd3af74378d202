//! What an iteration has held, what persists included.

use crate::types::tuning::RECENT;

/// What an iteration held at one moment, what persists included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    /// In regions.
    pub(crate) total: u32,
    /// What persisted then, but for what earlier iterations had among their own blocks: how
    /// long these live was learned in between.
    pub(crate) settled: i64,
}

impl Footprint {
    /// What an iteration would hold that is like it, now that so much persists.
    pub(crate) fn now(self, settled: i64) -> u32 {
        let more = u32::try_from(settled.saturating_sub(self.settled)).unwrap_or(0);
        self.total.saturating_add(more)
    }

    /// The same without what has gone of that since.
    fn no_more(self, settled: i64) -> u32 {
        let gone = u32::try_from(self.settled.saturating_sub(settled)).unwrap_or(0);
        self.total.saturating_sub(gone)
    }
}

/// What the last few iterations held at their ends, and began with.
#[derive(Debug, Default)]
pub(super) struct Rests {
    ends: [Option<Footprint>; RECENT],
    next: usize,
    /// What the last two began with, the newest first.
    begins: [Option<Footprint>; 2],
}

impl Rests {
    /// An iteration has ended, and this is there.
    pub(super) fn note(&mut self, end: Footprint) {
        self.ends[self.next] = Some(end);
        self.next = (self.next + 1) % RECENT;
    }

    /// An iteration begins with this.
    pub(super) fn note_begin(&mut self, begin: Footprint) {
        self.begins = [Some(begin), self.begins[0]];
    }

    /// What both of the last two began with, without what of it has gone for good. None before there
    /// were two.
    pub(super) fn least(&self, settled: i64) -> Option<u32> {
        let [newest, older] = self.begins;
        Some(newest?.no_more(settled).min(older?.no_more(settled)))
    }

    /// The same once another iteration begins, with so many regions.
    pub(super) fn least_then(&self, begin: u32, settled: i64) -> Option<u32> {
        Some(self.begins[0]?.no_more(settled).min(begin))
    }

    /// The most, now that so much persists. None before there was one.
    pub(super) fn most(&self, settled: i64) -> Option<u32> {
        self.ends.iter().flatten().map(|end| end.now(settled)).max()
    }
}
