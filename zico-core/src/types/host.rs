//! The host tier of a device: memory of the host that the device reaches by itself, and copies.
//!
//! It is a capability that a device may have or not ([`Device::host`]).
//!
//! [`Device::host`]: crate::Device::host

use crate::types::refused::Refused;
use crate::types::units::{Bytes, Ticks};

/// How fast a device and its host exchange memory. Both directions work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Bytes a second from the device to the host.
    pub out: Bytes,
    /// Bytes a second from the host to the device.
    pub back: Bytes,
}

impl Link {
    /// A link of so many bytes a second in each direction.
    #[must_use]
    pub const fn new(out: Bytes, back: Bytes) -> Self {
        Self { out, back }
    }

    /// How long a copy of `len` bytes to the host has the link to itself, rounded up.
    #[must_use]
    pub fn time_out(&self, len: Bytes) -> Ticks {
        time(len, self.out)
    }

    /// The same for a copy back to the device.
    #[must_use]
    pub fn time_back(&self, len: Bytes) -> Ticks {
        time(len, self.back)
    }
}

/// Nanoseconds for so many bytes at so many a second. For ever if nothing passes.
fn time(len: Bytes, a_second: Bytes) -> Ticks {
    const SECOND: u128 = 1_000_000_000;
    let time = (u128::from(len.value()) * SECOND).div_ceil(u128::from(a_second.value()).max(1));
    match a_second.is_zero() && !len.is_zero() {
        true => Ticks::MAX,
        false => Ticks::new(u64::try_from(time).unwrap_or(u64::MAX)),
    }
}

/// A piece of the host's memory, by the number that the backend knows it by.
///
/// Made by a backend; the core keeps it and gives it back.
#[derive(Debug, PartialEq, Eq)]
pub struct HostMemory {
    number: u64,
    len: Bytes,
}

impl HostMemory {
    /// The backend's piece of this number, which has `len` bytes.
    #[must_use]
    pub const fn new(number: u64, len: Bytes) -> Self {
        Self { number, len }
    }

    /// The number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// How long it is.
    #[must_use]
    pub const fn len(&self) -> Bytes {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len.is_zero()
    }
}

/// Host memory and copies of a device with ranges `R`, streams `S` and errors `E`.
///
/// # Contract
///
/// * A copy is work of a stream: it happens in the stream's order, and an event recorded behind it
///   has passed once it has been made. No call waits for it.
/// * What a copy writes is what it reads, byte for byte. What is beside it stays as it is.
/// * Two copies of different directions, or on different streams, may run at the same time.
/// * Any call may fail at any time and then has changed nothing and enqueued nothing.
/// * Until an event behind a copy has passed, the caller keeps what it reads and what it writes:
///   the addresses stay mapped, and the host memory is not [freed](Self::free).
///
/// The conformance suite in the workspace's `tests` crate checks this of any device that has it.
pub trait HostTier<R, S, E>: Send + Sync {
    /// How fast copies are, if that is known.
    fn link(&self) -> Option<Link>;

    /// Allocates `len` bytes of the host's memory that the device reaches by itself: page-locked,
    /// on CUDA. A multiple of the device's granularity. What is in it is anything.
    ///
    /// # Errors
    /// If the host has not that much left for it, or `len` is none.
    fn allocate(&self, len: Bytes) -> Result<HostMemory, E>;

    /// Gives host memory back. No enqueued copy may still use it.
    ///
    /// # Errors
    /// If it is none of this device's, or the host refuses.
    fn free(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, E>>;

    /// Enqueues a copy of as many bytes as `to` has from `at` bytes into `range` on, a multiple of
    /// the granularity, to the host.
    ///
    /// # Errors
    /// If not all of these addresses are mapped, the stream or the memory is none of this device's,
    /// or the device refuses.
    fn copy_out(&self, stream: S, range: &R, at: Bytes, to: &HostMemory) -> Result<(), E>;

    /// Enqueues a copy of all of `from` to `at` bytes into `range`, a multiple of the granularity.
    ///
    /// # Errors
    /// As [`copy_out`](Self::copy_out).
    fn copy_in(&self, stream: S, range: &R, at: Bytes, from: &HostMemory) -> Result<(), E>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_its_time() {
        let link = Link::new(Bytes::new(2_000_000_000), Bytes::new(3));
        assert_eq!(link.time_out(Bytes::new(4)), Ticks::new(2));
        assert_eq!(link.time_out(Bytes::new(5)), Ticks::new(3), "rounded up");
        assert_eq!(link.time_back(Bytes::new(3)), Ticks::new(1_000_000_000));
        assert_eq!(link.time_back(Bytes::ZERO), Ticks::ZERO);
        let none = Link::new(Bytes::ZERO, Bytes::MAX);
        assert_eq!(
            (none.time_out(Bytes::new(1)), none.time_out(Bytes::ZERO)),
            (Ticks::MAX, Ticks::ZERO)
        );
        assert_eq!(link.time_back(Bytes::MAX), Ticks::new(u64::MAX));
    }
}
