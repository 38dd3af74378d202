//! The host tier: page-locked memory of the host, and copies as work of streams.
//!
//! Page-locked memory is what the device reads and writes by itself, so that a copy is over neither
//! when its call returns nor for the host. Allocating and freeing it takes the host about as long
//! as writing it, and freeing it may wait for the device; whoever copies again and again keeps it.

use zico_core::{Addr, Bytes, HostMemory, HostTier, Link, Refused};

use crate::abi::Opaque;
use crate::device::{CudaDevice, CudaRange};
use crate::error::CudaError;
use crate::inner::size;
use crate::streams::StreamId;

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
            self.inner.host.remove(&memory);
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
