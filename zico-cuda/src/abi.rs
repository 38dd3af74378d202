//! The binary interface of the CUDA driver: types and constants that this crate uses.
//!
//! The declarations are our own, because those of a binding follow one version of CUDA. Result
//! codes are plain numbers, since a newer driver may return codes that an enum does not have. The
//! structures are those that every driver with virtual memory management reads. From `cuda.h`.

use std::mem::{offset_of, size_of};

/// `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`: an opaque pointer of the driver.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Opaque(pub(crate) usize);

/// `CUDA_SUCCESS`
pub(crate) const SUCCESS: u32 = 0;
/// `CUDA_ERROR_NOT_READY`
pub(crate) const NOT_READY: u32 = 600;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`
pub(crate) const COMPUTE_MAJOR: i32 = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`
pub(crate) const COMPUTE_MINOR: i32 = 76;
/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`
pub(crate) const VIRTUAL_MEMORY: i32 = 102;
/// `CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED`
pub(crate) const FILE_DESCRIPTORS: i32 = 103;

/// `CU_STREAM_NON_BLOCKING`: the stream does not synchronise with the default stream.
pub(crate) const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
pub(crate) const NO_TIMING: u32 = 2;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`
pub(crate) const GRANULARITY_MINIMUM: u32 = 0;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
pub(crate) const POSIX_FILE_DESCRIPTOR: u32 = 1;

const TYPE_PINNED: u32 = 1;
const LOCATION_DEVICE: u32 = 1;
const READ_WRITE: u32 = 3;

/// `CUmemLocation`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    kind: u32,
    id: i32,
}

/// `CUmemAllocationProp`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationProp {
    kind: u32,
    requested_handle_types: u32,
    location: Location,
    win32_handle_meta_data: usize,
    /// Compression, RDMA, usage, reserved: all zero.
    flags: [u8; 8],
}

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessDesc {
    location: Location,
    flags: u32,
}

const _: () = {
    assert!(size_of::<Opaque>() == size_of::<*mut ()>());
    assert!(size_of::<Location>() == 8);
    assert!(size_of::<AllocationProp>() == 32);
    assert!(offset_of!(AllocationProp, requested_handle_types) == 4);
    assert!(offset_of!(AllocationProp, location) == 8);
    assert!(offset_of!(AllocationProp, win32_handle_meta_data) == 16);
    assert!(offset_of!(AllocationProp, flags) == 24);
    assert!(size_of::<AccessDesc>() == 12);
    assert!(offset_of!(AccessDesc, flags) == 8);
};

impl AllocationProp {
    /// Memory of a device, which can be handed to other processes if it is `shareable`.
    pub(crate) const fn on(device: i32, shareable: bool) -> Self {
        Self {
            kind: TYPE_PINNED,
            requested_handle_types: if shareable { POSIX_FILE_DESCRIPTOR } else { 0 },
            location: Location { kind: LOCATION_DEVICE, id: device },
            win32_handle_meta_data: 0,
            flags: [0; 8],
        }
    }
}

impl AccessDesc {
    /// Read and write access for a device.
    pub(crate) const fn of(device: i32) -> Self {
        Self { location: Location { kind: LOCATION_DEVICE, id: device }, flags: READ_WRITE }
    }
}

#[cfg(test)]
mod tests {
    use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

    use super::*;

    /// The bindings of one CUDA version, to check these declarations against.
    #[test]
    fn it_is_what_cudarc_has_from_nvidias_header() {
        assert_eq!(size_of::<AllocationProp>(), size_of::<sys::CUmemAllocationProp>());
        assert_eq!(size_of::<AccessDesc>(), size_of::<sys::CUmemAccessDesc>());
        for (ours, theirs) in [
            (COMPUTE_MAJOR, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            (COMPUTE_MINOR, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            (VIRTUAL_MEMORY, Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
            (
                FILE_DESCRIPTORS,
                Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
            ),
        ] {
            assert_eq!(ours, theirs as i32);
        }
        assert_eq!(NOT_READY, sys::CUresult::CUDA_ERROR_NOT_READY as u32);
        assert_eq!(NON_BLOCKING, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32);
        assert_eq!(NO_TIMING, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32);
        assert_eq!(TYPE_PINNED, sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED as u32);
        assert_eq!(LOCATION_DEVICE, sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as u32);
        let all = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        assert_eq!(READ_WRITE, all as u32);
        let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        assert_eq!(GRANULARITY_MINIMUM, minimum as u32);
        let descriptor = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        assert_eq!(POSIX_FILE_DESCRIPTOR, descriptor.0);
    }
}
