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

/// The most of several footprints: which one that is depends on what persists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    total: u32,
    /// What one of them held beside what is settled.
    beside: i64,
}

impl Most {
    /// None of none.
    pub(super) fn of(footprints: impl IntoIterator<Item = Footprint>) -> Option<Self> {
        let alone = |footprint: Footprint| Self {
            total: footprint.total,
            beside: i64::from(footprint.total) - footprint.settled,
        };
        footprints.into_iter().map(alone).reduce(|one, other| Self {
            total: one.total.max(other.total),
            beside: one.beside.max(other.beside),
        })
    }

    /// The most that an iteration would hold that is like one of them, now that so much persists.
    pub(super) fn now(self, settled: i64) -> u32 {
        let with = u32::try_from(self.beside.saturating_add(settled)).unwrap_or(0);
        self.total.max(with)
    }
}

/// What the last few iterations held at their ends, and began with.
#[derive(Debug, Default)]
pub(super) struct Rests {
    ends: [Option<Footprint>; RECENT],
    next: usize,
    /// The most of those: it is asked for at each lease.
    most: Option<Most>,
    /// What the last two began with, the newest first.
    begins: [Option<Footprint>; 2],
}

impl Rests {
    /// An iteration has ended, and this is there.
    pub(super) fn note(&mut self, end: Footprint) {
        self.ends[self.next] = Some(end);
        self.next = (self.next + 1) % RECENT;
        self.most = Most::of(self.ends.iter().flatten().copied());
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
        Some(self.most?.now(settled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_that_of_whichever_is_the_highest_now() {
        let footprints =
            [(9, 4), (7, 1), (8, 3)].map(|(total, settled)| Footprint { total, settled });
        let most = Most::of(footprints).unwrap();
        for settled in -2..12 {
            let known = footprints.map(|footprint| footprint.now(settled));
            assert_eq!(Some(most.now(settled)), known.into_iter().max(), "{settled}");
        }
        assert!(Most::of([]).is_none());
    }

    #[test]
    fn an_end_counts_for_eight_iterations_and_a_beginning_for_two() {
        let mut rests = Rests::default();
        assert_eq!((rests.most(0), rests.least(0)), (None, None));
        for total in [9, 3, 3, 3, 3, 3, 3, 3] {
            let footprint = Footprint { total, settled: 0 };
            rests.note(footprint);
            rests.note_begin(footprint);
            assert_eq!(rests.most(2), Some(11));
        }
        assert_eq!((rests.least(-1), rests.least_then(1, 0)), (Some(2), Some(1)));
        rests.note(Footprint { total: 3, settled: 0 });
        assert_eq!(rests.most(0), Some(3));
    }
}
