//! The device: [`Device`] implemented by calls of the driver.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use zico_core::{Addr, Bytes, Caps, Device, Host, Passed, Refused, Ticks};

use crate::abi::{AllocationProp, FILE_DESCRIPTORS, NON_BLOCKING, Opaque, VIRTUAL_MEMORY};
use crate::context::{Context, Entered};
use crate::discover;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::events::{self, CudaEvent};
use crate::host_blocks::HostBlocks;
use crate::inner::{Inner, size};
use crate::registry::{Blocked, Registry};
use crate::streams::{Stream, StreamId, Streams};

/// Options of a [`CudaDevice`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    shareable: bool,
}

impl Options {
    /// The default: memory is private to the process.
    #[must_use]
    pub const fn new() -> Self {
        Self { shareable: false }
    }

    /// Memory can be exported to other processes ([`Share`](crate::Share)).
    #[must_use]
    pub const fn shareable(mut self, shareable: bool) -> Self {
        self.shareable = shareable;
        self
    }
}

/// A CUDA device. Clones are handles on the same one.
///
/// When the last handle and the last event are gone, all that the device still has given out is
/// given back to the driver, after all work on its context has finished.
#[derive(Clone)]
pub struct CudaDevice {
    pub(crate) inner: Arc<Inner>,
}

/// A reserved range of addresses of a [`CudaDevice`].
#[derive(Debug)]
pub struct CudaRange {
    device: u64,
    base: u64,
}

/// A piece of physical memory of a [`CudaDevice`].
#[derive(Debug)]
pub struct CudaMemory {
    device: u64,
    key: u64,
}

/// Tells handles of different devices apart, nothing else.
static DEVICES: AtomicU64 = AtomicU64::new(0);

impl CudaDevice {
    /// The device with this number, counted from 0, in its primary context: the one that the CUDA
    /// runtime and most frameworks use.
    ///
    /// # Errors
    /// If there is no driver, no such device, or one without virtual memory management.
    pub fn open(ordinal: u32, options: Options) -> Result<Self, CudaError> {
        let driver = Driver::get()?;
        discover::start(driver)?;
        let device = discover::device(driver, ordinal)?;
        Self::new(Context::primary(driver, device)?, options)
    }

    /// The device of a context that `cudarc` has made: for a runtime that uses it already.
    ///
    /// # Errors
    /// If the device has no virtual memory management, or the driver refuses.
    pub fn with_context(
        context: Arc<cudarc::driver::CudaContext>,
        options: Options,
    ) -> Result<Self, CudaError> {
        Self::new(Context::lent(Driver::get()?, context), options)
    }

    fn new(context: Context, options: Options) -> Result<Self, CudaError> {
        let driver = context.driver;
        if driver.attribute(VIRTUAL_MEMORY, context.device)? == 0 {
            return Err(CudaError::NoVirtualMemory);
        }
        if options.shareable && driver.attribute(FILE_DESCRIPTORS, context.device)? == 0 {
            return Err(CudaError::NotShareable);
        }
        let granularity = discover::granularity(driver, context.device, options.shareable)?;
        let capacity = discover::memory(driver, context.device)?;
        let id = DEVICES.fetch_add(1, Ordering::Relaxed);
        let inner = Inner {
            id,
            caps: Caps::new(granularity, capacity),
            shareable: options.shareable,
            started: Instant::now(),
            registry: Mutex::new(Registry::new(granularity.value())),
            streams: Streams::new(id),
            host: HostBlocks::default(),
            spare_events: Mutex::default(),
            context,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A new stream, which does not synchronise with the default stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn add_stream(&self) -> Result<StreamId, CudaError> {
        let _entered = self.enter()?;
        let driver = self.inner.context.driver;
        let mut raw = Opaque::default();
        // SAFETY: the pointer is to a stream handle; the context is current.
        unsafe { driver.stream_create(&raw mut raw, NON_BLOCKING) }?;
        Ok(self.inner.streams.add(Stream::Own { driver, raw }))
    }

    /// Registers a stream of `cudarc`, which is kept alive until it is closed here. A stream that
    /// is registered already keeps its name.
    ///
    /// # Errors
    /// If the stream is of another context.
    pub fn adopt_stream(
        &self,
        stream: Arc<cudarc::driver::CudaStream>,
    ) -> Result<StreamId, CudaError> {
        if !self.inner.context.is(stream.context()) {
            return Err(CudaError::Foreign { what: "stream" });
        }
        Ok(self.inner.streams.add(Stream::Cudarc(stream)))
    }

    /// Registers a `CUstream` (a `cudaStream_t` is the same); null is the default stream.
    ///
    /// # Safety
    /// It has to be a stream of this device's context, and to live until it is closed here or the
    /// device has ended.
    pub unsafe fn adopt_raw_stream(&self, stream: *mut std::ffi::c_void) -> StreamId {
        self.inner.streams.add(Stream::Foreign(Opaque(stream.expose_provenance())))
    }

    /// Forgets a stream. Work enqueued on it still runs; its name is refused from now on.
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn close_stream(&self, stream: StreamId) -> Result<(), CudaError> {
        let _entered = self.enter()?;
        self.inner.streams.remove(stream).map(drop)
    }

    /// Waits until all work on the device's context has finished.
    ///
    /// # Errors
    /// If the driver refuses, or work has failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let _entered = self.enter()?;
        // SAFETY: the context is current.
        unsafe { self.inner.context.driver.synchronize() }
    }

    /// The free memory of the device, and its total memory. Memory used by other processes is not
    /// free.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn memory_info(&self) -> Result<(Bytes, Bytes), CudaError> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to numbers of that size; the context is current.
        unsafe { self.inner.context.driver.memory_info(&raw mut free, &raw mut total) }?;
        Ok((Bytes::new(free as u64), Bytes::new(total as u64)))
    }

