//! Jobs that go to the host, with all they have or in part, and come back.

use std::ffi::c_void;
use std::ptr::null;

use zico_core::{LiveBlock, OnSuspend};

use crate::abi::{JobHandle, give};
use crate::handles::jobs;
use crate::status::{Failure, Status, call};

/// Takes all that a job has to memory of the host, and gives its room on the device to others until
/// `zico_resume`. Waits until the device has made the copies. An iteration that runs ends, and the
/// next one is due. Blocks keep their addresses and their contents; between the two calls nothing
/// may touch them, neither this process nor work on any stream, and nothing can be allocated. They
/// can be freed. All work that uses them has been enqueued on streams that zico knows of, or is
/// done. `bytes` gets what has gone; it may be null.
///
/// The job has a return ticket: nobody can take its room for good. Where it could not come back, it
/// does not go, and the status is ZICO_OUT_OF_MEMORY.
///
/// # Safety
/// `bytes` is null or points to a number that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_suspend(job: JobHandle, bytes: *mut u64) -> Status {
    // SAFETY: there is nothing in the lists; the rest is the caller's.
    unsafe { zico_suspend_with(job, null(), 0, null(), 0, bytes) }
}

/// The same, but for some blocks, each told by an address within it. The `keeps` blocks in `keep`
/// stay where they are, and may be used meanwhile. Of the `discards` blocks in `discard` the
/// contents are lost, and not copied. A block in both is kept; addresses of no block of the job
/// count for nothing. Memory goes by whole regions of the pool: what lies in one with a block that
/// stays, stays as well, and what lies in one with a block that is copied is copied. If all stays
/// the job is not suspended. A job that takes turns (`zico_join_turns`) keeps no block:
/// ZICO_INVALID.
///
/// # Safety
/// `keep` and `discard` point to so many addresses, or are null where there are none. `bytes` is
/// null or points to a number that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_suspend_with(
    job: JobHandle,
    keep: *const *const c_void,
    keeps: usize,
    discard: *const *const c_void,
    discards: usize,
    bytes: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the caller's.
        let choices = unsafe { Choices::new(list(keep, keeps)?, list(discard, discards)?) };
        let gone = jobs().find(job)?.suspend(&choices)?;
        if bytes.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so the caller's.
        unsafe { give(bytes, gone.value()) }
    })
}

/// A caller's list of addresses.
///
/// # Safety
/// `from` points to `count` addresses, or is null.
unsafe fn list(from: *const *const c_void, count: usize) -> Result<Vec<u64>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if from.is_null() {
        return Err(Failure::new(Status::ZicoInvalid, "the list of addresses is null"));
    }
    // SAFETY: not null, and so many of them: the caller's.
    let addresses = unsafe { std::slice::from_raw_parts(from, count) };
    Ok(addresses.iter().map(|address| address.addr() as u64).collect())
}

/// Brings a suspended job back: all its memory, at its addresses, as it was. Waits until there is
/// room for it. Work that is enqueued on the job's stream from then on finds it; other streams have
/// to be ordered after that. A job that is not suspended is back already.
#[unsafe(no_mangle)]
pub extern "C" fn zico_resume(job: JobHandle) -> Status {
    call(|| jobs().find(job)?.resume())
}

/// Blocks of a job that goes to the host of which the contents are not copied, by addresses within
/// them.
pub(crate) struct Choices {
    keep: Vec<u64>,
    discard: Vec<u64>,
}

impl Choices {
    /// Those to keep, and those of which nothing is needed. One that is both is kept.
    pub(crate) fn new(mut keep: Vec<u64>, mut discard: Vec<u64>) -> Self {
        keep.sort_unstable();
        discard.sort_unstable();
        Self { keep, discard }
    }

    pub(crate) fn of(&self, block: &LiveBlock) -> OnSuspend {
        let (start, len) = (block.address.value(), block.bytes.value());
        let holds = |addresses: &[u64]| {
            let next = addresses.partition_point(|&address| address < start);
            addresses.get(next).is_some_and(|address| address - start < len)
        };
        match () {
            () if holds(&self.keep) => OnSuspend::Keep,
            () if holds(&self.discard) => OnSuspend::Discard,
            () => OnSuspend::Copy,
        }
    }
}
