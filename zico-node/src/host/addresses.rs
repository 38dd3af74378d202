//! The calls of the kernel on addresses.
//!
//! The unsafe part of a host device. What makes it sound: addresses are reserved before anything is
//! mapped at them, a mapping is only ever put over addresses of a reservation of ours, and nothing
//! in Rust refers to memory there: to the device and to the core, addresses are numbers.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Addresses without memory: no access, nothing set aside for them.
const RESERVED: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

/// A length or an address as the kernel takes it. On 64-bit systems nothing is lost; elsewhere
/// the kernel refuses what does not fit.
fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn pointer(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(size(address))
}

/// Reserves `len` bytes of addresses that begin at a multiple of `align`: both multiples of a page,
/// `align` a power of two, and their sum does not overflow.
pub(super) fn reserve(len: u64, align: u64) -> Result<u64, Errno> {
    let longer = len.saturating_add(align);
    // SAFETY: the kernel chooses addresses that nobody uses.
    let found =
        unsafe { mmap_anonymous(ptr::null_mut(), size(longer), ProtFlags::empty(), RESERVED) }?;
    let start = found.expose_provenance() as u64;
    // It lies in what has been reserved, which is longer by `align`.
    let base = start.next_multiple_of(align);
    give_back(start, base - start);
    give_back(base + len, align - (base - start));
    Ok(base)
}

/// Gives addresses of a new reservation back. What the kernel does not take stays reserved, and
/// unused.
fn give_back(start: u64, len: u64) {
    if len > 0 {
        // The kernel refuses only if it has no memory for the rest of the reservation's books.
        let _ = release(start, len);
    }
}

/// Gives reserved addresses back, and whatever is mapped there.
pub(super) fn release(start: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: the addresses are those of a reservation of ours, and nothing in Rust refers to them.
    unsafe { munmap(pointer(start), size(len)) }
}

/// Maps a file of `len` bytes at reserved addresses, readable and writable. On an error the file
/// may be mapped there: the addresses are to be [unmapped](unmap).
///
/// All its pages are mapped at once: what a job leases it is about to use, and a fault for each
/// page takes longer (64 KiB mapped, touched and unmapped: 36 us with faults, 21 us without).
pub(super) fn map(start: u64, len: u64, file: BorrowedFd<'_>) -> Result<(), Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
    // SAFETY: the addresses are those of a reservation of ours where nothing is mapped, as the
    // registry says. The file's size is sealed, so that all of it can be touched.
    if let Err(error) = unsafe { mmap(pointer(start), size(len), access, flags, file, 0) } {
        mend(start, len);
        return Err(error);
    }
    // SAFETY: this mapping has just been made. A fork in another thread between the two calls still
    // inherits it; children are not to use a parent's memory in any case.
    unsafe { madvise(pointer(start), size(len), Advice::LinuxDontFork) }
}

/// Puts reserved addresses in place of whole mappings.
pub(super) fn unmap(start: u64, len: u64) -> Result<(), Errno> {
    let flags = RESERVED | MapFlags::FIXED;
    // SAFETY: the addresses are those of a reservation of ours, and nothing in Rust refers to what
    // is mapped there.
    match unsafe { mmap_anonymous(pointer(start), size(len), ProtFlags::empty(), flags) } {
        Ok(_) => Ok(()),
        Err(error) => {
            mend(start, len);
            Err(error)
        }
    }
}

/// A kernel may lose what was mapped before when it runs out of memory on the way to map something
/// else there. The addresses are reserved again where that happened, before somebody else gets
/// them; where it did not, this is refused.
fn mend(start: u64, len: u64) {
    let flags = RESERVED | MapFlags::FIXED_NOREPLACE;
    // SAFETY: nothing is replaced.
    let _ = unsafe { mmap_anonymous(pointer(start), size(len), ProtFlags::empty(), flags) };
}