    pub(crate) fn enter(&self) -> Result<Entered<'_>, CudaError> {
        self.inner.context.enter()
    }

    #[cfg(unix)]
    pub(crate) fn is_shareable(&self) -> bool {
        self.inner.shareable
    }

    /// Adds memory that the driver has created to the registry.
    pub(crate) fn enter_memory(&self, handle: u64, len: Bytes) -> CudaMemory {
        let key = self.inner.registry().add_memory(handle, len.value());
        CudaMemory { device: self.inner.id, key }
    }

    /// The driver's handle of memory.
    #[cfg(unix)]
    pub(crate) fn handle(&self, memory: &CudaMemory) -> Result<u64, CudaError> {
        self.same(memory.device, "memory")?;
        self.inner.registry().handle(memory.key)
    }

    /// Whether a length is one of memory.
    pub(crate) fn check_length(&self, len: Bytes) -> Result<(), CudaError> {
        self.inner.registry().check_length(len)
    }

    /// Whether all of `len` bytes from `addr` are mapped.
    pub(crate) fn check_mapped(&self, addr: Addr, len: Bytes) -> Result<(), CudaError> {
        self.inner.registry().is_mapped(addr, len)
    }

    /// The first of `len` addresses from `at` of a range.
    pub(crate) fn place(&self, range: &CudaRange, at: Bytes, len: Bytes) -> Result<u64, CudaError> {
        self.same(range.device, "range")?;
        self.inner.registry().place(range.base, at, len)
    }

    fn same(&self, device: u64, what: &'static str) -> Result<(), CudaError> {
        if device == self.inner.id { Ok(()) } else { Err(CudaError::Foreign { what }) }
    }

    /// Repeats the call until no left-over mapping is in the way.
    fn unblocked<T>(
        &self,
        mut call: impl FnMut(&mut Registry) -> Result<T, Blocked>,
    ) -> Result<T, CudaError> {
        loop {
            let blocked = call(&mut self.inner.registry());
            match blocked {
                Ok(done) => return Ok(done),
                Err(Blocked::Refused(error)) => return Err(error),
                Err(Blocked::By(place)) => self.inner.take_away(place)?,
            }
        }
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice").field("caps", &self.inner.caps).finish_non_exhaustive()
    }
}

impl Device for CudaDevice {
    type Range = CudaRange;
    type Memory = CudaMemory;
    type Stream = StreamId;
    type Event = CudaEvent;
    type Error = CudaError;

    fn caps(&self) -> Caps {
        self.inner.caps
    }

