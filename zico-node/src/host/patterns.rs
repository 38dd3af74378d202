//! Patterns in memory, for those who want to see that what is in a block is the block's alone.

use std::sync::atomic::{AtomicU64, Ordering};

use zico_core::{Addr, Bytes};

use super::device::HostDevice;
use super::error::HostError;

/// Bytes from one word of a pattern to the next. The last word of a block has one as well.
const STRIDE: u64 = 512;
const WORD: u64 = 8;

impl HostDevice {
    /// Writes a pattern of `seed` over a block: a word in every 512 bytes, and its last one.
    ///
    /// # Errors
    /// If not all of the block is mapped, or it does not begin and end at a multiple of 8.
    pub fn fill(&self, at: Addr, len: Bytes, seed: u64) -> Result<(), HostError> {
        self.with_words(at, len, |place, word| {
            word.store(word_of(seed, place), Ordering::Relaxed);
            true
        })
        .map(drop)
    }

    /// Whether a block has the pattern of `seed` still.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn verify(&self, at: Addr, len: Bytes, seed: u64) -> Result<bool, HostError> {
        self.with_words(at, len, |place, word| word.load(Ordering::Relaxed) == word_of(seed, place))
    }

    /// Whether a block's words are zero, as those of memory are that nobody has written to.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn is_clear(&self, at: Addr, len: Bytes) -> Result<bool, HostError> {
        self.with_words(at, len, |_, word| word.load(Ordering::Relaxed) == 0)
    }

    /// Looks at the words of a block while `look` says so. Whether it always did.
    fn with_words(
        &self,
        at: Addr,
        len: Bytes,
        look: impl Fn(u64, &AtomicU64) -> bool,
    ) -> Result<bool, HostError> {
        let (start, len) = (at.value(), len.value());
        let registry = self.registry();
        registry.check_mapped(start, len)?;
        if !start.is_multiple_of(WORD) || !len.is_multiple_of(WORD) || len == 0 {
            return Err(HostError::BadSize {
                size: Bytes::new(len),
                granularity: Bytes::new(WORD),
            });
        }
        let places = (0..len).step_by(usize::try_from(STRIDE).unwrap_or(1));
        Ok(places.chain([len - WORD]).all(|offset| {
            let address = usize::try_from(start + offset).unwrap_or(0);
            // SAFETY: the word is within what is mapped, readable and writable, which stays so while the
            // registry is locked; it is aligned, and all who look at it, in whatever process, take
            // it for an atomic.
            let word = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(address) };
            look(offset, word)
        }))
    }
}

fn word_of(seed: u64, offset: u64) -> u64 {
    (seed ^ offset.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ offset
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_core::Device;

    use super::*;
    use crate::host::HostConfig;

    #[test]
    fn a_pattern_is_where_it_was_written_and_nowhere_else() {
        let unit = Bytes::kib(64);
        let device = HostDevice::new(HostConfig::new().granularity(unit)).unwrap();
        let range = device.reserve(Bytes::kib(192), unit).unwrap();
        let memory = device.create(unit).unwrap();
        device.map(&range, Bytes::ZERO, &[&memory]).unwrap();
        device.map(&range, unit, &[&memory]).unwrap();
        let at = |offset: u64| device.base(&range).checked_add(Bytes::new(offset)).unwrap();
        assert!(device.is_clear(at(0), Bytes::kib(128)).unwrap());
        device.fill(at(0), Bytes::new(4096), 1).unwrap();
        assert!(!device.is_clear(at(0), Bytes::kib(128)).unwrap());
        device.fill(at(4096), Bytes::new(4096), 2).unwrap();
        assert!(device.verify(at(0), Bytes::new(4096), 1).unwrap());
        assert!(!device.verify(at(0), Bytes::new(4096), 2).unwrap());
        // The same memory at its other address.
        assert!(device.verify(at(unit.value() + 4096), Bytes::new(4096), 2).unwrap());
        device.fill(at(unit.value() + 4096 + 4088), Bytes::new(8), 3).unwrap();
        assert!(!device.verify(at(4096), Bytes::new(4096), 2).unwrap(), "the last word counts");
        assert!(device.fill(at(0), Bytes::kib(128), 4).is_ok(), "two mappings side by side");
        assert!(device.fill(at(0), Bytes::kib(136), 4).is_err(), "not mapped to its end");
        assert!(device.fill(at(4), Bytes::new(8), 4).is_err());
        device.unmap(&range, Bytes::ZERO, Bytes::kib(128)).unwrap();
        device.destroy(memory).unwrap();
        device.release(range).unwrap();
    }
}
