//! The host memory that a device has.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zico_core::{Bytes, HostMemory};

use crate::abi::Opaque;
use crate::context::Context;
use crate::error::CudaError;
use crate::retry::retry_once;

/// The host memory that a device has, by numbers that are never used twice.
#[derive(Debug, Default)]
pub(crate) struct HostBlocks {
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    live: BTreeMap<u64, Block>,
    next: u64,
}

/// An address of the host, and so many bytes.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: Opaque,
    len: Bytes,
}

impl HostBlocks {
    /// A poisoned lock is used: no panic can happen within an update.
    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, start: Opaque, len: Bytes) -> HostMemory {
        let mut blocks = self.lock();
        blocks.next += 1;
        let number = blocks.next;
        blocks.live.insert(number, Block { start, len });
        HostMemory::new(number, len)
    }

    pub(crate) fn find(&self, memory: &HostMemory) -> Result<Opaque, CudaError> {
        let block = self.lock().live.get(&memory.number()).copied();
        let block = block.filter(|block| block.len == memory.len());
        block.map(|block| block.start).ok_or(CudaError::Foreign { what: "host memory" })
    }

    pub(crate) fn remove(&self, memory: &HostMemory) {
        self.lock().live.remove(&memory.number());
    }

    /// Frees all of it, before the context ends. There is no caller left to report an error to.
    pub(crate) fn clear(&self, context: &Context) {
        let blocks = std::mem::take(&mut self.lock().live);
        for Block { start, .. } in blocks.into_values() {
            // SAFETY: the block was allocated by this device and is not in its books any more; the
            // context is current.
            let _ = retry_once(|| unsafe { context.driver.host_free(start) });
        }
    }
}
