//! Linear memory, `cuMemAlloc`: here a reservation with one mapping, so of whole pages of 2 MiB. A
//! real driver puts small blocks together.

use std::sync::{Mutex, PoisonError};

use super::{AccessDesc, GRANULARITY, Location, create, free, map, release, reserve, set_access};
use crate::handles::Table;
use crate::{Done, codes};

/// Blocks by their addresses: their lengths.
static BLOCKS: Mutex<Table<u64>> = Mutex::new(Table::new());

/// A new block of a device. "If bytesize is 0, cuMemAlloc() returns `CUDA_ERROR_INVALID_VALUE`."
pub(crate) fn allocate(device: i32, bytes: u64) -> Result<u64, u32> {
    if bytes == 0 {
        return Err(codes::INVALID_VALUE);
    }
    let len = bytes.checked_next_multiple_of(GRANULARITY).ok_or(codes::OUT_OF_MEMORY)?;
    let memory = create(len, false)?;
    let block = reserve(len, 0).and_then(|start| {
        let access = AccessDesc { location: Location { kind: 1, id: device }, flags: 3 };
        map(start, len, memory).and_then(|()| set_access(start, len, Some(&access)))?;
        Ok(start)
    });
    // The mapping keeps it.
    release(memory)?;
    let start = block?;
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    blocks.insert(start as usize, len);
    Ok(start)
}

/// Gives a block back. Nothing uses it any more.
pub(crate) fn deallocate(start: u64) -> Done {
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let len = blocks.remove(&(start as usize)).ok_or(codes::INVALID_VALUE)?;
    super::unmap(start, len)?;
    free(start, len)
}
