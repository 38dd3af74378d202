//! Memory of the host that the device reaches by itself: "page-locked". Copies from and to other
//! memory of the host are over when their call returns.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::{Done, codes};

/// Blocks by their first addresses: their lengths.
static BLOCKS: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// A new block, zeroed, of whole pages of the host.
pub(crate) fn pin(bytes: u64) -> Result<u64, u32> {
    if bytes == 0 {
        return Err(codes::INVALID_VALUE);
    }
    let len = bytes.checked_next_multiple_of(4096).ok_or(codes::OUT_OF_MEMORY)?;
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, at addresses of the system's choice.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len as usize, access, flags) };
    let start = start.map_err(|_| codes::OUT_OF_MEMORY)? as u64;
    blocks().insert(start, len);
    Ok(start)
}

/// Gives a block back. Nothing uses it any more.
pub(crate) fn unpin(start: u64) -> Done {
    let len = blocks().remove(&start).ok_or(codes::INVALID_VALUE)?;
    // SAFETY: a mapping of `pin`, which its owner gives up.
    unsafe { munmap(start as *mut c_void, len as usize) }.map_err(|_| codes::OPERATING_SYSTEM)
}

/// Whether an address lies in one.
pub(crate) fn is_pinned(address: u64) -> bool {
    let blocks = blocks();
    let block = blocks.range(..=address).next_back();
    block.is_some_and(|(&start, &len)| address - start < len)
}

/// How many there are.
pub(crate) fn pinned() -> usize {
    blocks().len()
}

fn blocks() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}
