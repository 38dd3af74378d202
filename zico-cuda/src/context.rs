//! The context that calls are made in.
//!
//! The driver keeps, for each thread, a stack of contexts; calls are made in the one on top. Each
//! call of this crate leaves the stack as it found it: if our context is not on top, it is pushed
//! for the time of the call. A runtime that uses the same device usually has the same (primary)
//! context current, and entering is then one read of thread-local data.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::abi::Opaque;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::retry::retry_once;

pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    /// The driver's number of the device.
    pub(crate) device: i32,
    raw: Opaque,
    owner: Owner,
}

/// Who destroys the context.
enum Owner {
    /// The driver, when all who retained the device's primary context have released it.
    Primary,
    /// `cudarc`, when the last handle on it is gone.
    Cudarc(#[expect(dead_code, reason = "kept alive")] Arc<cudarc::driver::CudaContext>),
}

impl Context {
    /// The primary context of a device.
    pub(crate) fn primary(driver: &'static Driver, device: i32) -> Result<Self, CudaError> {
        let mut raw = Opaque::default();
        // SAFETY: the pointer is to a context handle; the device's number is checked.
        unsafe { driver.primary_retain(&raw mut raw, device) }?;
        Ok(Self { driver, device, raw, owner: Owner::Primary })
    }

    /// A context that `cudarc` has made.
    pub(crate) fn lent(driver: &'static Driver, context: Arc<cudarc::driver::CudaContext>) -> Self {
        let raw = Opaque(context.cu_ctx() as usize);
        Self { driver, device: context.cu_device(), raw, owner: Owner::Cudarc(context) }
    }

    /// Whether it is the same as one of `cudarc`'s.
    pub(crate) fn is(&self, other: &cudarc::driver::CudaContext) -> bool {
        self.raw == Opaque(other.cu_ctx() as usize)
    }

    /// Makes the context current in this thread until the guard goes.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>, CudaError> {
        let mut current = Opaque::default();
        // SAFETY: the pointer is to a context handle.
        unsafe { self.driver.current(&raw mut current) }?;
        let pushed = current != self.raw;
        if pushed {
            // SAFETY: the context lives as long as this value, and so longer than the guard.
            unsafe { self.driver.push_current(self.raw) }?;
        }
        Ok(Entered { driver: self.driver, pushed, context: PhantomData })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Primary) {
            // SAFETY: it was retained once by `primary`, and is released once. There is no caller
            // left to report an error to.
            let _ = retry_once(|| unsafe { self.driver.primary_release(self.device) });
        }
    }
}

/// The context is current in this thread.
pub(crate) struct Entered<'c> {
    driver: &'static Driver,
    pushed: bool,
    /// Not `Send`: each thread has a stack of its own.
    context: PhantomData<(&'c Context, *const ())>,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = Opaque::default();
            // SAFETY: the pointer is to a context handle. The one that goes is the one that `enter`
            // pushed in this thread: guards end in the order opposite to that in which they began.
            // If the driver fails, ours stays current, and the next call finds it.
            let _ = unsafe { self.driver.pop_current(&raw mut popped) };
        }
    }
}
