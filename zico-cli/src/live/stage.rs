//! Devices that recorded jobs run on in real time: work that takes as long as a launch, and
//! patterns.

use zico_core::{Addr, Bytes, Device, Ticks};
use zico_cuda::{CudaDevice, CudaError, Options, Pattern, Probe, StreamId};
#[cfg(target_os = "linux")]
use zico_node::host::{HostConfig, HostDevice, HostError, HostStream};

/// The stride of patterns: one word in each smallest unit of blocks.
const STRIDE: u32 = 512;
/// The least that a pattern covers.
const WORD: Bytes = Bytes::new(4);

/// A pattern that no other block of the process has, in a block.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) at: Addr,
    pub(super) len: Bytes,
    pub(super) seed: u32,
}

/// A device, and what a recorded job does on it. All of it happens in the order of a stream.
pub(super) trait Stage: Sync {
    type Device: Device<Stream = Self::Stream, Event = Self::Event, Error = Self::Error> + Sync;
    type Stream: Copy + Send;
    type Event: Send + Sync;
    type Error: std::error::Error + Send + Sync + 'static;

    fn device(&self) -> &Self::Device;

    fn add_stream(&self) -> Result<Self::Stream, Self::Error>;

    /// Fills a block.
    fn fill(&self, stream: Self::Stream, mark: Mark) -> Result<(), Self::Error>;

    /// Compares a block with what it was filled with, and counts what differs.
    fn check(&self, stream: Self::Stream, mark: Mark) -> Result<(), Self::Error>;

    /// Keeps a stream busy for so long.
    fn launch(&self, stream: Self::Stream, time: Ticks) -> Result<(), Self::Error>;

    /// What differed, when all that has been enqueued is done.
    fn mismatches(&self) -> Result<u64, Self::Error>;
}

/// A CUDA device with the kernels that write and check patterns.
pub(super) struct CudaStage {
    device: CudaDevice,
    probe: Probe,
}

impl CudaStage {
    pub(super) fn open(ordinal: u32, options: Options) -> Result<Self, CudaError> {
        let device = CudaDevice::open(ordinal, options)?;
        let probe = Probe::load(&device)?;
        Ok(Self { device, probe })
    }
}

/// What is less than a word has none.
fn pattern(Mark { at, len, seed }: Mark) -> Option<Pattern> {
    (len >= WORD).then_some(Pattern { addr: at, len, stride: STRIDE, seed })
}

impl Stage for CudaStage {
    type Device = CudaDevice;
    type Stream = StreamId;
    type Event = zico_cuda::CudaEvent;
    type Error = CudaError;

    fn device(&self) -> &CudaDevice {
        &self.device
    }

    fn add_stream(&self) -> Result<StreamId, CudaError> {
        self.device.add_stream()
    }

    fn fill(&self, stream: StreamId, mark: Mark) -> Result<(), CudaError> {
        pattern(mark).map_or(Ok(()), |pattern| self.probe.fill(stream, pattern))
    }

    fn check(&self, stream: StreamId, mark: Mark) -> Result<(), CudaError> {
        pattern(mark).map_or(Ok(()), |pattern| self.probe.check(stream, pattern))
    }

    fn launch(&self, stream: StreamId, time: Ticks) -> Result<(), CudaError> {
        self.probe.spin(stream, time)
    }

    fn mismatches(&self) -> Result<u64, CudaError> {
        self.probe.mismatches()
    }
}

/// Host memory. The processor writes and checks the patterns at once: in the order of the stream,
/// since one thread does all that a job does. A launch takes time and no processor.
#[cfg(target_os = "linux")]
pub(super) struct HostStage {
    device: HostDevice,
    mismatches: std::sync::atomic::AtomicU64,
}

#[cfg(target_os = "linux")]
impl HostStage {
    pub(super) fn open() -> Result<Self, HostError> {
        let device = HostDevice::new(HostConfig::new())?;
        Ok(Self { device, mismatches: 0.into() })
    }
}

/// The whole words of a block. What is less than one has no pattern.
#[cfg(target_os = "linux")]
fn words(Mark { at, len, seed }: Mark) -> Option<(Addr, Bytes, u64)> {
    let len = Bytes::new(len.value() / 8 * 8);
    (!len.is_zero()).then_some((at, len, seed.into()))
}

#[cfg(target_os = "linux")]
impl Stage for HostStage {
    type Device = HostDevice;
    type Stream = HostStream;
    type Event = zico_node::host::HostEvent;
    type Error = HostError;

    fn device(&self) -> &HostDevice {
        &self.device
    }

    fn add_stream(&self) -> Result<HostStream, HostError> {
        Ok(self.device.add_stream())
    }

    fn fill(&self, _: HostStream, mark: Mark) -> Result<(), HostError> {
        let Some((at, len, seed)) = words(mark) else { return Ok(()) };
        self.device.fill(at, len, seed)
    }

    fn check(&self, _: HostStream, mark: Mark) -> Result<(), HostError> {
        let Some((at, len, seed)) = words(mark) else { return Ok(()) };
        let is_right = self.device.verify(at, len, seed)?;
        let wrong = u64::from(!is_right);
        self.mismatches.fetch_add(wrong, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn launch(&self, stream: HostStream, time: Ticks) -> Result<(), HostError> {
        self.device.launch(stream, time)
    }

    fn mismatches(&self) -> Result<u64, HostError> {
        Ok(self.mismatches.load(std::sync::atomic::Ordering::Relaxed))
    }
}
