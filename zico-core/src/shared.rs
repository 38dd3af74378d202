//! What a pool's handles and its jobs share: the device, and the ledger behind its one lock.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::task::Waker;

use crate::device::Device;
use crate::ledger::Ledger;
use crate::memory::Memory;
use crate::region::JobKey;
use crate::stats::LiveBlock;
use crate::sync::{Arc, AtomicU32, Mutex, Ordering};
use crate::units::Bytes;

pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    pub(crate) region: Bytes,
    /// Changes whenever something has happened that a waiting job may have waited for.
    pub(crate) generation: AtomicU32,
    /// Those who sleep until it does.
    pub(crate) wakers: Mutex<Wakers>,
    pub(crate) ledger: Mutex<Ledger<D>>,
}

/// Tasks that sleep, by ticket.
#[derive(Default)]
pub(crate) struct Wakers {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

impl<D: Device> Shared<D> {
    /// Tells those who wait that something has changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        let mut wakers = self.wakers.lock();
        if wakers.waiting.is_empty() {
            return;
        }
        let waiting = core::mem::take(&mut wakers.waiting);
        // Waking is the executor's code: without the lock.
        drop(wakers);
        waiting.into_values().for_each(Waker::wake);
    }

    /// A job has freed something that another of its threads may wait for: what it was denied it may
    /// get now.
    pub(crate) fn fed(&self) {
        self.ledger.lock().epoch += 1;
        self.changed();
    }

    /// Wakes a task at the next change. Who registers again gives its ticket.
    pub(crate) fn register(&self, waker: &Waker, ticket: Option<u64>) -> u64 {
        // Cloned before the lock is taken, and the old one dropped after: that is the executor's code.
        let waker = waker.clone();
        let mut wakers = self.wakers.lock();
        let ticket = ticket.unwrap_or_else(|| {
            wakers.next += 1;
            wakers.next
        });
        let old = wakers.waiting.insert(ticket, waker);
        drop(wakers);
        drop(old);
        ticket
    }

    /// A task no longer waits.
    pub(crate) fn unregister(&self, ticket: u64) {
        let old = self.wakers.lock().waiting.remove(&ticket);
        drop(old);
    }

    pub(crate) fn admit(&self) {
        if self.ledger.lock().admit() {
            self.changed();
        }
    }

    /// The job leaves: all it had drains, under a fence that comes after the work of all streams that used
    /// it. What was live. If a thread of the job leases just now, that one does the rest.
    pub(crate) fn leave(&self, job: JobKey, memory: &Mutex<Memory<D>>) -> Vec<LiveBlock> {
        let mut locked = memory.lock();
        if locked.closed {
            return Vec::new();
        }
        let blocks = locked.close();
        let leases = locked.growing;
        drop(locked);
        if !leases {
            self.finish_leaving(job, memory);
        }
        blocks
    }

    pub(crate) fn finish_leaving(&self, job: JobKey, memory: &Mutex<Memory<D>>) {
        let (now, streams) = (self.device.now(), memory.lock().streams());
        if !self.ledger.lock().leave(job, streams, now) {
            return;
        }
        let mut from = Some((0, 0));
        while let Some(next) = from {
            from = self.ledger.lock().leave_pages(job, next);
        }
        self.ledger.lock().left(job);
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
        let _ = self.reclaim(None);
        let _ = self.reclaim(None);
        let unmapped = self.ledger.get_mut().regions.take_unmapped();
        for memory in unmapped.filter_map(Arc::into_inner) {
            let _ = self.device.destroy(memory);
        }
    }
}
