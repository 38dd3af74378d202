//! All regions under one budget: who has each, which can be had, where a run of them lies.
//!
//! A region's *slot* is its place in the pool's home range; slot `s` is mapped at the home range's
//! page `s`. Searching for a run of regions scans bitmaps word by word, O(slots / 64).

use alloc::vec::Vec;
use core::ops::Range;

use crate::arena::Side;
use crate::lifetime::Lifetime;

/// Names a job within its pool. Never used twice.
pub(crate) type JobKey = u64;

/// Who has a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not created on the device, or being given back.
    Absent,
    /// Created and nobody's.
    Free,
    /// In an arena of a job.
    Leased { job: JobKey, lifetime: Lifetime },
    /// Given up by a job in program order; the device has yet to pass the fence of `batch`.
    Draining { job: JobKey, batch: u64 },
}

/// Which regions a search may take, beside those that the asking job itself has draining: the
/// device runs one stream in order, so a job need not wait for its own fence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// None.
    Own,
    /// Created ones that are free.
    Free,
    /// Those and ones that have yet to be created.
    Absent,
}

impl Reach {
    pub(crate) const ALL: [Self; 3] = [Self::Own, Self::Free, Self::Absent];
}

pub(crate) struct Regions {
    states: Vec<State>,
    absent: Bits,
    free: Bits,
}

impl Regions {
    pub(crate) fn new(count: usize) -> Self {
        let mut absent = Bits::new(count);
        (0..count).for_each(|slot| absent.set(slot, true));
        Self { states: alloc::vec![State::Absent; count], absent, free: Bits::new(count) }
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn state(&self, slot: usize) -> State {
        self.states[slot]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, State)> + '_ {
        self.states.iter().copied().enumerate()
    }

    pub(crate) fn set(&mut self, slot: usize, state: State) {
        self.absent.set(slot, state == State::Absent);
        self.free.set(slot, state == State::Free);
        self.states[slot] = state;
    }

    /// Whether `job`, which has `own` draining, may take the region at `slot`.
    pub(crate) fn reaches(&self, reach: Reach, own: &Bits, slot: usize) -> bool {
        slot < self.len()
            && (own.get(slot)
                || (reach != Reach::Own && self.free.get(slot))
                || (reach == Reach::Absent && self.absent.get(slot)))
    }

    /// The tightest run of at least `count` regions within reach, cut to `count` at its `side` end.
    pub(crate) fn best_run(
        &self,
        reach: Reach,
        own: &Bits,
        count: usize,
        side: Side,
    ) -> Option<Range<usize>> {
        let mut best: Option<Range<usize>> = None;
        for run in self.runs(reach, own) {
            let tighter = best.as_ref().is_none_or(|best| match side {
                Side::Low => run.len() < best.len(),
                Side::High => run.len() <= best.len(),
            });
            if run.len() >= count && tighter {
                best = Some(run);
            }
        }
        best.map(|run| match side {
            Side::Low => run.start..run.start + count,
            Side::High => run.end - count..run.end,
        })
    }

    /// The length of the longest run within reach.
    pub(crate) fn longest_run(&self, reach: Reach, own: &Bits) -> usize {
        self.runs(reach, own).map(|run| run.len()).max().unwrap_or(0)
    }

    /// The slots within reach, lowest first.
    pub(crate) fn within(&self, reach: Reach, own: &Bits) -> impl Iterator<Item = usize> {
        self.runs(reach, own).flatten()
    }

    fn runs(&self, reach: Reach, own: &Bits) -> impl Iterator<Item = Range<usize>> {
        let word = move |i: usize| {
            own.words[i]
                | if reach == Reach::Own { 0 } else { self.free.words[i] }
                | if reach == Reach::Absent { self.absent.words[i] } else { 0 }
        };
        let end = self.len();
        let mut from = 0;
        core::iter::from_fn(move || {
            let start = seek(from, end, &word)?;
            let stop = seek(start, end, &|i| !word(i)).unwrap_or(end);
            from = stop;
            Some(start..stop)
        })
    }
}

/// The first set bit at or after `from`, below `end`.
fn seek(from: usize, end: usize, word: &impl Fn(usize) -> u64) -> Option<usize> {
    let mut i = from / 64;
    if from >= end {
        return None;
    }
    let mut bits = word(i) & (u64::MAX << (from % 64));
    while bits == 0 {
        i += 1;
        if i * 64 >= end {
            return None;
        }
        bits = word(i);
    }
    let at = i * 64 + bits.trailing_zeros() as usize;
    (at < end).then_some(at)
}

/// A set of slots.
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(crate) fn new(count: usize) -> Self {
        Self { words: alloc::vec![0; count.div_ceil(64)] }
    }

    pub(crate) fn get(&self, slot: usize) -> bool {
        self.words[slot / 64] >> (slot % 64) & 1 == 1
    }

    pub(crate) fn set(&mut self, slot: usize, on: bool) {
        let bit = 1 << (slot % 64);
        if on {
            self.words[slot / 64] |= bit;
        } else {
            self.words[slot / 64] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(free: &[Range<usize>], count: usize) -> Regions {
        let mut regions = Regions::new(count);
        for slot in 0..count {
            let state = if free.iter().any(|run| run.contains(&slot)) {
                State::Free
            } else {
                State::Leased { job: 0, lifetime: Lifetime::Iteration }
            };
            regions.set(slot, state);
        }
        regions
    }

    #[test]
    fn the_tightest_run_is_taken_at_the_side_asked_for() {
        let regions = table(&[0..10, 60..70, 100..105, 120..200], 200);
        let own = Bits::new(200);
        assert_eq!(regions.best_run(Reach::Free, &own, 4, Side::Low), Some(100..104));
        assert_eq!(regions.best_run(Reach::Free, &own, 4, Side::High), Some(101..105));
        assert_eq!(regions.best_run(Reach::Free, &own, 6, Side::Low), Some(0..6));
        assert_eq!(regions.best_run(Reach::Free, &own, 6, Side::High), Some(64..70));
        assert_eq!(regions.best_run(Reach::Free, &own, 80, Side::Low), Some(120..200));
        assert_eq!(regions.best_run(Reach::Free, &own, 81, Side::Low), None);
        assert_eq!(regions.best_run(Reach::Own, &own, 1, Side::Low), None);
        assert_eq!(regions.longest_run(Reach::Free, &own), 80);
    }

    #[test]
    fn a_jobs_own_draining_regions_are_within_its_reach() {
        let regions = table(&[2..4, 6..7], 8);
        let mut own = Bits::new(8);
        own.set(4, true);
        assert_eq!(regions.best_run(Reach::Own, &own, 1, Side::Low), Some(4..5));
        assert_eq!(regions.best_run(Reach::Free, &own, 3, Side::Low), Some(2..5));
        assert!(regions.reaches(Reach::Own, &own, 4) && !regions.reaches(Reach::Free, &own, 5));
    }
}
