//! Addresses, physical memory and mappings, all real: a reservation is inaccessible address space
//! of the process, an allocation is a file in memory, a mapping is a shared mapping of it.
//!
//! Semantics are those of "Virtual Memory Management" in the documentation of the driver API; the
//! sentences quoted below are from there.

mod access;
mod linear;
mod pinned;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

use crate::calls::setting;
use crate::contexts::check_device;
use crate::handles::{self, Table};
use crate::{Done, codes};

pub(crate) use access::{copy, fill, touch, touch_words};
pub(crate) use linear::{allocate, deallocate};
pub(crate) use pinned::{is_pinned, pin, pinned, unpin};

/// Minimal and recommended: 2 MiB, as on all GPUs with virtual memory management.
pub(crate) const GRANULARITY: u64 = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
pub(crate) const POSIX_FILE_DESCRIPTOR: u32 = 1;

/// `CUmemLocation`: a kind (1 is a device) and which one.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Location {
    kind: u32,
    id: i32,
}

/// `CUmemAllocationProp`
#[repr(C)]
#[derive(Debug)]
pub struct AllocationProp {
    kind: u32,
    requested_handle_types: u32,
    location: Location,
    win32_handle_meta_data: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Debug)]
pub struct AccessDesc {
    location: Location,
    flags: u32,
}

static CAPACITY: LazyLock<u64> = LazyLock::new(|| setting("ZICO_DRIVER_MEMORY", 1 << 30));
static UNSUPPORTED: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("ZICO_DRIVER_NO_VMM").is_some());
static UNALIGNED: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("ZICO_DRIVER_NO_ALIGNMENT").is_some());
/// Physical memory that exists: handles and mappings keep it.
static USED: AtomicU64 = AtomicU64::new(0);
static SPACE: Mutex<Space> = Mutex::new(Space::new());

struct Space {
    /// Reserved ranges: their first address and length.
    ranges: BTreeMap<u64, u64>,
    allocations: Table<Arc<Allocation>>,
    /// By their first address.
    mappings: BTreeMap<u64, Mapping>,
}

struct Mapping {
    len: u64,
    #[expect(dead_code, reason = "kept alive")]
    allocation: Arc<Allocation>,
    accessible: bool,
}

