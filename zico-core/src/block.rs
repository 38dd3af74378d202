//! What a job asks for, and the handle of what it gets.

use core::num::NonZeroU64;

use crate::arena::{GRANULE, Slot};
use crate::lifetime::Lifetime;
use crate::region::JobKey;
use crate::units::{Addr, Bytes};
use crate::zone::Zone;

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub(crate) bytes: Bytes,
    pub(crate) align: Bytes,
    /// None if it is to be learned.
    lifetime: Option<Lifetime>,
    pub(crate) name: Option<&'static str>,
}

impl Request {
    /// `bytes` of memory that lives as long as `lifetime` says, aligned to 512 bytes. Zero bytes
    /// are a block of their own, with an address that no other live block has.
    #[must_use]
    pub const fn new(bytes: Bytes, lifetime: Lifetime) -> Self {
        Self { bytes, align: Bytes::new(GRANULE), lifetime: Some(lifetime), name: None }
    }

    /// `bytes` of memory whose lifetime is learned: what the same allocation of the last iteration
    /// did, by its place in the order of those that are learned. Outside an iteration it persists;
    /// in the first one it does if it has the size of a block that was there before, as optimizer
    /// state has the sizes of parameters.
    #[must_use]
    pub const fn learned(bytes: Bytes) -> Self {
        Self { bytes, align: Bytes::new(GRANULE), lifetime: None, name: None }
    }

    /// None if it is to be learned.
    pub(crate) const fn lifetime(&self) -> Option<Lifetime> {
        self.lifetime
    }

    /// Aligned to at least `align`: a power of two, up to the size of a region.
    #[must_use]
    pub const fn aligned(mut self, align: Bytes) -> Self {
        self.align = align;
        self
    }

    /// By what name people know the block: [`Job::live_blocks`](crate::Job::live_blocks) says it.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }
}

/// A live allocation: where it is and how large. A plain handle; freeing it twice is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    pub(crate) address: Addr,
    pub(crate) bytes: Bytes,
    /// Which of all the job's blocks it is.
    pub(crate) serial: u64,
    pub(crate) job: JobKey,
    pub(crate) home: Home,
}

/// Which zone has a block, and in which slot. One word: handles
/// are copied at once after they have been made, and a word that was written in parts stalls whoever
/// reads it whole. Never zero, so that one with an address is returned in two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Home(NonZeroU64);

impl Home {
    #[inline]
    pub(crate) const fn new(zone: Zone, slot: Slot) -> Self {
        let word = (slot as u64) << 2 | zone.index() as u64;
        Self(NonZeroU64::MIN.saturating_add(word))
    }

    #[inline]
    pub(crate) const fn zone(self) -> Zone {
        match self.word() & 3 {
            0 => Zone::Persistent,
            1 => Zone::Iteration,
            2 => Zone::Transient,
            _ => Zone::Planned,
        }
    }

    const fn word(self) -> u64 {
        self.0.get() - 1
    }

    #[expect(clippy::cast_possible_truncation, reason = "it was a slot when it was put in")]
    #[inline]
    pub(crate) const fn slot(self) -> Slot {
        (self.word() >> 2) as Slot
    }
}

impl Block {
    /// The first address.
    #[must_use]
    pub const fn address(&self) -> Addr {
        self.address
    }

    /// The bytes asked for.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }
}
