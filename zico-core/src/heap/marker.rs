//! Marks the iterations of a job that does not mark them itself, where they are detected to begin.
//!
//! Until a period is known, all that the job does is one iteration, which begins when its setup is
//! over: with the first allocation that is not said to persist, or, where lifetimes are learned,
//! with the first one after something has been freed. From then on an iteration ends and the next
//! one asks to begin before the allocation with which one is seen to begin. Where it may not begin
//! yet, that allocation is refused as busy. What the job holds meanwhile others cannot have, so
//! that should be little: an iteration has not ended while more than a little of its memory is
//! held.
//!
//! When the sequence stops to repeat, the iteration that runs goes on until a period is known
//! again, and it may need whatever there is, as far as those of other jobs can still finish. Where
//! it stops at the end of a period, that is still the end of an iteration: another kind of
//! iteration follows.

use alloc::boxed::Box;

use crate::learn::detector::Detector;
use crate::types::lifetime::Lifetime;
use crate::types::report::Detected;
use crate::types::units::Bytes;

/// What has to happen before an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// An iteration begins.
    Begin,
    /// One ends, and the next one begins.
    Turn,
    /// The running one may go on for ever.
    Lost,
}

/// Where a job is that does not mark its iterations.
pub(crate) struct Marker {
    detector: Detector,
    /// An iteration runs.
    pub(crate) inside: bool,
    /// One has to begin before the next allocation is made.
    due: bool,
    /// The number of the allocation with which the running one began.
    began: u64,
    /// The order has ceased to repeat, and the pool has not been told.
    pub(crate) lost: bool,
    /// The job has freed something.
    pub(crate) freed: bool,
}

impl Marker {
    pub(crate) fn new() -> Box<Self> {
        let detector = Detector::new();
        Box::new(Self { detector, inside: false, due: false, began: 0, lost: false, freed: false })
    }

    pub(crate) fn detected(&self) -> Option<Detected> {
        self.detector.detected()
    }

    /// An allocation has been made while so many bytes were live.
    pub(crate) fn made(&mut self, size: u64, live: Bytes) {
        self.detector.push(Bytes::new(size), live);
    }

    pub(crate) fn due(&mut self, size: u64, lifetime: Option<Lifetime>) -> Due {
        if self.due {
            return Due::Begin;
        }
        self.lost |= !self.detector.expects(size);
        let is_new = self.began != self.detector.count();
        let is_turn = self.inside && is_new && self.detector.is_boundary();
        let is_setup = lifetime.map_or(!self.freed, |lifetime| lifetime == Lifetime::Persistent);
        self.due = is_turn || !self.inside && !is_setup;
        match (self.due, is_turn) {
            (_, true) => {
                self.inside = false;
                Due::Turn
            }
            (true, _) => Due::Begin,
            _ if self.lost => Due::Lost,
            _ => Due::Nothing,
        }
    }

    pub(crate) fn begun(&mut self) {
        (self.inside, self.due, self.began) = (true, false, self.detector.count());
    }
}
