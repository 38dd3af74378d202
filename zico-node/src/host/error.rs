//! What goes wrong with host memory.

use std::io;

use rustix::io::Errno;
use zico_core::{Addr, Bytes, Class, DeviceError};

/// An error of a [`HostDevice`](super::HostDevice): the kernel's, or a breach of the contract of
/// [`Device`](zico_core::Device) found before the kernel is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The unit of memory is no power of two, or less than the kernel's page.
    #[error("a granularity of {granularity} is no power of two of at least the page of {page}")]
    BadGranularity {
        /// The unit asked for.
        granularity: Bytes,
        /// The kernel's page.
        page: Bytes,
    },
    /// The capacity holds not one unit.
    #[error("a capacity of {capacity} holds no unit of {granularity}")]
    BadCapacity {
        /// The capacity asked for.
        capacity: Bytes,
        /// The device's granularity.
        granularity: Bytes,
    },
    /// More memory than the device has left of its capacity.
    #[error("{asked} are more than is left: {used} of {capacity} are in use")]
    CapacityExceeded {
        /// The bytes asked for.
        asked: Bytes,
        /// The bytes that have been created and not destroyed.
        used: Bytes,
        /// The capacity.
        capacity: Bytes,
    },
    /// More host memory than the tier has left.
    #[error("{asked} of host memory are more than is left: {used} of {capacity} are in use")]
    HostExceeded {
        /// The bytes asked for.
        asked: Bytes,
        /// The bytes that have been allocated and not freed.
        used: Bytes,
        /// What the tier has in all.
        capacity: Bytes,
    },
    /// The process may open no more descriptors.
    #[error(
        "no descriptor is free for a piece of memory: the process may have {limit} (ulimit -n)"
    )]
    TooManyDescriptors {
        /// How many it may have.
        limit: u64,
    },
    /// The process may have no more mappings, or the kernel no more memory for them.
    #[error(
        "the kernel has no room for another mapping: this device has {mappings}, and a process may \
         have as many as vm.max_map_count says (65530 unless changed); larger regions need fewer"
    )]
    TooManyMappings {
        /// How many mappings of memory the device has.
        mappings: usize,
    },
    /// The kernel refused a call.
    #[error("{call}: {}", io::Error::from(*.error))]
    Kernel {
        /// The call.
        call: &'static str,
        /// Why.
        error: Errno,
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
    /// The bytes lie beyond the end of the range, or of all addresses.
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
    /// A handle belongs to another device.
    #[error("the {what} is none of this device's")]
    Foreign {
        /// What kind of handle.
        what: &'static str,
    },
    /// A descriptor to import is no file in memory.
    #[error("the descriptor is no file in memory (its mode is {mode:o}, octal)")]
    NotMemory {
        /// What `fstat` says it is.
        mode: u32,
    },
    /// A file in memory to import is not as long as it was said to be.
    #[error("the file in memory has {found} bytes and not {expected}")]
    WrongLength {
        /// The length in bytes that the sender says it has.
        expected: u64,
        /// The length in bytes that it has.
        found: u64,
    },
    /// A file in memory to import could still change its size, or cannot be written.
    #[error(
        "the file in memory has the seals {found:#x}: it needs {needed:#x} (its size is fixed), and none \
         of {refused:#x} (it can be written)"
    )]
    WrongSeals {
        /// Its seals: `F_SEAL_*`.
        found: u32,
        /// Those that it has to have.
        needed: u32,
        /// Those that it may not have.
        refused: u32,
    },
}

impl DeviceError for HostError {
    fn class(&self) -> Class {
        match self {
            Self::CapacityExceeded { .. }
            | Self::HostExceeded { .. }
            | Self::TooManyDescriptors { .. }
            | Self::TooManyMappings { .. } => Class::OutOfMemory,
            Self::Kernel { error, .. } => class_of(*error),
            Self::NotMemory { .. } | Self::WrongLength { .. } | Self::WrongSeals { .. } => {
                Class::Unsupported
            }
            Self::BadGranularity { .. }
            | Self::BadCapacity { .. }
            | Self::BadSize { .. }
            | Self::BadAlignment { .. }
            | Self::BeyondRange { .. }
            | Self::Occupied { .. }
            | Self::NotMapped { .. }
            | Self::CutsMapping { .. }
            | Self::RangeInUse { .. }
            | Self::MemoryInUse { .. }
            | Self::Foreign { .. } => Class::Misuse,
        }
    }
}

/// The class of an error of `memfd_create`, `fallocate`, `mmap`, `munmap` and `madvise`, by their
/// manual pages.
fn class_of(error: Errno) -> Class {
    match error {
        Errno::NOMEM | Errno::NOSPC | Errno::MFILE | Errno::NFILE => Class::OutOfMemory,
        Errno::AGAIN | Errno::INTR => Class::Transient,
        Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS => Class::Unsupported,
        _ => Class::Misuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_kernel_has_its_class_and_its_words() {
        let error = |error| HostError::Kernel { call: "mmap", error };
        for (errno, class) in [
            (Errno::NOMEM, Class::OutOfMemory),
            (Errno::NOSPC, Class::OutOfMemory),
            (Errno::MFILE, Class::OutOfMemory),
            (Errno::AGAIN, Class::Transient),
            (Errno::NOSYS, Class::Unsupported),
            (Errno::INVAL, Class::Misuse),
        ] {
            assert_eq!(error(errno).class(), class, "{errno:?}");
        }
        assert!(error(Errno::NOMEM).to_string().starts_with("mmap: Cannot allocate memory"));
    }
}
