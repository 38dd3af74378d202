//! A job leaves.

use alloc::vec::Vec;

use super::{Books, Shared};
use crate::heap::JobHeap;
use crate::ledger::Ledger;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::stats::LiveBlock;
use crate::types::sync::Mutex;

impl<D: Device> Shared<D> {
    /// The job leaves: all it had drains, under a fence that comes after the work of all streams
    /// that used it. What was live. If a thread of the job leases just now, that one does the rest.
    pub(crate) fn leave(&self, job: JobKey, heap: &Mutex<JobHeap<D>>) -> Vec<LiveBlock> {
        let mut locked = heap.lock();
        if locked.closed {
            return Vec::new();
        }
        let blocks = locked.close();
        let leases = locked.growing;
        drop(locked);
        if !leases {
            self.finish_leaving(job, heap);
        }
        blocks
    }

    /// Gives up all that a job had whose heap is closed.
    pub(crate) fn finish_leaving(&self, job: JobKey, heap: &Mutex<JobHeap<D>>) {
        let (now, streams) = (self.device.now(), heap.lock().streams());
        // Before its last fence can be recorded.
        self.handles.lock().join_streams(job, streams);
        // Before its account can be closed, and its handles go.
        self.drop_copies(job);
        let Books::Own(ledger) = &self.books else { return self.leave_broker(job) };
        if !ledger.lock().leave(job, now) {
            return;
        }
        let mut from = Some((0, 0));
        while let Some(next) = from {
            from = ledger.lock().leave_pages(job, next);
        }
        ledger.lock().left(job);
        // A failure leaves the batch open, which the next poll fences.
        let _ = self.fence(job);
        self.ledger(Ledger::admit);
    }
}
