//! Why the mock refuses a call.

use zico_core::{Addr, Bytes, Class, DeviceError};

/// Why the mock refused a call. The call has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MockError {
    /// The device has not that much physical memory left.
    #[error("out of memory: {asked} asked for, {left} left")]
    OutOfMemory {
        /// What the call asked for.
        asked: Bytes,
        /// What is left of the capacity.
        left: Bytes,
    },
    /// No range of that length and alignment is left.
    #[error("out of addresses: {asked} asked for at a multiple of {align}")]
    OutOfAddresses {
        /// The length of the range.
        asked: Bytes,
        /// Its alignment.
        align: Bytes,
    },
    /// A device was configured with a granularity that is no power of two.
    #[error("a granularity of {granularity} is not a power of two")]
    BadGranularity {
        /// The granularity asked for.
        granularity: Bytes,
    },
    /// A length or an offset is no multiple of the granularity, or a length is nothing.
    #[error("{size} is not a whole number of units of {granularity}, or none at all")]
    BadSize {
        /// The length or offset.
        size: Bytes,
        /// The device's granularity.
        granularity: Bytes,
    },
    /// An alignment is no power of two, or less than the granularity.
    #[error("an alignment of {align} is not a power of two of at least {granularity}")]
    BadAlignment {
        /// The alignment asked for.
        align: Bytes,
        /// The device's granularity.
        granularity: Bytes,
    },
    /// The bytes lie beyond the end of the range.
    #[error("{len} from {at} do not fit in a range of {range}")]
    BeyondRange {
        /// Where in the range they begin.
        at: Bytes,
        /// How many they are.
        len: Bytes,
        /// The length of the range.
        range: Bytes,
    },
    /// Something is mapped there already.
    #[error("something is mapped at {mapped} already")]
    Occupied {
        /// Where the mapping in the way begins.
        mapped: Addr,
    },
    /// Nothing is mapped there.
    #[error("nothing is mapped at {hole}")]
    NotMapped {
        /// The first address at which there is nothing.
        hole: Addr,
    },
    /// The call would take away a part of a mapping.
    #[error("the mapping of {len} at {mapped} would be cut")]
    CutsMapping {
        /// Where the mapping begins.
        mapped: Addr,
        /// How long it is.
        len: Bytes,
    },
    /// A range cannot be released while something is mapped in it.
    #[error("the range still has a mapping at {mapped}")]
    RangeInUse {
        /// Where the first mapping begins.
        mapped: Addr,
    },
    /// Memory cannot be destroyed while it is mapped.
    #[error("the memory still has {mappings} mappings")]
    MemoryInUse {
        /// How many mappings it has.
        mappings: u32,
    },
    /// The host has not that much memory left for the device.
    #[error("out of host memory: {asked} asked for, {left} left")]
    OutOfHostMemory {
        /// What the call asked for.
        asked: Bytes,
        /// What is left.
        left: Bytes,
    },
    /// Host memory cannot be freed while enqueued copies are to use it.
    #[error("{copies} enqueued copies still use the host memory")]
    HostMemoryInUse {
        /// How many copies.
        copies: u64,
    },
    /// A handle belongs to another device.
    #[error("the {what} belongs to another device")]
    Foreign {
        /// What kind of handle.
        what: &'static str,
    },
}

impl DeviceError for MockError {
    fn class(&self) -> Class {
        match self {
            Self::OutOfMemory { .. }
            | Self::OutOfAddresses { .. }
            | Self::OutOfHostMemory { .. } => Class::OutOfMemory,
            Self::BadGranularity { .. }
            | Self::BadSize { .. }
            | Self::BadAlignment { .. }
            | Self::BeyondRange { .. }
            | Self::Occupied { .. }
            | Self::NotMapped { .. }
            | Self::CutsMapping { .. }
            | Self::RangeInUse { .. }
            | Self::MemoryInUse { .. }
            | Self::HostMemoryInUse { .. }
            | Self::Foreign { .. } => Class::Misuse,
        }
    }
}
