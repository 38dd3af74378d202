//! Pieces of physical memory: sealed files in memory.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{
    FallocateFlags, FileType, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals,
    fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zico_core::Bytes;

use super::error::HostError;

/// Without these another process could change the size of the file, and whoever touches a page that
/// is gone gets a signal; and it could add seals.
const NEEDED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// With these it could not be mapped for writing.
const REFUSED: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

/// Lets this process open as many descriptors as it may: the soft limit becomes the hard one.
/// Returns how many that are. A pool on a [`HostDevice`](super::HostDevice) takes one for each
/// region.
///
/// The limit counts for the whole process and its children; a program that uses `select` with
/// descriptors beyond 1024 should not. So no device does it by itself.
///
/// # Errors
/// If the kernel refuses.
pub fn raise_descriptor_limit() -> Result<u64, HostError> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)
        .map_err(|error| HostError::Kernel { call: "setrlimit", error })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// What the files are called, for the kernel's lists.
pub(super) const NAME: &str = "zico";

/// A new piece of memory of `len` bytes, all of them allocated.
pub(super) fn create(len: Bytes) -> Result<OwnedFd, HostError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(NAME, flags).map_err(|error| match error {
        Errno::MFILE => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            HostError::TooManyDescriptors { limit }
        }
        error => HostError::Kernel { call: "memfd_create", error },
    })?;
    let refused = |call| move |error| HostError::Kernel { call, error };
    ftruncate(&file, len.value()).map_err(refused("ftruncate"))?;
    allocate(&file, len).map_err(refused("fallocate"))?;
    fcntl_add_seals(&file, NEEDED).map_err(refused("fcntl(F_ADD_SEALS)"))?;
    Ok(file)
}

/// Allocates all pages of a file. A signal may cut that short; what has been done need not be done
/// again.
fn allocate(file: &OwnedFd, len: Bytes) -> Result<(), Errno> {
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, len.value()) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// A descriptor of our own for a piece of memory of `len` bytes that another process has sent.
pub(super) fn import(descriptor: BorrowedFd<'_>, len: Bytes) -> Result<OwnedFd, HostError> {
    let refused = |call| move |error| HostError::Kernel { call, error };
    let stat = fstat(descriptor).map_err(refused("fstat"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(HostError::NotMemory { mode: stat.st_mode });
    }
    // Files on a disk have no seals.
    let seals = fcntl_get_seals(descriptor).map_err(|error| match error {
        Errno::INVAL => HostError::NotMemory { mode: stat.st_mode },
        error => HostError::Kernel { call: "fcntl(F_GET_SEALS)", error },
    })?;
    if !seals.contains(NEEDED) || seals.intersects(REFUSED) {
        let (needed, refused) = (NEEDED.bits(), REFUSED.bits());
        return Err(HostError::WrongSeals { found: seals.bits(), needed, refused });
    }
    // After the seals: now it cannot change any more.
    let stat = fstat(descriptor).map_err(refused("fstat"))?;
    let found = u64::try_from(stat.st_size).unwrap_or(0);
    if found != len.value() {
        return Err(HostError::WrongLength { expected: len.value(), found });
    }
    duplicate(descriptor)
}

/// Another descriptor for the same memory.
pub(super) fn duplicate(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, HostError> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, 0)
        .map_err(|error| HostError::Kernel { call: "fcntl(F_DUPFD_CLOEXEC)", error })
}
