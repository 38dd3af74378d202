//! The device of a stress test: the host's memory, streams that can be muted, and patterns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zico_core::{Block, Bytes, Device, Pool};

#[allow(dead_code, reason = "the example has parts that a storm does not use")]
#[path = "../../../../zico-mock/examples/bring_your_own_device/host.rs"]
mod host;

use host::Host;

use crate::between::Between;

pub(crate) type Dev = Between<Host>;
pub(crate) type Stream = <Host as Device>::Stream;

/// The device and the patterns on it.
pub(crate) struct Bench {
    host: Host,
    /// Of each job.
    streams: Mutex<Vec<Stream>>,
    wrong: Arc<AtomicU64>,
    patterns: AtomicU64,
}

/// The stride of the pattern, in bytes.
const STRIDE: usize = 16 << 10;

impl Bench {
    pub(crate) fn new(capacity: Bytes) -> Self {
        let (streams, patterns) = (Mutex::default(), AtomicU64::new(0));
        Self { host: Host::new(capacity), streams, wrong: Arc::default(), patterns }
    }

    pub(crate) fn device(&self) -> Dev {
        Between::new(self.host.clone())
    }

    /// A stream for work; the job's own is noted as such.
    pub(crate) fn add_stream(&self, own: bool) -> Stream {
        let stream = self.host.add_stream();
        if own {
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        }
        stream
    }

    /// The job's stream takes no events, or takes them again.
    pub(crate) fn mute(&self, pool: &Pool<Dev>, job: usize, mute: bool) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&stream) = streams.get(job) {
            if mute { pool.device().mute(stream) } else { pool.device().unmute(stream) }
        }
    }

    /// The number of patterns that were wrong.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::SeqCst)
    }

    /// The number of patterns checked.
    pub(crate) fn patterns(&self) -> u64 {
        self.patterns.load(Ordering::SeqCst)
    }

    /// Work on a stream that fills a block, or looks whether it is as it was filled.
    pub(crate) fn pattern(&self, stream: Stream, block: Block, tag: u8, fill: bool) {
        let (host, wrong) = (self.host.clone(), self.wrong.clone());
        let work = move || {
            let len = usize::try_from(block.bytes().value()).unwrap_or(0);
            for offset in (0..len).step_by(STRIDE).chain(len.checked_sub(1)) {
                let at = block.address().checked_add(Bytes::new(offset as u64));
                let right = at.and_then(|at| {
                    host.with_byte(at, |byte| {
                        if fill {
                            byte.store(tag, Ordering::Relaxed);
                        }
                        byte.load(Ordering::Relaxed) == tag
                    })
                });
                if right != Some(true) {
                    wrong.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        self.patterns.fetch_add(u64::from(!fill), Ordering::SeqCst);
        if self.host.enqueue(stream, Box::new(work)).is_err() {
            self.wrong.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Work enqueued on one stream from now on runs after all that another one has now.
    pub(crate) fn order(&self, stream: Stream, after: Stream) {
        let done = self.host.record(after).and_then(|event| self.host.order_after(stream, &event));
        if done.is_err() {
            self.wrong.fetch_add(1, Ordering::SeqCst);
        }
    }
}
