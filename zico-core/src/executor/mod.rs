//! Carries out what the ledger decides: the only code that creates, maps, copies and fences.
//!
//! Every change goes the same way. The ledger is changed under its lock and says what the device
//! has to do; the lock is let go; the device does it; how that went is booked. So no lock is ever
//! held across a call of the device, and a call that fails leaves the books true to it. Those who
//! wait are woken through `Shared::changed` alone, mostly by whoever lets go of the ledger's lock
//! (`Shared::ledger`), if the ledger says so.

mod away;
mod books;
mod end;
mod fences;
mod hand_back;
mod handles;
mod host;
mod lease;
mod leave;
mod remote;
mod retire;
mod suspend;
mod unpark;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::task::Waker;

use crate::broker::Link;
use crate::ledger::Ledger;
use crate::types::device::Device;
use crate::types::sync::{Arc, AtomicU32, Mutex, Ordering};
use crate::types::units::Bytes;

pub(crate) use books::Books;
pub(crate) use handles::{Handles, JobHandles};
pub(crate) use remote::Remote;
pub(crate) use suspend::Iteration;

/// What a pool's handles and its jobs share.
pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    /// The size of a region.
    pub(crate) region: Bytes,
    /// How much memory of the host is kept for the next suspension.
    host_spare: Bytes,
    /// Changes whenever something has happened that a waiting job may have waited for.
    pub(crate) generation: AtomicU32,
    /// Those who sleep until it does.
    wakers: Mutex<Wakers>,
    books: Books<D>,
    pub(crate) handles: Mutex<Handles<D>>,
}

/// Tasks that sleep, by ticket.
#[derive(Default)]
struct Wakers {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

impl<D: Device> Shared<D> {
    /// The device, and the books of its pool.
    pub(crate) fn new(device: D, region: Bytes, ledger: Ledger, host_spare: Bytes) -> Self {
        let mut shared = Self::with(device, region, Books::Own(Mutex::new(ledger)));
        shared.host_spare = host_spare;
        shared
    }

    /// The device, and the way to the books of its pool.
    pub(crate) fn connect(device: D, link: Box<dyn Link<D>>) -> Self {
        let region = link.region_size();
        Self::with(device, region, Books::Remote(Remote::new(link)))
    }

    fn with(device: D, region: Bytes, books: Books<D>) -> Self {
        Self {
            device,
            region,
            host_spare: Bytes::ZERO,
            generation: AtomicU32::new(0),
            wakers: Mutex::new(Wakers::default()),
            books,
            handles: Mutex::new(Handles::new()),
        }
    }

    /// Tells those who wait that something has changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        let mut wakers = self.wakers.lock();
        if wakers.waiting.is_empty() {
            return;
        }
        let waiting = core::mem::take(&mut wakers.waiting);
        // Wakers run foreign code: not under the lock.
        drop(wakers);
        waiting.into_values().for_each(Waker::wake);
    }

    /// Wakes a task at the next change. Who registers again gives its ticket.
    pub(crate) fn register(&self, waker: &Waker, ticket: Option<u64>) -> u64 {
        // Cloned before the lock is taken, and the old one dropped after: foreign code.
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
}

impl<D: Device> Drop for Shared<D> {
    /// Gives everything back that the device has passed. What it has not passed yet stays with the
    /// device until that ends: nothing may be unmapped under running work.
    fn drop(&mut self) {
        // A call that has failed may succeed when it is repeated.
        let _ = self.reclaim(None);
        let _ = self.reclaim(None);
        let _ = self.free_spare_host();
        let unmapped = match &mut self.books {
            Books::Own(ledger) => ledger.get_mut().unmapped_regions(),
            Books::Remote(_) => return self.let_go(),
        };
        for region in unmapped {
            let memory = self.handles.get_mut().take_memory(region);
            if let Some(memory) = memory.and_then(Arc::into_inner) {
                let _ = self.device.destroy(memory);
            }
        }
    }
}
