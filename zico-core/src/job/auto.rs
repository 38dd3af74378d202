//! Iterations of a job that does not mark them.

use alloc::boxed::Box;

use super::Job;
use crate::heap::marker::{Due, Marker};
use crate::types::block::Request;
use crate::types::device::Device;
use crate::types::error::{AllocError, BeginError};
use crate::types::report::{Begin, Detected};

impl<D: Device> Job<D> {
    /// How sure it is where the job's iterations begin, if it does not mark them
    /// ([`JobConfig::detect_iterations`](crate::JobConfig::detect_iterations)). None while that is unknown.
    #[must_use]
    pub fn detected(&self) -> Option<Detected> {
        self.heap.lock().marker.as_ref()?.detected()
    }

    /// Begins an iteration before this allocation is made, if it is time.
    #[cold]
    pub(crate) fn mark(&self, request: Request, size: u64) -> Result<(), AllocError<D::Error>> {
        let lifetime = request.lifetime();
        let due = |marker: &mut Box<Marker>| marker.due(size, lifetime);
        let due = self.heap.lock().marker.as_mut().map_or(Due::Nothing, due);
        if due == Due::Nothing {
            return Ok(());
        }
        if due == Due::Lost {
            self.goes_on();
            return Ok(());
        }
        if due == Due::Turn {
            if !self.shared.ledger.lock().may_turn(self.key) {
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
        let lost = self.heap.lock().marker.as_mut().is_some_and(lost);
        if lost {
            self.shared.ledger(|ledger| ledger.lose(self.key));
        }
    }

    /// The job marks its iterations itself from now on.
    pub(crate) fn mark_by_hand(&self) {
        let marker = self.heap.lock().marker.take();
        if marker.is_some_and(|marker| marker.inside) {
            let _ = self.close();
        }
    }
}
