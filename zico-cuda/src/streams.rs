//! The streams registered with a device.
//!
//! A stream is identified by a number, not by the driver's pointer: a closed stream, or one of
//! another device, is refused instead of passed to a driver that does not check.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::Opaque;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::retry::retry_once;

/// Names a stream of a [`CudaDevice`](crate::CudaDevice).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    device: u64,
    number: u64,
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.number)
    }
}

/// A stream and its owner.
pub(crate) enum Stream {
    /// This device, when it closes the stream or ends.
    Own { driver: &'static Driver, raw: Opaque },
    /// `cudarc`, when the last handle on it is gone.
    Cudarc(Arc<cudarc::driver::CudaStream>),
    /// The caller, who has promised that it lives long enough.
    Foreign(Opaque),
}

impl Stream {
    pub(crate) fn raw(&self) -> Opaque {
        match self {
            Self::Own { raw, .. } | Self::Foreign(raw) => *raw,
            Self::Cudarc(stream) => Opaque(stream.cu_stream() as usize),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Self::Own { driver, raw } = self {
            // SAFETY: the stream was made by this device and nobody else has the handle. What is
            // enqueued on it still runs. There is no caller left to report an error to.
            let _ = retry_once(|| unsafe { driver.stream_destroy(*raw) });
        }
    }
}

/// All streams of a device.
pub(crate) struct Streams {
    device: u64,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    next: u64,
    streams: BTreeMap<u64, Arc<Stream>>,
}

impl Streams {
    pub(crate) fn new(device: u64) -> Self {
        Self { device, known: RwLock::default() }
    }

    /// The name of a stream: a new one, or, for a stream that is not the device's own, the one that
    /// it has already.
    pub(crate) fn add(&self, stream: Stream) -> StreamId {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let (raw, own) = (stream.raw(), matches!(stream, Stream::Own { .. }));
        let same = known.streams.iter().find(|(_, known)| known.raw() == raw && !own);
        let number = match same {
            Some((&number, _)) => number,
            None => {
                known.next += 1;
                let number = known.next;
                known.streams.insert(number, Arc::new(stream));
                number
            }
        };
        StreamId { device: self.device, number }
    }

    pub(crate) fn get(&self, id: StreamId) -> Result<Arc<Stream>, CudaError> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let stream = known.streams.get(&id.number).filter(|_| id.device == self.device);
        stream.cloned().ok_or(CudaError::Foreign { what: "stream" })
    }

    /// The stream has no name any more.
    pub(crate) fn remove(&self, id: StreamId) -> Result<Arc<Stream>, CudaError> {
        self.get(id)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.streams.remove(&id.number).ok_or(CudaError::Foreign { what: "stream" })
    }

    pub(crate) fn clear(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).streams.clear();
    }
}
