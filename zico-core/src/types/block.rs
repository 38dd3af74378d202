//! What a job asks for, and the handle of what it gets.

pub(crate) use crate::types::tuning::GRANULE;
use core::fmt;

use crate::types::lifetime::Lifetime;
use crate::types::units::{Addr, Bytes};
use crate::types::zone::Zone;

/// Where a block is in its arena or plan, by number. It stays the same while the block lives.
pub(crate) type Slot = u32;

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
// Two words of 128 bits, where five fields would be as long: two are passed and returned in
// registers, more of them in memory, in parts that whoever reads them at once as a whole has to
// wait for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// The address, and the bytes above it.
    place: u128,
    /// The serial, and the home above it.
    name: u128,
}

impl Block {
    #[inline]
    pub(crate) const fn new(address: Addr, bytes: Bytes, serial: u64, home: Home) -> Self {
        Self { place: pair(address.value(), bytes.value()), name: pair(serial, home.0) }
    }

    /// The first address.
    #[must_use]
    #[inline]
    pub const fn address(&self) -> Addr {
        Addr::new(low(self.place))
    }

    /// The bytes asked for.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> Bytes {
        Bytes::new(high(self.place))
    }

    /// Which of all blocks it is.
    #[inline]
    pub(crate) const fn serial(&self) -> u64 {
        low(self.name)
    }

    #[inline]
    pub(crate) const fn home(&self) -> Home {
        Home(high(self.name))
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("address", &self.address())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// Which zone has a block, and in which slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home(u64);

impl Home {
    #[inline]
    pub(crate) const fn new(zone: Zone, slot: Slot) -> Self {
        Self((slot as u64) << 1 | zone.index() as u64)
    }

    #[inline]
    pub(crate) const fn zone(self) -> Zone {
        match self.0 & 1 {
            0 => Zone::Persistent,
            _ => Zone::Iteration,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "it was a slot when it was put in")]
    #[inline]
    pub(crate) const fn slot(self) -> Slot {
        (self.0 >> 1) as Slot
    }
}

const fn pair(low: u64, high: u64) -> u128 {
    (high as u128) << 64 | low as u128
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn low(pair: u128) -> u64 {
    pair as u64
}

const fn high(pair: u128) -> u64 {
    low(pair >> 64)
}
