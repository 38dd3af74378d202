//! The configuration of a mock device, and its handles.
//!
//! A handle names its device, so that another device refuses it.

use std::fmt;

use zico_core::{Bytes, Caps, Link};

use super::memory::Span;
use super::timeline::Position;
#[cfg(doc)]
use crate::MockDevice;

/// The configuration of a [`MockDevice`].
#[derive(Clone, Copy, Debug)]
pub struct MockConfig {
    pub(crate) caps: Caps,
    pub(crate) budget: Option<Bytes>,
    pub(crate) host: Bytes,
    pub(crate) link: Option<Link>,
}

impl MockConfig {
    /// A device of `capacity` bytes in units of 2 MiB, and no budget. Its host has all the memory
    /// that it may ask for, behind a link of 25 GB/s in each direction: what a PCIe 4.0 x16 link
    /// passes.
    #[must_use]
    pub const fn new(capacity: Bytes) -> Self {
        let rate = Bytes::new(25_000_000_000);
        Self {
            caps: Caps::new(Bytes::mib(2), capacity),
            budget: None,
            host: Bytes::MAX,
            link: Some(Link::new(rate, rate)),
        }
    }

    /// How much of the host's memory the device may have.
    #[must_use]
    pub const fn host(mut self, bytes: Bytes) -> Self {
        self.host = bytes;
        self
    }

    /// The link to the host; none for a device without a host tier.
    #[must_use]
    pub const fn link(mut self, link: Option<Link>) -> Self {
        self.link = link;
        self
    }

    /// The unit of physical allocation and mapping, a power of two.
    #[must_use]
    pub const fn granularity(mut self, granularity: Bytes) -> Self {
        self.caps.granularity = granularity;
        self
    }

    /// Physical memory beyond `budget` is a violation.
    #[must_use]
    pub const fn budget(mut self, budget: Bytes) -> Self {
        self.budget = Some(budget);
        self
    }
}

/// A reserved address range of a [`MockDevice`].
#[derive(Debug)]
pub struct MockRange {
    pub(crate) device: u64,
    pub(crate) span: Span,
}

/// A piece of physical memory of a [`MockDevice`].
#[derive(Debug)]
pub struct MockMemory {
    pub(crate) device: u64,
    pub(crate) start: u64,
}

impl MockMemory {
    /// Whether two handles are of the same memory.
    #[must_use]
    pub const fn is_same(&self, other: &Self) -> bool {
        self.device == other.device && self.start == other.start
    }
}

/// A stream of a [`MockDevice`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MockStream {
    pub(crate) device: u64,
    pub(crate) number: usize,
}

impl fmt::Debug for MockStream {
    /// Without the device: its number differs from one run of a process to the next.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.number)
    }
}

/// A point in the queue of a [`MockStream`].
#[derive(Debug)]
pub struct MockEvent {
    pub(crate) device: u64,
    pub(crate) position: Position,
}

/// Bytes with an owner in device order, from [`MockDevice::own`] to [`MockDevice::disown`].
///
/// A claim that is dropped never ends: its bytes stay owned, like leaked memory.
#[derive(Debug)]
#[must_use = "a claim that is dropped is never given up"]
pub struct Claim {
    pub(crate) device: u64,
    pub(crate) slot: usize,
}
