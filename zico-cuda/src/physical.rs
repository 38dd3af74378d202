//! A device's physical memory without a context: created, exported, destroyed, and mapped nowhere.
//!
//! `cuMemCreate` and `cuMemExportToShareableHandle` need an initialised driver and the number of a
//! device, and no context. A process that keeps memory for others so takes none of the device's
//! own: a context takes hundreds of megabytes.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zico_core::{Bytes, Caps, DeviceError, Refused};

use crate::abi::{AllocationProp, FILE_DESCRIPTORS, POSIX_FILE_DESCRIPTOR, VIRTUAL_MEMORY};
use crate::discover::{self, Uuid};
use crate::driver::Driver;
use crate::error::CudaError;
use crate::inner::size;
use crate::kept_open::KeptOpen;
use crate::retry::retry_once;
use crate::share::{self, Share};

/// Physical memory that is kept for other processes: what a [`Share`] device does without mapping
/// anything.
///
/// The contract of each call is that of [`Device`](zico_core::Device) and [`Share`].
pub trait Physical {
    /// A piece of physical memory.
    type Memory;
    /// Why a call fails.
    type Error: DeviceError;

    /// What the device is like.
    fn caps(&self) -> Caps;

    /// Allocates `len` bytes, a multiple of the granularity.
    ///
    /// # Errors
    /// If the device has no memory, or refuses.
    fn create(&self, len: Bytes) -> Result<Self::Memory, Self::Error>;

    /// Gives memory back. It exists until all other processes have given it back as well, and every
    /// descriptor is closed.
    ///
    /// # Errors
    /// If the device refuses; the memory is in the error then.
    fn destroy(&self, memory: Self::Memory) -> Result<(), Refused<Self::Memory, Self::Error>>;

    /// A descriptor for a piece of memory, to be sent to another process.
    ///
    /// # Errors
    /// If the memory cannot be exported, or the device refuses.
    fn export(&self, memory: &Self::Memory) -> Result<OwnedFd, Self::Error>;

    /// The memory of `len` bytes behind a descriptor that another process has exported.
    ///
    /// # Errors
    /// If the descriptor is none, or the device refuses.
    fn import(&self, descriptor: BorrowedFd<'_>, len: Bytes) -> Result<Self::Memory, Self::Error>;
}

impl<D: Share> Physical for D {
    type Memory = D::Memory;
    type Error = D::Error;

    fn caps(&self) -> Caps {
        zico_core::Device::caps(self)
    }

    fn create(&self, len: Bytes) -> Result<Self::Memory, Self::Error> {
        zico_core::Device::create(self, len)
    }

    fn destroy(&self, memory: Self::Memory) -> Result<(), Refused<Self::Memory, Self::Error>> {
        zico_core::Device::destroy(self, memory)
    }

    fn export(&self, memory: &Self::Memory) -> Result<OwnedFd, Self::Error> {
        Share::export(self, memory)
    }

    fn import(&self, descriptor: BorrowedFd<'_>, len: Bytes) -> Result<Self::Memory, Self::Error> {
        Share::import(self, descriptor, len)
    }
}

/// The physical memory of a CUDA device, in a process that has no context on it. All of it can be
/// exported.
///
/// What has not been destroyed is released when this is dropped.
pub struct CudaPhysical {
    driver: &'static Driver,
    /// The driver's number of the device.
    device: i32,
    id: u64,
    uuid: Uuid,
    caps: Caps,
    /// The driver's handles, by keys that are never used twice.
    handles: Mutex<Handles>,
    kept_open: KeptOpen,
}

#[derive(Default)]
struct Handles {
    live: BTreeMap<u64, u64>,
    next: u64,
}

/// A piece of memory of a [`CudaPhysical`].
#[derive(Debug)]
pub struct CudaPiece {
    device: u64,
    key: u64,
}

/// Tells handles of different devices apart, nothing else.
static DEVICES: AtomicU64 = AtomicU64::new(0);

impl CudaPhysical {
    /// The memory of the device with this number, counted from 0. Makes no context.
    ///
    /// # Errors
    /// If there is no driver, no such device, or one without virtual memory management whose memory
    /// can be exported.
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let driver = Driver::get()?;
        discover::start(driver)?;
        let device = discover::device(driver, ordinal)?;
        if driver.attribute(VIRTUAL_MEMORY, device)? == 0 {
            return Err(CudaError::NoVirtualMemory);
        }
        if driver.attribute(FILE_DESCRIPTORS, device)? == 0 {
            return Err(CudaError::NotShareable);
        }
        let granularity = discover::granularity(driver, device, true)?;
        let capacity = discover::memory(driver, device)?;
        Ok(Self {
            driver,
            device,
            id: DEVICES.fetch_add(1, Ordering::Relaxed),
            uuid: discover::uuid(driver, device)?,
            caps: Caps::new(granularity, capacity),
            handles: Mutex::default(),
            kept_open: KeptOpen::default(),
        })
    }

