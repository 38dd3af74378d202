//! A second attempt, for calls in destructors.

use crate::error::CudaError;

/// Repeats a failed call once. A failed call has changed nothing and may succeed when repeated.
pub(crate) fn retry_once<T>(call: impl Fn() -> Result<T, CudaError>) -> Result<T, CudaError> {
    call().or_else(|_| call())
}
