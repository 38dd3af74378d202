//! The CUDA backend of zico: not built yet.
//!
//! This crate will implement [`zico_core::Device`] over the CUDA driver's virtual memory management
//! (`cuMemCreate`, `cuMemMap`, events), loaded at run time, so that it builds and tests on machines
//! without CUDA. Until then [`open`] says so. The mock device of `zico-mock` keeps the same contract
//! and runs everything else.

#![deny(unsafe_code)]

use zico_core::{Class, DeviceError};

/// What goes wrong with a CUDA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// This version of zico has no CUDA backend.
    #[error("this version of zico has no CUDA backend yet; the mock device runs everywhere")]
    NotBuilt,
}

impl DeviceError for CudaError {
    fn class(&self) -> Class {
        match self {
            Self::NotBuilt => Class::Unsupported,
        }
    }
}

/// Opens the CUDA device with this ordinal.
///
/// # Errors
/// [`CudaError::NotBuilt`], always, in this version.
pub const fn open(_ordinal: u32) -> Result<core::convert::Infallible, CudaError> {
    Err(CudaError::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_that_it_is_not_there() {
        let error = open(0).unwrap_err();
        assert_eq!(error.class(), Class::Unsupported);
        assert!(error.to_string().contains("no CUDA backend yet"));
    }
}
