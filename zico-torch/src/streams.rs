//! What a C program needs of a device beyond [`Device`]: streams that are pointers, and what forks.

use std::ffi::c_void;

use zico_core::{Addr, Bytes, Device};
use zico_cuda::{CudaDevice, CudaError, StreamId};
use zico_node::host::{Backing, HostDevice, HostError, HostStream};

/// A stream as it comes from C: a `cudaStream_t`, or any number on host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawStream(pub(crate) usize);

/// A device that takes streams from outside.
pub(crate) trait Adopt:
    Device<Event: 'static, Range: 'static, Memory: 'static> + 'static
{
    /// The device's name for a stream. The same stream has the same name each time.
    fn adopt(&self, stream: RawStream) -> Result<Self::Stream, Self::Error>;

    /// The files behind some addresses, where the processor computes in them.
    fn backing(&self, at: Addr, len: Bytes) -> Vec<Backing>;
}

impl Adopt for CudaDevice {
    fn adopt(&self, stream: RawStream) -> Result<StreamId, CudaError> {
        let stream = std::ptr::with_exposed_provenance_mut::<c_void>(stream.0);
        // SAFETY: the functions of the C ABI that take a stream demand that it is one of the
        // device's primary context, and that it lives as long as the job or the pool that it was
        // given to.
        Ok(unsafe { self.adopt_raw_stream(stream) })
    }

    /// A child has no use of a device's memory: CUDA does not work in one.
    fn backing(&self, _at: Addr, _len: Bytes) -> Vec<Backing> {
        Vec::new()
    }
}

impl Adopt for HostDevice {
    /// A CPU's work is done when its call returns: all streams are alike.
    fn adopt(&self, _stream: RawStream) -> Result<HostStream, HostError> {
        Ok(self.default_stream())
    }

    fn backing(&self, at: Addr, len: Bytes) -> Vec<Backing> {
        HostDevice::backing(self, at, len)
    }
}
