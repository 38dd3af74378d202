//! Errors of a CUDA device.

use std::fmt;

use zico_core::{Addr, Bytes, Class, DeviceError};

/// The version of CUDA that a driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverVersion {
    /// 12 of 12.4.
    pub major: u32,
    /// 4 of 12.4.
    pub minor: u32,
}

impl DriverVersion {
    /// As the driver says it: 1000 times the major version and 10 times the minor one.
    pub(crate) fn new(version: i32) -> Self {
        let version = u32::try_from(version).unwrap_or(0);
        Self { major: version / 1000, minor: version % 1000 / 10 }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// An error of a CUDA device: a result code of the driver, or a breach of the contract of
/// [`Device`](zico_core::Device) found before the driver is called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library cannot be loaded.
    #[error("no CUDA driver: libcuda.so cannot be loaded (is the NVIDIA driver installed?)")]
    NoDriver,
    /// The driver has no virtual memory management.
    #[error(
        "the CUDA driver is too old: zico needs CUDA 11.0 or later, and it has no {symbol}{}",
        .version.map_or_else(String::new, |version| format!("; it supports CUDA {version}"))
    )]
    DriverTooOld {
        /// The first function that is missing.
        symbol: &'static str,
        /// The CUDA version that the driver supports, if it says so.
        version: Option<DriverVersion>,
    },
    /// The driver's device file is there, and may not be opened.
    #[error("no permission for {path}: the CUDA driver cannot be used by this user")]
    NoPermission {
        /// The file.
        path: &'static str,
    },
    /// There is no device of that number.
    #[error("there is no CUDA device {ordinal}: the driver has {count}, counted from 0")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The device has no virtual memory management.
    #[error("the device has no virtual memory management (some vGPU and older devices have not)")]
    NoVirtualMemory,
    /// The driver refused a call.
    #[error("{call}: {name} ({code}): {text}")]
    Driver {
        /// The function.
        call: &'static str,
        /// Its result.
        code: u32,
        /// Its name in CUDA.
        name: &'static str,
        /// Its description by CUDA.
        text: &'static str,
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
    /// A handle belongs to another device, or its stream has been closed.
    #[error("the {what} is none of this device's")]
    Foreign {
        /// What kind of handle.
        what: &'static str,
    },
    /// The memory cannot be exported: the device was opened without
    /// [`shareable`](crate::Options::shareable), or cannot do it.
    #[error("the device's memory was not made to be shared with other processes")]
    NotShareable,
}

impl DeviceError for CudaError {
    fn class(&self) -> Class {
        match self {
            Self::NoDriver
            | Self::DriverTooOld { .. }
            | Self::NoPermission { .. }
            | Self::NoSuchDevice { .. }
            | Self::NoVirtualMemory
            | Self::NotShareable => Class::Unsupported,
            Self::Driver { code, .. } => class_of(*code),
            Self::BadSize { .. }
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

/// The class of a `CUresult`, by its description in `cuda.h`. A code that is not listed, or whose
/// description does not say how to recover, counts as a lost device.
fn class_of(code: u32) -> Class {
    match code {
        // OUT_OF_MEMORY
        2 => Class::OutOfMemory,
        // INVALID_VALUE, INVALID_DEVICE, INVALID_IMAGE, INVALID_CONTEXT, INVALID_SOURCE,
        // INVALID_HANDLE, ILLEGAL_STATE, NOT_FOUND, all about stream capture
        1 | 101 | 200 | 201 | 300 | 400 | 401 | 500 | 900..=908 => Class::Misuse,
        // STUB_LIBRARY, CALL_REQUIRES_NEWER_DRIVER, NO_DEVICE, DEVICE_NOT_LICENSED,
        // NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION,
        // JIT_COMPILATION_DISABLED, NOT_PERMITTED, NOT_SUPPORTED, SYSTEM_DRIVER_MISMATCH,
        // COMPAT_NOT_SUPPORTED_ON_DEVICE
        34 | 36 | 100 | 102 | 209 | 218 | 221..=223 | 800 | 801 | 803 | 804 => Class::Unsupported,
        // MAP_FAILED, UNMAP_FAILED, OPERATING_SYSTEM, NOT_READY, LAUNCH_OUT_OF_RESOURCES,
        // SYSTEM_NOT_READY, MPS_SERVER_NOT_READY, MPS_MAX_CLIENTS_REACHED,
        // MPS_MAX_CONNECTIONS_REACHED, TIMEOUT
        205 | 206 | 304 | 600 | 701 | 802 | 807..=809 | 909 => Class::Transient,
        _ => Class::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_error_is_classed_by_its_code_and_says_all() {
        let error = |code| CudaError::Driver { call: "cuMemMap", code, name: "NAME", text: "text" };
        for (code, class) in [
            (2, Class::OutOfMemory),
            (1, Class::Misuse),
            (801, Class::Unsupported),
            (304, Class::Transient),
            (700, Class::Lost),
            (719, Class::Lost),
            (999, Class::Lost),
            (123_456, Class::Lost),
        ] {
            assert_eq!(error(code).class(), class, "{code}");
        }
        assert_eq!(error(2).to_string(), "cuMemMap: NAME (2): text");
    }

    #[test]
    fn an_old_driver_is_told_from_a_missing_one() {
        let version = Some(DriverVersion::new(10_010));
        let error = CudaError::DriverTooOld { symbol: "cuMemCreate", version };
        let text = error.to_string();
        assert!(text.contains("too old") && text.contains("cuMemCreate"), "{text}");
        assert!(text.ends_with("it supports CUDA 10.1"), "{text}");
        assert!(CudaError::NoDriver.to_string().contains("no CUDA driver"));
    }
}
