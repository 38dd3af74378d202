//! Which of the known kinds the running iteration may be of, or whether it may be of none.

use alloc::sync::Arc;

use super::expected::Expected;
use super::{Predictor, Record};

impl Predictor {
    /// What is known of a shape that the job tells.
    pub(super) fn told(&self, shape: u64) -> Option<&Record> {
        self.kinds.iter().find(|record| record.kind.told == Some(shape))
    }

    /// The kinds that began with these marks, a bit for each.
    pub(super) fn alike(&self) -> u32 {
        let kinds = (0..).zip(self.kinds.iter());
        let begins_so = |record: &Record| record.shared(&self.marks).count() == self.marks.len();
        let alike = kinds.filter(|(_, record)| begins_so(record));
        alike.fold(0, |alike, (which, _)| alike | 1 << which)
    }

    /// What a new kind may need, if the running iteration may be of one although it has begun as
    /// others have: there have been new ones lately, so many allocations do not tell those apart that
    /// are known, and it has passed all marks of none.
    pub(super) fn may_still_be_new(&self, alike: u32) -> Option<Option<u32>> {
        let is_whole = |record: &Record| record.marks.len() == self.marks.len();
        let is_like_one = self.those(alike).any(is_whole);
        (self.is_new_usual() && !is_like_one && !self.tells_kinds_apart()).then(|| self.new_kind())
    }

    /// Whether there are several known kinds, of which no two have begun with the same allocations,
    /// as many as the running iteration has made. O(kinds^2).
    fn tells_kinds_apart(&self) -> bool {
        let Some(last) = self.marks.len().checked_sub(1) else { return false };
        if self.kinds.iter().len() < 2 {
            return false;
        }
        let mark = |record: &Record| record.marks.get(last).map(|passed| passed.hash);
        let mut before = self.kinds.iter().enumerate();
        before.all(|(at, one)| {
            let later = self.kinds.iter().skip(at + 1);
            mark(one).is_none_or(|one| later.filter_map(mark).all(|other| other != one))
        })
    }

    /// What the next iteration may need, which may be of a new kind, if anything is known of that.
    pub(super) fn new_kind(&self) -> Option<u32> {
        self.novelty.next().max(self.declared)
    }

    /// Whether there have been new kinds lately.
    pub(super) fn is_new_usual(&self) -> bool {
        self.lately_new.most() > 0
    }

    /// Those kinds of which the bit is set.
    pub(super) fn those(&self, bits: u32) -> impl Iterator<Item = &Record> {
        let kinds = (0..).zip(self.kinds.iter());
        kinds.filter(move |(which, _)| bits >> which & 1 != 0).map(|(_, record)| record)
    }

    /// What is expected of an iteration that is like one of these: the most of all.
    pub(super) fn most_of(&self, alike: u32) -> Option<Expected> {
        let mut alike = self.those(alike).map(|record| &record.expected);
        let first = alike.next()?.clone();
        Some(alike.fold(first, |sum, next| Expected {
            settled: sum.settled && next.settled && sum.wave.operations() == next.wave.operations(),
            height: sum.height.zip(next.height).map(|(a, b)| a.max(b)),
            wave: Arc::new(sum.wave.envelope(&next.wave)),
            more: sum.more.max(next.more),
        }))
    }

    /// What is expected of an iteration that is like none before.
    pub(super) fn unlike_any(&self) -> Option<Expected> {
        let usual = self.usual.clone()?;
        let height = self.novelty.new_for_sure().max(self.declared);
        let known = height.is_some();
        Some(Expected {
            wave: usual.wave,
            settled: usual.settled && known,
            height: height.zip(usual.height).map(|(height, usual)| height.max(usual)),
            more: usual.more.max(height.map_or(0, |height| self.beyond_known(height))),
        })
    }

    /// By how much a claim is more than that of any known kind.
    pub(super) fn beyond_known(&self, claim: u32) -> u32 {
        let known = self.kinds.iter().map(|record| record.expected.wave.claim().value());
        claim.saturating_sub(known.max().unwrap_or(0))
    }
}
