//! Names and descriptions of result codes.

use std::ffi::{CStr, c_char};

use crate::{Done, codes};

/// A code, its name, and what it means.
const KNOWN: [(u32, &CStr, &CStr); 10] = [
    (0, c"CUDA_SUCCESS", c"no error"),
    (codes::INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (codes::OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (codes::NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (codes::NO_DEVICE, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (codes::INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (codes::OPERATING_SYSTEM, c"CUDA_ERROR_OPERATING_SYSTEM", c"OS call failed"),
    (codes::INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (codes::NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (
        codes::ILLEGAL_ADDRESS,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"an illegal memory access was encountered",
    ),
];

fn find(code: u32) -> Option<&'static (u32, &'static CStr, &'static CStr)> {
    KNOWN.iter().find(|known| known.0 == code)
}

pub(crate) fn name(code: u32) -> *const c_char {
    find(code).map_or(std::ptr::null(), |known| known.1.as_ptr())
}

pub(crate) fn text(code: u32) -> *const c_char {
    find(code).map_or(std::ptr::null(), |known| known.2.as_ptr())
}

/// "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned."
pub(crate) fn known(code: u32) -> Done {
    find(code).map(drop).ok_or(codes::INVALID_VALUE)
}
