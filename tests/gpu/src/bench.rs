//! A CUDA device with kernels, as the conformance suite needs it.

use std::time::Duration;

use zico_core::{Addr, Bytes, Caps, Device, Host, Passed, Refused, Ticks};
use zico_cuda::{
    CudaDevice, CudaError, CudaEvent, CudaMemory, CudaRange, Options, Pattern, Probe, StreamId,
};

use zico_conformance::{Workload, must};

/// A CUDA device and kernels on it.
pub struct CudaBench {
    /// The kernels, which go before the device.
    pub probe: Probe,
    /// The device.
    pub device: CudaDevice,
}

impl CudaBench {
    /// The device with this number.
    ///
    /// # Errors
    /// If it cannot be opened, or the kernels not loaded.
    pub fn open(ordinal: u32, options: Options) -> Result<Self, CudaError> {
        let device = CudaDevice::open(ordinal, options)?;
        Ok(Self { probe: Probe::load(&device)?, device })
    }
}

impl Workload for CudaBench {
    fn idle_stream(&self) -> StreamId {
        must(self.device.add_stream(), "a stream")
    }

    fn foreign_stream(&self) -> Option<StreamId> {
        let other = must(CudaDevice::open(0, Options::new()), "another handle on the device");
        Some(must(other.add_stream(), "a stream"))
    }

    fn enqueue(&self, stream: StreamId, time: Ticks) {
        must(self.probe.spin(stream, time), "a launch");
    }

    fn pass(&self, time: Ticks) {
        std::thread::sleep(Duration::from_nanos(time.value()));
    }

    fn finish(&self) {
        must(self.device.synchronize(), "waiting for the device");
    }

    fn fill(&self, stream: StreamId, addr: Addr, len: Bytes, seed: u32) {
        must(self.probe.fill(stream, Pattern { addr, len, stride: 4, seed }), "a fill");
    }

    fn check(&self, stream: StreamId, addr: Addr, len: Bytes, seed: u32) {
        must(self.probe.check(stream, Pattern { addr, len, stride: 4, seed }), "a check");
    }

    fn wrong(&self) -> u64 {
        must(self.probe.mismatches(), "counting mismatches")
    }
}

impl Device for CudaBench {
    type Range = CudaRange;
    type Memory = CudaMemory;
    type Stream = StreamId;
    type Event = CudaEvent;
    type Error = CudaError;

    fn caps(&self) -> Caps {
        self.device.caps()
    }

    fn now(&self) -> Ticks {
        self.device.now()
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<CudaRange, CudaError> {
        self.device.reserve(len, align)
    }

    fn base(&self, range: &CudaRange) -> Addr {
        self.device.base(range)
    }

    fn release(&self, range: CudaRange) -> Result<(), Refused<CudaRange, CudaError>> {
        self.device.release(range)
    }

    fn create(&self, len: Bytes) -> Result<CudaMemory, CudaError> {
        self.device.create(len)
    }

    fn destroy(&self, memory: CudaMemory) -> Result<(), Refused<CudaMemory, CudaError>> {
        self.device.destroy(memory)
    }

    fn map(&self, range: &CudaRange, at: Bytes, memory: &[&CudaMemory]) -> Result<(), CudaError> {
        self.device.map(range, at, memory)
    }

    fn unmap(&self, range: &CudaRange, at: Bytes, len: Bytes) -> Result<(), CudaError> {
        self.device.unmap(range, at, len)
    }

    fn record(&self, stream: StreamId) -> Result<CudaEvent, CudaError> {
        self.device.record(stream)
    }

    fn query(&self, event: &CudaEvent) -> Result<Passed, CudaError> {
        self.device.query(event)
    }

    fn order_after(&self, stream: StreamId, event: &CudaEvent) -> Result<(), CudaError> {
        self.device.order_after(stream, event)
    }

    fn host(&self) -> Option<Host<'_, Self>> {
        self.device.host()
    }
}
