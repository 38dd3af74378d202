//! Events and their reuse.
//!
//! A pool records an event for each batch of freed memory, so creating and destroying one each time
//! would be two more driver calls. An unused event can be recorded again: a stream that was told to
//! wait for it waits for the work captured at that time ("uses the most recently captured state at
//! the time of the API call": `cuEventRecord` in the driver's documentation).

use std::fmt;
use std::sync::Arc;

use crate::abi::{NO_TIMING, NOT_READY, Opaque};
use crate::context::Context;
use crate::error::CudaError;
use crate::inner::Inner;

/// A point in a stream's queue.
pub struct CudaEvent {
    pub(crate) inner: Arc<Inner>,
    pub(crate) raw: Opaque,
}

impl fmt::Debug for CudaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaEvent").finish_non_exhaustive()
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        self.inner.spare_events().push(self.raw);
    }
}

/// A reused or new event. The context is current.
pub(crate) fn take(inner: &Arc<Inner>, context: &Context) -> Result<CudaEvent, CudaError> {
    let spare = inner.spare_events().pop();
    let raw = match spare {
        Some(raw) => raw,
        None => {
            let mut raw = Opaque::default();
            // SAFETY: the pointer is to an event handle.
            unsafe { context.driver.event_create(&raw mut raw, NO_TIMING) }?;
            raw
        }
    };
    Ok(CudaEvent { inner: inner.clone(), raw })
}

/// Whether an event of this context has passed. The context is current.
pub(crate) fn has_passed(context: &Context, event: &CudaEvent) -> Result<bool, CudaError> {
    // SAFETY: the event is live: it is destroyed only after all `CudaEvent`s are gone.
    match unsafe { context.driver.event_query(event.raw) } {
        Ok(()) => Ok(true),
        Err(CudaError::Driver { code: NOT_READY, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
