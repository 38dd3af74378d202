//! The host tier: page-locked memory of the host, and copies as work of streams.
//!
//! Page-locked memory is what the device reads and writes by itself, so that a copy is over neither
//! when its call returns nor for the host. Allocating and freeing it takes the host about as long
//! as writing it, and freeing it may wait for the device; whoever copies again and again keeps it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zico_core::{Addr, Bytes, HostMemory, HostTier, Link, Refused};

use crate::abi::Opaque;
use crate::context::Context;
use crate::device::{CudaDevice, CudaRange};
use crate::error::CudaError;
use crate::inner::size;
use crate::retry::retry_once;
use crate::streams::StreamId;

/// The host memory that a device has, by numbers that are never used twice.
#[derive(Debug, Default)]
pub(crate) struct HostBlocks {
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    live: BTreeMap<u64, Block>,
    next: u64,
}

/// An address of the host, and so many bytes.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: Opaque,
    len: Bytes,
}

impl HostBlocks {
    /// A poisoned lock is used: no panic can happen within an update.
    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, start: Opaque, len: Bytes) -> HostMemory {
        let mut blocks = self.lock();
        blocks.next += 1;
        let number = blocks.next;
        blocks.live.insert(number, Block { start, len });
        HostMemory::new(number, len)
    }

    fn find(&self, memory: &HostMemory) -> Result<Opaque, CudaError> {
        let block = self.lock().live.get(&memory.number()).copied();
        let block = block.filter(|block| block.len == memory.len());
        block.map(|block| block.start).ok_or(CudaError::Foreign { what: "host memory" })
    }

    /// Frees all of it, before the context ends. There is no caller left to report an error to.
    pub(crate) fn clear(&self, context: &Context) {
        let blocks = std::mem::take(&mut self.lock().live);
        for Block { start, .. } in blocks.into_values() {
            // SAFETY: the block was allocated by this device and is not in its books any more; the
            // context is current.
            let _ = retry_once(|| unsafe { context.driver.host_free(start) });
        }
    }
}

impl CudaDevice {
    /// The address of the host's memory, and of the device's that is to be copied.
    fn ends(
        &self,
        range: &CudaRange,
        at: Bytes,
        memory: &HostMemory,
    ) -> Result<(Opaque, u64), CudaError> {
        let start = self.inner.host.find(memory)?;
        let place = self.place(range, at, memory.len())?;
        self.check_mapped(Addr::new(place), memory.len())?;
        Ok((start, place))
    }
}

impl HostTier<CudaRange, StreamId, CudaError> for CudaDevice {
    /// Not known: a driver does not say how fast the link is.
    fn link(&self) -> Option<Link> {
        None
    }

    fn allocate(&self, len: Bytes) -> Result<HostMemory, CudaError> {
        self.check_length(len)?;
        let _entered = self.enter()?;
        let mut start = Opaque::default();
        // SAFETY: the pointer is to a pointer; the context is current. No flag: the memory is the
        // device's to reach, and cached by the host.
        unsafe { self.inner.context.driver.host_allocate(&raw mut start, size(len.value()), 0) }?;
        Ok(self.inner.host.add(start, len))
    }

    fn free(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, CudaError>> {
        let freed = self.inner.host.find(&memory).and_then(|start| {
            let _entered = self.enter()?;
            // SAFETY: the block is live, as the books say, and freed once: they drop it below. That
            // no enqueued copy uses it is the contract of the caller.
            unsafe { self.inner.context.driver.host_free(start) }?;
            self.inner.host.lock().live.remove(&memory.number());
            Ok(())
        });
        freed.map_err(|error| Refused { resource: memory, error })
    }

    fn copy_out(
        &self,
        stream: StreamId,
        range: &CudaRange,
        at: Bytes,
        to: &HostMemory,
    ) -> Result<(), CudaError> {
        let stream = self.inner.streams.get(stream)?;
        let (start, place) = self.ends(range, at, to)?;
        let _entered = self.enter()?;
        let (driver, len) = (self.inner.context.driver, size(to.len().value()));
        // SAFETY: the block has that many bytes and is page-locked, the addresses are mapped, and
        // by the contract of the caller both stay so until the copy is done. Nothing in Rust refers
        // to either. The stream is live and of the current context.
        unsafe { driver.copy_out(start, place, len, stream.raw()) }
    }

    fn copy_in(
        &self,
        stream: StreamId,
        range: &CudaRange,
        at: Bytes,
        from: &HostMemory,
    ) -> Result<(), CudaError> {
        let stream = self.inner.streams.get(stream)?;
        let (start, place) = self.ends(range, at, from)?;
        let _entered = self.enter()?;
        let (driver, len) = (self.inner.context.driver, size(from.len().value()));
        // SAFETY: as for `copy_out`.
        unsafe { driver.copy_in(place, start, len, stream.raw()) }
    }
}