    /// The host's monotonic clock: the driver has none that can be read without waiting.
    fn now(&self) -> Ticks {
        Ticks::new(u64::try_from(self.inner.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<CudaRange, CudaError> {
        self.check_length(len)?;
        let granularity = self.inner.caps.granularity;
        if !align.value().is_power_of_two() || align < granularity {
            return Err(CudaError::BadAlignment { align, granularity });
        }
        let _entered = self.enter()?;
        let range = self.inner.reserve(len.value(), align.value())?;
        self.inner.registry().add_range(range);
        Ok(CudaRange { device: self.inner.id, base: range.base })
    }

    fn base(&self, range: &CudaRange) -> Addr {
        Addr::new(range.base)
    }

    fn release(&self, range: CudaRange) -> Result<(), Refused<CudaRange, CudaError>> {
        let released = self.same(range.device, "range").and_then(|()| {
            let _entered = self.enter()?;
            let entry = self.unblocked(|registry| registry.release(range.base))?;
            let (start, len) = entry.reserved;
            self.inner
                .free_addresses(start, len)
                .inspect_err(|_| self.inner.registry().add_range(entry))
        });
        released.map_err(|error| Refused { resource: range, error })
    }

    fn create(&self, len: Bytes) -> Result<CudaMemory, CudaError> {
        self.check_length(len)?;
        let _entered = self.enter()?;
        let Context { driver, device, .. } = self.inner.context;
        let prop = AllocationProp::on(device, self.inner.shareable);
        let mut handle = 0;
        // SAFETY: the pointers are to a handle and to properties of the driver's layout.
        unsafe { driver.create(&raw mut handle, size(len.value()), &raw const prop, 0) }?;
        Ok(self.enter_memory(handle, len))
    }

    fn destroy(&self, memory: CudaMemory) -> Result<(), Refused<CudaMemory, CudaError>> {
        let destroyed = self.same(memory.device, "memory").and_then(|()| {
            let _entered = self.enter()?;
            let handle = self.unblocked(|registry| registry.destroy(memory.key))?;
            // SAFETY: the handle is live, and released once: the registry drops it below.
            unsafe { self.inner.context.driver.release(handle) }?;
            self.inner.registry().destroyed(memory.key);
            Ok(())
        });
        destroyed.map_err(|error| Refused { resource: memory, error })
    }

    fn map(&self, range: &CudaRange, at: Bytes, memory: &[&CudaMemory]) -> Result<(), CudaError> {
        self.same(range.device, "range")?;
        memory.iter().try_for_each(|memory| self.same(memory.device, "memory"))?;
        let _entered = self.enter()?;
        let keys: Vec<u64> = memory.iter().map(|memory| memory.key).collect();
        let pieces = self.unblocked(|registry| registry.map(range.base, at, &keys))?;
        self.inner.map(&pieces)
    }

    fn unmap(&self, range: &CudaRange, at: Bytes, len: Bytes) -> Result<(), CudaError> {
        self.same(range.device, "range")?;
        let _entered = self.enter()?;
        let place = self.inner.registry().unmap(range.base, at, len)?;
        let unmapped = self.inner.unmap(place);
        let mut registry = self.inner.registry();
        match &unmapped {
            Ok(()) => registry.unmapped(place),
            Err(_) => registry.mapped(place),
        }
        unmapped
    }

    fn record(&self, stream: StreamId) -> Result<CudaEvent, CudaError> {
        let stream = self.inner.streams.get(stream)?;
        let _entered = self.enter()?;
        let event = events::take(&self.inner, &self.inner.context)?;
        // SAFETY: event and stream are live and of the current context.
        unsafe { self.inner.context.driver.event_record(event.raw, stream.raw()) }?;
        Ok(event)
    }

    fn query(&self, event: &CudaEvent) -> Result<Passed, CudaError> {
        self.same(event.inner.id, "event")?;
        let _entered = self.enter()?;
        let passed = events::has_passed(&self.inner.context, event)?;
        Ok(if passed { Passed::Yes } else { Passed::NotYet })
    }

    fn order_after(&self, stream: StreamId, event: &CudaEvent) -> Result<(), CudaError> {
        let stream = self.inner.streams.get(stream)?;
        self.same(event.inner.id, "event")?;
        let _entered = self.enter()?;
        // SAFETY: event and stream are live and of the current context; the flags have to be zero.
        unsafe { self.inner.context.driver.stream_wait(stream.raw(), event.raw, 0) }
    }

    fn host(&self) -> Option<Host<'_, Self>> {
        Some(self)
    }
}
