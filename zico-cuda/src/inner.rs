//! The state that handles on a device share, and the driver's calls on memory with their updates of
//! the registry.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use zico_core::{Bytes, Caps};

use crate::abi::{AccessDesc, Opaque};
use crate::context::Context;
use crate::error::CudaError;
use crate::host_blocks::HostBlocks;
use crate::registry::{Place, Registry, Reservation};
use crate::retry::retry_once;
use crate::streams::Streams;

pub(crate) struct Inner {
    pub(crate) id: u64,
    pub(crate) caps: Caps,
    pub(crate) shareable: bool,
    pub(crate) started: Instant,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) streams: Streams,
    pub(crate) host: HostBlocks,
    pub(crate) spare_events: Mutex<Vec<Opaque>>,
    /// Last, because fields drop in order and everything in a context goes before the context.
    pub(crate) context: Context,
}

impl Inner {
    /// A poisoned lock is used: no panic can happen within an update.
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spare_events(&self) -> MutexGuard<'_, Vec<Opaque>> {
        self.spare_events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves addresses. If the driver ignores the alignment, a longer range is reserved and an
    /// aligned part of it used.
    pub(crate) fn reserve(&self, len: u64, align: u64) -> Result<Reservation, CudaError> {
        let base = self.reserve_addresses(len, align)?;
        let range = Reservation { base, len, reserved: (base, len) };
        if base.is_multiple_of(align) {
            return Ok(range);
        }
        // What cannot be released now is released with the device.
        self.free_addresses(base, len).inspect_err(|_| self.registry().add_range(range))?;
        let Some(longer) = len.checked_add(align) else {
            return Err(CudaError::BeyondRange {
                at: Bytes::new(align),
                len: Bytes::new(len),
                range: Bytes::MAX,
            });
        };
        let start = self.reserve_addresses(longer, 0)?;
        Ok(Reservation { base: start.next_multiple_of(align), len, reserved: (start, longer) })
    }

    fn reserve_addresses(&self, len: u64, align: u64) -> Result<u64, CudaError> {
        let mut base = 0;
        // SAFETY: the pointer is to an address; no hint, and the flags have to be zero.
        unsafe { self.context.driver.reserve(&raw mut base, size(len), size(align), 0, 0) }?;
        Ok(base)
    }

    pub(crate) fn free_addresses(&self, start: u64, len: u64) -> Result<(), CudaError> {
        // SAFETY: exactly this was reserved, and nothing is mapped in it, as the registry says.
        unsafe { self.context.driver.free_addresses(start, size(len)) }
    }

    /// Maps pieces of memory at the addresses that the registry has set aside, side by side: all or
    /// none. Access is given once for all of them.
    pub(crate) fn map(&self, pieces: &[(Place, u64)]) -> Result<(), CudaError> {
        let (Some(&(first, _)), Some(&(last, _))) = (pieces.first(), pieces.last()) else {
            return Ok(());
        };
        let Context { driver, device, .. } = self.context;
        for (i, &(place, handle)) in pieces.iter().enumerate() {
            // SAFETY: the place lies in a range of ours and is free, as the registry says; the
            // handle is live and of this length. The flags have to be zero.
            let mapped = unsafe { driver.map(place.start, size(place.len), 0, handle, 0) };
            if let Err(error) = mapped {
                self.registry().unmapped(place.up_to(last));
                if let Some(&(before, _)) = pieces[..i].last() {
                    self.take_back(first.up_to(before));
                }
                return Err(error);
            }
        }
        let (all, access) = (first.up_to(last), AccessDesc::of(device));
        // SAFETY: all of the place is mapped; the pointer is to one description of access.
        let accessible =
            unsafe { driver.set_access(all.start, size(all.len), &raw const access, 1) };
        if let Err(error) = accessible {
            self.take_back(all);
            return Err(error);
        }
        self.registry().mapped(all);
        Ok(())
    }

    /// Removes mappings again. Those that cannot be removed now are left over.
    fn take_back(&self, place: Place) {
        let back = self.unmap(place);
        let mut registry = self.registry();
        match back {
            Ok(()) => registry.unmapped(place),
            Err(_) => registry.left_over(place),
        }
    }

    /// One call, also for several mappings side by side, as in NVIDIA's samples
    /// (`simpleFreeMultiDeviceMmap`): so it fails as a whole.
    pub(crate) fn unmap(&self, place: Place) -> Result<(), CudaError> {
        // SAFETY: the place is that of whole mappings, as the registry says. That no enqueued work
        // uses them is the contract of the caller; the driver reports work that does as a fault of
        // the device. No host memory is concerned: nothing in Rust refers to these addresses.
        unsafe { self.context.driver.unmap(place.start, size(place.len)) }
    }

    /// Takes a left-over mapping away.
    pub(crate) fn take_away(&self, place: Place) -> Result<(), CudaError> {
        if !self.registry().claim_left_over(place) {
            return Ok(());
        }
        let gone = self.unmap(place);
        let mut registry = self.registry();
        match &gone {
            Ok(()) => registry.unmapped(place),
            Err(_) => registry.left_over(place),
        }
        gone
    }
}

impl Drop for Inner {
    /// Releases everything that can be released. There is no caller left to report an error to.
    fn drop(&mut self) {
        let Ok(entered) = retry_once(|| self.context.enter()) else { return };
        let driver = self.context.driver;
        let (mappings, memories, ranges) = self.registry().take_all();
        if !mappings.is_empty() {
            // Enqueued work may still use memory that was not freed. SAFETY: the context is
            // current.
            let _ = retry_once(|| unsafe { driver.synchronize() });
        }
        self.host.clear(&self.context);
        for place in mappings {
            let _ = retry_once(|| self.unmap(place));
        }
        for handle in memories {
            // SAFETY: the handle is live, and taken out of the registry.
            let _ = retry_once(|| unsafe { driver.release(handle) });
        }
        for (start, len) in ranges {
            let _ = retry_once(|| self.free_addresses(start, len));
        }
        for event in std::mem::take(&mut *self.spare_events()) {
            // SAFETY: the event is live and unused: events in use keep this value alive.
            let _ = retry_once(|| unsafe { driver.event_destroy(event) });
        }
        self.streams.clear();
        drop(entered);
    }
}

/// A length as the driver takes it. On the 64-bit systems that CUDA runs on nothing is lost;
/// elsewhere the driver refuses what does not fit.
pub(crate) fn size(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
