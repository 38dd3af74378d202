//! Marks the iterations of a job that does not mark them itself, where they are detected to begin.
//!
//! Until a period is known, all that the job does is one iteration, which begins when its setup is over:
//! with the first allocation that is not said to persist, or, where lifetimes are learned, with the first
//! one after something has been freed. From then on an iteration ends and the next one asks to begin
//! before the allocation with which one is seen to begin. Where it may not begin yet, that allocation is
//! refused as busy. What the job holds meanwhile others cannot have, so that should be little: an iteration
//! has not ended while more than a little of its memory is held.
//!
//! When the sequence stops to repeat, the iteration that runs goes on until a period is known again, and it
//! may need whatever there is, as far as those of other jobs can still finish. Where it stops at the end of
//! a period, that is still the end of an iteration: another kind of iteration follows.

use alloc::boxed::Box;

use crate::account::Account;
use crate::admission::Begin;
use crate::block::Request;
use crate::detect::{Detected, Detector};
use crate::device::Device;
use crate::error::{AllocError, BeginError};
use crate::job::Job;
use crate::lifetime::Lifetime;
use crate::units::Bytes;

/// What has to happen before an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
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
    inside: bool,
    /// One has to begin before the next allocation is made.
    due: bool,
    /// The number of the allocation with which the running one began.
    began: u64,
    /// The order has ceased to repeat, and the pool has not been told.
    lost: bool,
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

    fn due(&mut self, size: u64, lifetime: Option<Lifetime>) -> Due {
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

    fn begun(&mut self) {
        (self.inside, self.due, self.began) = (true, false, self.detector.count());
    }
}

impl<D: Device> Job<D> {
    /// How sure it is where the job's iterations begin, if it does not mark them
    /// ([`JobConfig::detect_iterations`](crate::JobConfig::detect_iterations)). None while that is unknown.
    #[must_use]
    pub fn detected(&self) -> Option<Detected> {
        self.memory.lock().marker.as_ref()?.detected()
    }

    /// Begins an iteration before this allocation is made, if it is time.
    #[cold]
    pub(crate) fn mark(&self, request: Request, size: u64) -> Result<(), AllocError<D::Error>> {
        let lifetime = request.lifetime();
        let due = |marker: &mut Box<Marker>| marker.due(size, lifetime);
        let due = self.memory.lock().marker.as_mut().map_or(Due::Nothing, due);
        if due == Due::Nothing {
            return Ok(());
        }
        if due == Due::Lost {
            self.goes_on();
            return Ok(());
        }
        if due == Due::Turn {
            let may_turn = |account: &Account<D>| account.may_turn();
            if !self.shared.ledger.lock().accounts.get(&self.key).is_some_and(may_turn) {
                self.goes_on();
                return Ok(());
            }
            // Another thread may have ended it.
            let _ = self.close();
        }
        let refused = match self.ask(None) {
            Ok(Begin::Started) | Err(BeginError::AlreadyRunning) => {
                self.goes_on();
                return Ok(());
            }
            Ok(Begin::Wait(_)) => None,
            Err(error) => Some(error),
        };
        let ledger = self.shared.ledger.lock();
        let shortage = ledger.shortage(self.key, request.bytes, 0);
        Err(match refused {
            None => AllocError::Busy(shortage),
            Some(BeginError::BeyondCap { cap, .. }) => AllocError::BeyondCap { cap, shortage },
            Some(BeginError::Left) => AllocError::Left,
            Some(_) => AllocError::OutOfMemory(ledger.out_of_memory(self.key, request.bytes, 0, 0)),
        })
    }

    /// An iteration runs now.
    fn goes_on(&self) {
        let lost = |marker: &mut Box<Marker>| {
            marker.begun();
            core::mem::take(&mut marker.lost)
        };
        let lost = self.memory.lock().marker.as_mut().is_some_and(lost);
        if lost && self.shared.ledger.lock().lose(self.key) {
            self.shared.changed();
        }
    }

    /// The job marks its iterations itself from now on.
    pub(crate) fn mark_by_hand(&self) {
        let marker = self.memory.lock().marker.take();
        if marker.is_some_and(|marker| marker.inside) {
            let _ = self.close();
        }
    }
}
