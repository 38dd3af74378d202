//! What a pool's handles and its jobs share: the device, and the ledger behind its one lock.

use alloc::vec::Vec;
use core::task::Waker;

use crate::device::Device;
use crate::ledger::Ledger;
use crate::region::JobKey;
use crate::sync::{Arc, AtomicU32, Mutex, Ordering};
use crate::units::Bytes;

pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    pub(crate) region: Bytes,
    /// Changes whenever something has happened that a waiting job may have waited for.
    pub(crate) generation: AtomicU32,
    /// Those who sleep until it does.
    pub(crate) wakers: Mutex<Vec<Waker>>,
    pub(crate) ledger: Mutex<Ledger<D>>,
}

impl<D: Device> Shared<D> {
    /// Tells those who wait that something has changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        let wakers = core::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A job has freed something that another of its threads may wait for: what it was denied it may
    /// get now.
    pub(crate) fn fed(&self) {
        self.ledger.lock().epoch += 1;
        self.changed();
    }

    /// Wakes a task at the next change.
    pub(crate) fn register(&self, waker: &Waker) {
        // Cloned before the lock is taken: that is the executor's code.
        let waker = waker.clone();
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(&waker)) {
            wakers.push(waker);
        }
    }

    pub(crate) fn admit(&self) {
        if self.ledger.lock().admit() {
            self.changed();
        }
    }

    /// The job is gone: all it had drains, under a fence that comes after the work of these streams.
    pub(crate) fn leave(&self, job: JobKey, streams: Vec<D::Stream>) {
        let now = self.device.now();
        self.ledger.lock().leave(job, streams, now);
        // A failure leaves the batch open, which the next poll fences.
        let _ = self.fence(job);
        self.admit();
        self.changed();
    }
}

impl<D: Device> Drop for Shared<D> {
    /// Gives everything back that the device has passed. What it has not passed yet stays with the
    /// device until that ends: nothing may be unmapped under running work.
    fn drop(&mut self) {
        // A call that has failed may succeed when it is repeated.
        let _ = self.reclaim().or_else(|_| self.reclaim());
        let regions = core::mem::take(&mut self.ledger.get_mut().regions);
        let unmapped = regions.into_iter().filter(|region| region.mappings.is_empty());
        for memory in unmapped.filter_map(|region| region.memory.and_then(Arc::into_inner)) {
            let _ = self.device.destroy(memory);
        }
    }
}