struct Allocation {
    file: OwnedFd,
    len: u64,
    shareable: bool,
    /// What it takes of the device's memory: nothing if it came from another process.
    counted: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        USED.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

pub(crate) fn is_unsupported() -> bool {
    *UNSUPPORTED
}

pub(crate) fn capacity() -> usize {
    usize::try_from(*CAPACITY).unwrap_or(usize::MAX)
}

pub(crate) fn used() -> usize {
    usize::try_from(USED.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
}

/// Ranges, handles of allocations, and mappings that there are.
pub(crate) fn counts() -> (usize, usize, usize) {
    let space = lock();
    (space.ranges.len(), space.allocations.len(), space.mappings.len())
}

/// Whether an address is one of the device's memory.
pub(crate) fn is_device(address: u64) -> bool {
    lock().is_accessible(address)
}

/// Whether memory of these properties is supported, and whether it can be exported.
pub(crate) fn check_prop(prop: Option<&AllocationProp>) -> Result<bool, u32> {
    if is_unsupported() {
        return Err(codes::NOT_SUPPORTED);
    }
    let prop = prop.ok_or(codes::INVALID_VALUE)?;
    check_location(&prop.location)?;
    let plain = prop.win32_handle_meta_data.is_null() && prop.flags == [0; 8];
    // CU_MEM_ALLOCATION_TYPE_PINNED
    if prop.kind != 1 || prop.requested_handle_types > POSIX_FILE_DESCRIPTOR || !plain {
        return Err(codes::INVALID_VALUE);
    }
    Ok(prop.requested_handle_types == POSIX_FILE_DESCRIPTOR)
}

/// "The size and address parameters must be a multiple of the host page size and the alignment must
/// be a power of two or zero for default alignment."
pub(crate) fn reserve(len: u64, align: u64) -> Result<u64, u32> {
    let valid = align == 0 || align.is_power_of_two();
    if len == 0 || !len.is_multiple_of(GRANULARITY) || !valid {
        return Err(codes::INVALID_VALUE);
    }
    let align = if *UNALIGNED { 2 * GRANULARITY } else { align.max(GRANULARITY) };
    let whole = len.checked_add(2 * align).ok_or(codes::OUT_OF_MEMORY)?;
    let size = usize::try_from(whole).map_err(|_| codes::OUT_OF_MEMORY)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, at addresses of the system's choice.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), size, ProtFlags::empty(), flags) };
    let start = start.map_err(|_| codes::OUT_OF_MEMORY)? as u64;
    let mut base = start.next_multiple_of(align);
    if *UNALIGNED {
        base += GRANULARITY;
    }
    cut(start, base - start)?;
    cut(base + len, start + whole - (base + len))?;
    lock().ranges.insert(base, len);
    Ok(base)
}

/// Gives address space of this module's back to the system.
fn cut(start: u64, len: u64) -> Done {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: the addresses are part of a mapping made by `reserve`, in which nothing is mapped
    // that the driver knows of.
    unsafe { munmap(start as *mut c_void, len as usize) }.map_err(|_| codes::OPERATING_SYSTEM)
}

/// "The size must match what was given to memAddressReserve and the ptr given must match what was
/// returned from memAddressReserve."
pub(crate) fn free(start: u64, len: u64) -> Done {
    let mut space = lock();
    if space.ranges.get(&start) != Some(&len) || space.mapped(start, len).next().is_some() {
        return Err(codes::INVALID_VALUE);
    }
    space.ranges.remove(&start);
    cut(start, len)
}

/// "The size of the generic allocation must be a multiple of the granularity."
pub(crate) fn create(len: u64, shareable: bool) -> Result<u64, u32> {
    if len == 0 || !len.is_multiple_of(GRANULARITY) {
        return Err(codes::INVALID_VALUE);
    }
    let mut space = lock();
    if USED.load(Ordering::Relaxed).checked_add(len).is_none_or(|used| used > *CAPACITY) {
        return Err(codes::OUT_OF_MEMORY);
    }
    let file = memfd_create("zico test driver", MemfdFlags::CLOEXEC);
    let file = file.map_err(|_| codes::OPERATING_SYSTEM)?;
    ftruncate(&file, len).map_err(|_| codes::OPERATING_SYSTEM)?;
    USED.fetch_add(len, Ordering::Relaxed);
    Ok(space.enter(Allocation { file, len, shareable, counted: len }))
}

/// "Frees the memory that was allocated on a device through cuMemCreate. The memory allocation will
/// be freed when all outstanding mappings to the memory are unmapped and when all outstanding
/// references to the handle (including it's shareable counterparts) are also released."
pub(crate) fn release(handle: u64) -> Done {
    let handle = usize::try_from(handle).map_err(|_| codes::INVALID_VALUE)?;
    lock().allocations.remove(&handle).map(drop).ok_or(codes::INVALID_VALUE)
}

/// "This range must be an address reservation previously reserved with cuMemAddressReserve, and
/// offset + size must be less than the size of the memory allocation. Both ptr, size, and offset
/// must be a multiple of the value given via cuMemGetAllocationGranularity." One mapping per
/// address.
pub(crate) fn map(start: u64, len: u64, handle: u64) -> Done {
    let mut space = lock();
    let allocation = space.allocation(handle)?;
    let whole = len > 0 && len.is_multiple_of(GRANULARITY) && start.is_multiple_of(GRANULARITY);
    let free = space.mapped(start, len).next().is_none();
    if !whole || len > allocation.len || !free || !space.is_reserved(start, len) {
        return Err(codes::INVALID_VALUE);
    }
    // SAFETY: the addresses are reserved by this driver and nothing is mapped there.
    let mapped = unsafe {
        let (at, flags) = (start as *mut c_void, MapFlags::SHARED | MapFlags::FIXED);
        mmap(at, len as usize, ProtFlags::empty(), flags, &allocation.file, 0)
    };
    mapped.map_err(|_| codes::OPERATING_SYSTEM)?;
    space.mappings.insert(start, Mapping { len, allocation, accessible: false });
    Ok(())
}

/// "The range must be a fully mapped address range containing all allocations created by cuMemMap /
/// cuMemCreate."
pub(crate) fn set_access(start: u64, len: u64, access: Option<&AccessDesc>) -> Done {
    let access = access.ok_or(codes::INVALID_VALUE)?;
    check_location(&access.location)?;
    // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    if access.flags != 3 {
        return Err(codes::INVALID_VALUE);
    }
    let mut space = lock();
    space.check_whole(start, len)?;
    let flags = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the addresses are those of mappings of this driver's.
    let done = unsafe { mprotect(start as *mut c_void, len as usize, flags) };
    done.map_err(|_| codes::OPERATING_SYSTEM)?;
    for (_, mapping) in space.mappings.range_mut(start..start + len) {
        mapping.accessible = true;
    }
    Ok(())
}

/// "The range must be the entire contiguous address range that was mapped to. In other words,
/// cuMemUnmap cannot unmap a sub-range of an address range mapped by cuMemCreate / cuMemMap."
/// Several mappings side by side go in one call, as in NVIDIA's sample `vectorAddMMAP`.
pub(crate) fn unmap(start: u64, len: u64) -> Done {
    let mut space = lock();
    space.check_whole(start, len)?;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the addresses are those of mappings of this driver's; they stay reserved.
    let done =
        unsafe { mmap_anonymous(start as *mut c_void, len as usize, ProtFlags::empty(), flags) };
    done.map_err(|_| codes::OPERATING_SYSTEM)?;
    let gone: Vec<u64> = space.mapped(start, len).map(|(&start, _)| start).collect();
    for start in gone {
        space.mappings.remove(&start);
    }
    Ok(())
}

/// A new descriptor for memory that was made to have one.
pub(crate) fn export(handle: u64) -> Result<i32, u32> {
    let allocation = lock().allocation(handle)?;
    if !allocation.shareable {
        return Err(codes::INVALID_VALUE);
    }
    let copy = allocation.file.try_clone().map_err(|_| codes::OPERATING_SYSTEM)?;
    Ok(copy.into_raw_fd())
}

/// The memory behind a descriptor, which stays the caller's.
pub(crate) fn import(descriptor: i32) -> Result<u64, u32> {
    if descriptor < 0 {
        return Err(codes::INVALID_VALUE);
    }
    // SAFETY: the caller says that it is open; it is used before this returns.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let file = descriptor.try_clone_to_owned().map_err(|_| codes::INVALID_VALUE)?;
    let len = u64::try_from(fstat(&file).map_err(|_| codes::INVALID_VALUE)?.st_size).unwrap_or(0);
    let ours = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if !ours.is_ok_and(|name| name.to_string_lossy().contains("zico test driver")) {
        return Err(codes::INVALID_VALUE);
    }
    Ok(lock().enter(Allocation { file, len, shareable: true, counted: 0 }))
}

fn lock() -> MutexGuard<'static, Space> {
    SPACE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_location(location: &Location) -> Done {
    // CU_MEM_LOCATION_TYPE_DEVICE
    if location.kind == 1 { check_device(location.id) } else { Err(codes::INVALID_VALUE) }
}

impl Space {
    const fn new() -> Self {
        Self { ranges: BTreeMap::new(), allocations: Table::new(), mappings: BTreeMap::new() }
    }