    /// Which device it is, however it is numbered.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// A poisoned lock is used: no panic can happen within an update.
    fn handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_length(&self, len: Bytes) -> Result<(), CudaError> {
        let granularity = self.caps.granularity;
        if len.is_zero() || !len.value().is_multiple_of(granularity.value()) {
            return Err(CudaError::BadSize { size: len, granularity });
        }
        Ok(())
    }

    /// Adds memory that the driver has a handle of to the books.
    fn enter(&self, handle: u64) -> CudaPiece {
        let mut handles = self.handles();
        let key = handles.next;
        handles.next += 1;
        handles.live.insert(key, handle);
        CudaPiece { device: self.id, key }
    }

    /// The driver's handle of memory.
    fn handle(&self, memory: &CudaPiece) -> Result<u64, CudaError> {
        let own = memory.device == self.id;
        let handle = self.handles().live.get(&memory.key).copied().filter(|_| own);
        handle.ok_or(CudaError::Foreign { what: "memory" })
    }
}

impl fmt::Debug for CudaPhysical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uuid, caps, .. } = self;
        f.debug_struct("CudaPhysical")
            .field("uuid", uuid)
            .field("caps", caps)
            .finish_non_exhaustive()
    }
}

impl Physical for CudaPhysical {
    type Memory = CudaPiece;
    type Error = CudaError;

    fn caps(&self) -> Caps {
        self.caps
    }

    fn create(&self, len: Bytes) -> Result<CudaPiece, CudaError> {
        self.check_length(len)?;
        let prop = AllocationProp::on(self.device, true);
        let mut handle = 0;
        // SAFETY: the pointers are to a handle and to properties of the driver's layout.
        unsafe { self.driver.create(&raw mut handle, size(len.value()), &raw const prop, 0) }?;
        Ok(self.enter(handle))
    }

    fn destroy(&self, memory: CudaPiece) -> Result<(), Refused<CudaPiece, CudaError>> {
        let destroyed = self.handle(&memory).and_then(|handle| {
            self.kept_open.close(memory.key);
            // SAFETY: the handle is live, and released once: only who has the piece, which is not
            // cloned, gets here, and the books drop it below.
            unsafe { self.driver.release(handle) }?;
            self.handles().live.remove(&memory.key);
            Ok(())
        });
        destroyed.map_err(|error| Refused { resource: memory, error })
    }

    fn export(&self, memory: &CudaPiece) -> Result<OwnedFd, CudaError> {
        let handle = self.handle(memory)?;
        let mut descriptor: i32 = -1;
        let out = (&raw mut descriptor).cast();
        // SAFETY: for this kind the pointer is to a descriptor; the flags have to be zero.
        unsafe { self.driver.export(out, handle, POSIX_FILE_DESCRIPTOR, 0) }?;
        // SAFETY: the driver has opened the descriptor for the caller.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        self.kept_open.exported(memory.key, descriptor.as_fd());
        Ok(descriptor)
    }

    fn import(&self, descriptor: BorrowedFd<'_>, len: Bytes) -> Result<CudaPiece, CudaError> {
        self.check_length(len)?;
        Ok(self.enter(share::import(self.driver, descriptor)?))
    }
}

impl Drop for CudaPhysical {
    fn drop(&mut self) {
        for handle in std::mem::take(&mut self.handles().live).into_values() {
            // SAFETY: the handle is live, and taken out of the books. There is no caller left to
            // report an error to.
            let _ = retry_once(|| unsafe { self.driver.release(handle) });
        }
    }
}
