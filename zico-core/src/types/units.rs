//! Quantities that must not be mixed: bytes, addresses, region counts, time and progress.
//!
//! Each is a newtype over an unsigned integer. Arithmetic on them is checked or says that it
//! saturates; none wraps (promise I7). All of them are plain values: they describe device memory,
//! nothing here is ever dereferenced.

use core::fmt;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
        pub struct $name($int);

        impl $name {
            /// None of it.
            pub const ZERO: Self = Self(0);
            /// The largest value that can be spoken of.
            pub const MAX: Self = Self(<$int>::MAX);

            /// Wraps a plain number.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self(value)
            }

            /// The plain number.
            #[must_use]
            pub const fn value(self) -> $int {
                self.0
            }

            /// Whether it is nothing.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }

            /// The larger of two, usable in constants.
            #[must_use]
            pub const fn at_least(self, other: Self) -> Self {
                if self.0 < other.0 { other } else { self }
            }

            /// `self - other`, or nothing if that would be negative.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// `self + other`, or [`MAX`](Self::MAX) if that cannot be represented.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
    };
}

/// Lets two quantities of one kind be added and subtracted, checked.
macro_rules! additive {
    ($name:ident) => {
        impl $name {
            /// `self + other`, unless that cannot be represented.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// `self - other`, unless that would be negative.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(rest) => Some(Self(rest)),
                    None => None,
                }
            }
        }
    };
}

quantity! {
    /// A number of bytes of device memory.
    Bytes(u64)
}
quantity! {
    /// An address in the device's virtual address space, in bytes.
    Addr(u64)
}
quantity! {
    /// A number of regions: the fixed-size units in which a pool accounts for memory.
    Regions(u32)
}
quantity! {
    /// Nanoseconds: a moment of the device's clock ([`Device::now`](crate::Device::now)) or a
    /// distance between two.
    Ticks(u64)
}
quantity! {
    /// How far an iteration has come: the allocations and frees it has made so far.
    ///
    /// Counting operations instead of time keeps a job's position in its profile true when
    /// contention slows it down (Zico, section 4: "progress").
    Progress(u32)
}

additive!(Bytes);
additive!(Regions);
additive!(Ticks);
additive!(Progress);

impl Bytes {
    /// `n` KiB, saturating.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 10))
    }

    /// `n` MiB, saturating.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 20))
    }

    /// `n` GiB, saturating.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 30))
    }

    /// The next multiple of `unit`, unless `unit` is zero or the result cannot be represented.
    #[must_use]
    pub const fn round_up(self, unit: Self) -> Option<Self> {
        match self.0.checked_next_multiple_of(unit.0) {
            Some(rounded) => Some(Self(rounded)),
            None => None,
        }
    }
}

impl Regions {
    /// The bytes of this many regions of `size` each, saturating.
    #[must_use]
    pub const fn bytes(self, size: Bytes) -> Bytes {
        Bytes((self.0 as u64).saturating_mul(size.0))
    }
}

impl Addr {
    /// The address `offset` bytes further on, unless that is past the end of the address space.
    #[must_use]
    pub const fn checked_add(self, offset: Bytes) -> Option<Self> {
        match self.0.checked_add(offset.0) {
            Some(address) => Some(Self(address)),
            None => None,
        }
    }

    /// The bytes from `start` up to here, unless `start` lies behind.
    #[must_use]
    pub const fn offset_from(self, start: Self) -> Option<Bytes> {
        match self.0.checked_sub(start.0) {
            Some(distance) => Some(Bytes(distance)),
            None => None,
        }
    }
}

impl Ticks {
    /// `n` microseconds, saturating.
    #[must_use]
    pub const fn micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` milliseconds, saturating.
    #[must_use]
    pub const fn millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// The same duration in seconds, for reports.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Bytes {
    /// In the largest binary unit that leaves a number of at least one: `3.2 GiB`, `512 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let Some(unit) = (self.0.max(1).ilog2() / 10).checked_sub(1) else {
            return write!(f, "{} B", self.0);
        };
        let scale = 1u64 << (10 * (unit + 1));
        if self.0.is_multiple_of(scale) {
            return write!(f, "{} {}", self.0 / scale, UNITS[unit as usize]);
        }
        write!(f, "{:.2} {}", self.0 as f64 / scale as f64, UNITS[unit as usize])
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "region" } else { "regions" })
    }
}

impl fmt::Display for Ticks {
    /// In the largest unit that leaves a number of at least one: `1.5 ms`, `12 ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", self.0 as f64 / 1e6),
            _ => write!(f, "{:.2} s", self.seconds()),
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn bytes_read_as_a_person_would_write_them() {
        for (bytes, text) in [
            (Bytes::ZERO, "0 B"),
            (Bytes::new(1023), "1023 B"),
            (Bytes::kib(1), "1 KiB"),
            (Bytes::new(1536), "1.50 KiB"),
            (Bytes::mib(1).saturating_sub(Bytes::new(1)), "1024.00 KiB"),
            (Bytes::gib(8), "8 GiB"),
            (Bytes::MAX, "16.00 EiB"),
        ] {
            assert_eq!(bytes.to_string(), text);
        }
    }

    #[test]
    fn nothing_wraps() {
        assert_eq!(Bytes::MAX.checked_add(Bytes::new(1)), None);
        assert_eq!(Bytes::ZERO.checked_sub(Bytes::new(1)), None);
        assert_eq!(Bytes::MAX.round_up(Bytes::mib(2)), None);
        assert_eq!(Bytes::new(5).round_up(Bytes::ZERO), None);
        assert_eq!(Addr::MAX.checked_add(Bytes::new(1)), None);
        assert_eq!(Regions::MAX.bytes(Bytes::MAX), Bytes::MAX);
        assert_eq!(Bytes::gib(u64::MAX), Bytes::MAX);
    }
}