    fn enter(&mut self, allocation: Allocation) -> u64 {
        let handle = handles::new();
        self.allocations.insert(handle, Arc::new(allocation));
        handle as u64
    }

    fn allocation(&self, handle: u64) -> Result<Arc<Allocation>, u32> {
        let handle = usize::try_from(handle).map_err(|_| codes::INVALID_VALUE)?;
        self.allocations.get(&handle).cloned().ok_or(codes::INVALID_VALUE)
    }

    fn is_reserved(&self, start: u64, len: u64) -> bool {
        let range = self.ranges.range(..=start).next_back();
        let end = start.checked_add(len);
        range.is_some_and(|(&base, &all)| end.is_some_and(|end| end <= base + all))
    }

    /// The mappings that have a byte in common with the addresses.
    fn mapped(&self, start: u64, len: u64) -> impl Iterator<Item = (&u64, &Mapping)> {
        let end = start.saturating_add(len);
        let before = self.mappings.range(..start).next_back();
        let reaches = before.filter(|(first, mapping)| **first + mapping.len > start);
        reaches.into_iter().chain(self.mappings.range(start..end))
    }

    /// The addresses are exactly those of whole mappings.
    fn check_whole(&self, start: u64, len: u64) -> Done {
        let mut at = start;
        for (&first, mapping) in self.mapped(start, len) {
            if first != at {
                return Err(codes::INVALID_VALUE);
            }
            at += mapping.len;
        }
        if len > 0 && Some(at) == start.checked_add(len) {
            Ok(())
        } else {
            Err(codes::INVALID_VALUE)
        }
    }

    /// Whether the address is none of this driver's.
    fn is_foreign(&self, address: u64) -> bool {
        let range = self.ranges.range(..=address).next_back();
        range.is_none_or(|(&base, &len)| address - base >= len)
    }

    fn is_accessible(&self, address: u64) -> bool {
        self.mapped(address, 4).next().is_some_and(|(_, mapping)| mapping.accessible)
    }
}
