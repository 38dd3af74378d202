//! Memory shared between processes by file descriptors.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use zico_core::{Bytes, Device};

use crate::abi::POSIX_FILE_DESCRIPTOR;
use crate::device::{CudaDevice, CudaMemory};
use crate::driver::Driver;
use crate::error::CudaError;

/// A device whose physical memory can be handed to other processes.
///
/// The memory exists until every process has unmapped and destroyed it and every descriptor is
/// closed. The caller has to order the processes' work on it.
pub trait Share: Device {
    /// A descriptor for a piece of memory, to be sent to another process: as a standard stream of a
    /// child, or over a Unix socket.
    ///
    /// # Errors
    /// If the device's memory cannot be exported, or the driver refuses.
    fn export(&self, memory: &Self::Memory) -> Result<OwnedFd, Self::Error>;

    /// The memory of `len` bytes behind a descriptor that another process has exported. A
    /// descriptor does not carry the length; the sender has to pass it.
    ///
    /// # Errors
    /// If the descriptor is none, or the device refuses. That the length is another one is noticed
    /// when the memory is mapped.
    fn import(&self, descriptor: BorrowedFd<'_>, len: Bytes) -> Result<Self::Memory, Self::Error>;
}

impl Share for CudaDevice {
    fn export(&self, memory: &CudaMemory) -> Result<OwnedFd, CudaError> {
        if !self.is_shareable() {
            return Err(CudaError::NotShareable);
        }
        let handle = self.handle(memory)?;
        let _entered = self.enter()?;
        let mut descriptor: i32 = -1;
        let out = (&raw mut descriptor).cast::<c_void>();
        // SAFETY: for this kind the pointer is to a descriptor; the flags have to be zero.
        unsafe { self.inner.context.driver.export(out, handle, POSIX_FILE_DESCRIPTOR, 0) }?;
        // SAFETY: the driver has opened the descriptor for the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    fn import(&self, descriptor: BorrowedFd<'_>, len: Bytes) -> Result<CudaMemory, CudaError> {
        self.check_length(len)?;
        let _entered = self.enter()?;
        let handle = import(self.inner.context.driver, descriptor)?;
        Ok(self.enter_memory(handle, len))
    }
}

/// The driver's handle of the memory behind a descriptor.
pub(crate) fn import(driver: &Driver, descriptor: BorrowedFd<'_>) -> Result<u64, CudaError> {
    // A program may have the memory as its standard input: descriptor 0, which is a null pointer
    // to the driver. Another descriptor of the same memory is not.
    let is_null = descriptor.as_raw_fd() == 0;
    let other = is_null.then(|| descriptor.try_clone_to_owned().ok()).flatten();
    let passed = other.as_ref().map_or(descriptor.as_raw_fd(), AsRawFd::as_raw_fd);
    let raw = usize::try_from(passed).unwrap_or(usize::MAX);
    let shareable = std::ptr::without_provenance_mut::<c_void>(raw);
    let mut handle = 0;
    // SAFETY: for this kind the descriptor itself is passed in place of the pointer, and stays the
    // caller's; the other pointer is to a handle.
    unsafe { driver.import(&raw mut handle, shareable, POSIX_FILE_DESCRIPTOR) }?;
    Ok(handle)
}
