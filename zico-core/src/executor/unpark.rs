//! Finds out when other streams are done with blocks that a job has freed.

use alloc::vec::Vec;

use super::{Books, Shared};
use crate::heap::JobHeap;
use crate::heap::parked::Wait;
use crate::types::JobKey;
use crate::types::device::{Device, Passed};
use crate::types::sync::Mutex;

impl<D: Device> Shared<D> {
    /// Frees the parked blocks of jobs that run no iteration, or wait for memory: what could not be
    /// done when they were freed is tried again.
    pub(super) fn unpark_at_rest(&self) {
        let at_rest = match &self.books {
            Books::Own(ledger) => ledger.lock().at_rest(),
            Books::Remote(remote) => remote.at_rest(),
        };
        for job in at_rest {
            let heap = self.handles.lock().heap(job);
            if let Some((stream, heap)) = heap {
                self.unpark(job, stream, &heap, true);
            }
        }
    }

    /// While the blocks are looked at, without the lock, the heap still knows their streams: a job
    /// that leaves meanwhile waits for them before its last fence.
    pub(crate) fn unpark(
        &self,
        job: JobKey,
        own: D::Stream,
        heap: &Mutex<JobHeap<D>>,
        order: bool,
    ) {
        let parked = heap.lock().look_at_parked();
        if parked.is_empty() {
            return;
        }
        let waits = parked.iter().flat_map(|parked| &parked.waits);
        let streams: Vec<D::Stream> = waits.map(|wait| wait.stream).collect();
        let mut left = Vec::new();
        for mut block in parked {
            block.waits.retain_mut(|wait| !self.is_over(own, wait, order));
            if block.waits.is_empty() {
                let mut locked = heap.lock();
                let pages = locked.release(&block);
                self.give_back(job, locked, block.home.zone(), pages);
            } else {
                left.push(block);
            }
        }
        let mut locked = heap.lock();
        locked.looked_at(&streams, left);
        locked.unparking -= 1;
        let notify = core::mem::take(&mut locked.has_waiters);
        drop(locked);
        if notify {
            self.freed(job);
        }
    }

    /// Whether a stream's use of a block is over, as far as the job's own stream is concerned.
    fn is_over(&self, own: D::Stream, wait: &mut Wait<D>, order: bool) -> bool {
        if wait.event.is_none() {
            wait.event = self.device.record(wait.stream).ok();
        }
        let Some(event) = &wait.event else { return false };
        matches!(self.device.query(event), Ok(Passed::Yes))
            || (order && self.device.order_after(own, event).is_ok())
    }
}
