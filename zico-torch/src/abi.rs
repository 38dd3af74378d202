//! The functions of `zico.h`.
//!
//! Each checks what it is given, calls safe code and turns what comes of it into a status. `unsafe`
//! is only what reads or writes through a caller's pointer.

use std::ffi::{CStr, c_char, c_int, c_void};

use zico_core::{Bytes, JobConfig, Ticks};
use zico_cuda::{CudaDevice, Options};
use zico_node::host::{HostConfig, HostDevice, raise_descriptor_limit};

use crate::blocks::blocks;
use crate::fork;
use crate::handles::{jobs, pools};
use crate::plug;
use crate::stats::{JobStats, PoolStats};
use crate::status::{Failure, Status, call, last_error, last_status};
use crate::streams::RawStream;
use crate::tenant;

/// A pool: memory of one device under one budget. 0 is none.
pub type PoolHandle = u64;
/// A job: one tenant of a pool. 0 is none.
pub type JobHandle = u64;

/// Writes a result to where the caller wants it.
///
/// # Safety
/// `to` is null or points to a `T` that may be written.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::new(Status::ZicoInvalid, "the pointer for the result is null"));
    }
    // SAFETY: not null, so the caller's.
    unsafe { to.write(value) };
    Ok(())
}

/// As [`give`], before anything is done that would be lost without it.
pub(crate) fn check<T>(to: *mut T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::new(Status::ZicoInvalid, "the pointer for the result is null"));
    }
    Ok(())
}

pub(crate) fn raw(stream: *mut c_void) -> RawStream {
    RawStream(stream.expose_provenance())
}

/// What the last call on this thread that failed has to say: one sentence or some, in English. It
/// is never null, and stays until another call on this thread fails. Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn zico_last_error() -> *const c_char {
    last_error()
}

/// The status of the last call on this thread that failed, for calls that do not return one;
/// ZICO_OK if none has.
#[unsafe(no_mangle)]
pub extern "C" fn zico_last_status() -> Status {
    last_status()
}

/// The version of zico: "0.1.0". Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn zico_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Opens a pool of at most `budget` bytes of this machine's own memory, of which it takes
/// `capacity` for all there is; 0 takes what the machine has. Raises the number of files that the
/// process may open as far as it may, because each region is one.
///
/// # Safety
/// `pool` points to a handle that may be written, or is null, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_open_host(
    budget: u64,
    capacity: u64,
    pool: *mut PoolHandle,
) -> Status {
    call(|| {
        check(pool)?;
        fork::watch();
        let mut config = HostConfig::new();
        if capacity > 0 {
            config = config.capacity(Bytes::new(capacity));
        }
        // Where that is refused the limit is what it is.
        let _ = raise_descriptor_limit();
        let opened = tenant::open(HostDevice::new(config)?, Bytes::new(budget))?;
        // SAFETY: as the caller has promised.
        unsafe { give(pool, pools().add(opened)) }
    })
}

/// Opens a pool of at most `budget` bytes of the CUDA device with this number, counted from 0, in
/// its primary context.
///
/// # Safety
/// As `zico_open_host`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_open_cuda(device: u32, budget: u64, pool: *mut PoolHandle) -> Status {
    call(|| {
        check(pool)?;
        fork::watch();
        let device = CudaDevice::open(device, Options::new())?;
        let opened = tenant::open(device, Bytes::new(budget))?;
        // SAFETY: as the caller has promised.
        unsafe { give(pool, pools().add(opened)) }
    })
}

/// Closes a pool: no more jobs can join. Those that have stay, and the pool goes with the last of
/// them.
#[unsafe(no_mangle)]
pub extern "C" fn zico_close(pool: PoolHandle) -> Status {
    call(|| pools().remove(pool).map(drop))
}

/// Changes a pool's budget, in bytes. A lower one is reached as memory becomes free.
#[unsafe(no_mangle)]
pub extern "C" fn zico_set_budget(pool: PoolHandle, budget: u64) -> Status {
    call(|| pools().find(pool)?.set_budget(Bytes::new(budget)))
}

/// Gives memory that no job has back to the device. What is needed again is created anew.
#[unsafe(no_mangle)]
pub extern "C" fn zico_trim(pool: PoolHandle) -> Status {
    call(|| pools().find(pool)?.trim())
}

/// What a pool holds.
///
/// # Safety
/// `stats` points to statistics that may be written, or is null, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_pool_stats(pool: PoolHandle, stats: *mut PoolStats) -> Status {
    call(|| {
        let found = PoolStats::of(&*pools().find(pool)?);
        // SAFETY: as the caller has promised.
        unsafe { give(stats, found) }
    })
}

/// Lets a job in. `name` is UTF-8, or null for a name of the pool's choice. Of jobs that wait those
/// with a higher `priority` go first. `stream` is the stream on which the job's work is enqueued: a
/// `cudaStream_t` on CUDA, null for the default stream; on host memory it has no meaning.
///
/// # Safety
/// `name` is null or ends with a zero. `stream` is one of the device's primary context, and lives
/// until the job has left. `job` points to a handle that may be written, or is null, which is
/// refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_join(
    pool: PoolHandle,
    name: *const c_char,
    priority: i32,
    stream: *mut c_void,
    job: *mut JobHandle,
) -> Status {
    // SAFETY: as the caller has promised.
    unsafe { join(pool, name, raw(stream), job, |config| config.priority(priority)) }
}

/// As `zico_join`, for a job that takes turns with others: what they keep in all may be more than
/// the budget. Where it has to wait to begin an iteration or for memory, and others wait for its
/// room, all that it has goes to memory of the host, and comes back before the call returns. A turn
/// lasts for an iteration and `slice` nanoseconds at least: let it be ten times of what copying the
/// job's memory takes, or more. While one thread is in such a call no other may touch the job's
/// blocks, nor enqueue work that does.
///
/// # Safety
/// As `zico_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_join_turns(
    pool: PoolHandle,
    name: *const c_char,
    priority: i32,
    slice: u64,
    stream: *mut c_void,
    job: *mut JobHandle,
) -> Status {
    let terms = |config: JobConfig| config.priority(priority).cooperative(Ticks::new(slice));
    // SAFETY: as the caller has promised.
    unsafe { join(pool, name, raw(stream), job, terms) }
}

/// As `zico_join`, or as `zico_join_turns` if `slice` is not zero, for a job whose iterations may
/// be interrupted: where one waits for memory and nothing else can go on, all that the job has goes
/// to memory of the host, so that another job goes on, and comes back before the call returns.
/// Without that one of two iterations that have outgrown what was expected of them is told that
/// there is no memory. While one thread waits in an allocation no other may touch the job's blocks,
/// nor enqueue work that does; other streams that use them afterwards wait for the job's own.
///
/// # Safety
/// As `zico_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_join_interruptible(
    pool: PoolHandle,
    name: *const c_char,
    priority: i32,
    slice: u64,
    stream: *mut c_void,
    job: *mut JobHandle,
) -> Status {
    let terms = |config: JobConfig| {
        let config = config.priority(priority).interruptible();
        if slice == 0 { config } else { config.cooperative(Ticks::new(slice)) }
    };
    // SAFETY: as the caller has promised.
    unsafe { join(pool, name, raw(stream), job, terms) }
}

/// # Safety
/// As `zico_join`.
unsafe fn join(
    pool: PoolHandle,
    name: *const c_char,
    stream: RawStream,
    job: *mut JobHandle,
    terms: impl FnOnce(JobConfig) -> JobConfig,
) -> Status {
    call(|| {
        check(job)?;
        let name = if name.is_null() {
            ""
        } else {
            // SAFETY: not null, so a text that ends with a zero.
            let text = unsafe { CStr::from_ptr(name) }.to_str();
            text.map_err(|error| {
                Failure::new(Status::ZicoInvalid, format_args!("the name: {error}"))
            })?
        };
        let joined = pools().find(pool)?.join(terms(JobConfig::new(name)), stream)?;
        // SAFETY: as the caller has promised.
        unsafe { give(job, jobs().add(joined)) }
    })
}

/// Makes a job leave. All that it has is given up; nothing may use its blocks from now on. `live`
/// gets the number of blocks that were not freed; it may be null.
///
/// # Safety
/// `live` is null or points to a number that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_leave(job: JobHandle, live: *mut u64) -> Status {
    call(|| {
        let tenant = jobs().remove(job)?;
        plug::retire(&tenant);
        blocks().forget(&tenant);
        let (count, _) = tenant.leave();
        if live.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so the caller's.
        unsafe { give(live, count as u64) }
    })
}

/// Begins an iteration. Waits until it may start.
#[unsafe(no_mangle)]
pub extern "C" fn zico_begin(job: JobHandle) -> Status {
    call(|| jobs().find(job)?.begin())
}

/// Ends the iteration that runs. None begins until `zico_begin` or `zico_mark`.
#[unsafe(no_mangle)]
pub extern "C" fn zico_end(job: JobHandle) -> Status {
    call(|| jobs().find(job)?.end())
}

/// Marks the end of an iteration: the one that runs, if any, is over, but for what is freed from
/// here on, and the next one begins with the job's next allocation, which may have to wait for
/// that. For frameworks that know when an iteration has ended, and not when the next one begins.
#[unsafe(no_mangle)]
pub extern "C" fn zico_mark(job: JobHandle) -> Status {
    call(|| {
        jobs().find(job)?.mark();
        Ok(())
    })
}

/// Allocates `bytes` bytes, aligned to 512, to be used on `stream`, and waits until they can be
/// had. No bytes are a null pointer. A block on a stream other than the job's own is ready on that
/// stream after what is enqueued on the job's stream now.
///
/// # Safety
/// `stream` is as for `zico_join`. `block` points to a pointer that may be written, or is null,
/// which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_alloc(
    job: JobHandle,
    bytes: u64,
    stream: *mut c_void,
    block: *mut *mut c_void,
) -> Status {
    // SAFETY: as the caller has promised.
    unsafe { allocate(job, bytes, stream, block, true) }
}

/// As `zico_alloc`, but never waits: ZICO_BUSY if it would have to.
///
/// # Safety
/// As `zico_alloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_try_alloc(
    job: JobHandle,
    bytes: u64,
    stream: *mut c_void,
    block: *mut *mut c_void,
) -> Status {
    // SAFETY: as the caller has promised.
    unsafe { allocate(job, bytes, stream, block, false) }
}

/// # Safety
/// As `zico_alloc`.
unsafe fn allocate(
    job: JobHandle,
    bytes: u64,
    stream: *mut c_void,
    block: *mut *mut c_void,
    wait: bool,
) -> Status {
    call(|| {
        check(block)?;
        let tenant = jobs().find(job)?;
        let address = plug::allocate(&tenant, bytes, raw(stream), wait)?;
        // SAFETY: as the caller has promised.
        unsafe { give(block, address) }
    })
}

/// Frees a block of any job, on any thread. It never waits. All work that uses the block has been
/// enqueued. A null pointer is nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn zico_dealloc(block: *mut c_void) -> Status {
    call(|| plug::free(block))
}

/// Says that work enqueued on `stream` uses a block, or will until it is freed. The block's memory
/// is used again only after that work.
///
/// # Safety
/// `stream` is as for `zico_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_record_use(block: *mut c_void, stream: *mut c_void) -> Status {
    call(|| plug::record_use(block, raw(stream)))
}

/// The bytes asked for with the live block that begins at an address; 0 if none does. In a forked
/// child: those of a block that the parent had at the fork.
#[unsafe(no_mangle)]
pub extern "C" fn zico_block_size(block: *const c_void) -> u64 {
    plug::size(block)
}

/// Whether this process is a child, made by fork from one that had opened a pool: 0 or 1. What its
/// parent had allocated on host memory it has as a copy of its own, which it may read and write and
/// which stays; it can allocate nothing here, and freeing is nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn zico_is_forked() -> c_int {
    c_int::from(fork::is_child())
}

/// What a job has allocated, and what it has waited for.
///
/// # Safety
/// `stats` points to statistics that may be written, or is null, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_job_stats(job: JobHandle, stats: *mut JobStats) -> Status {
    call(|| {
        let found = JobStats::of(&*jobs().find(job)?);
        // SAFETY: as the caller has promised.
        unsafe { give(stats, found) }
    })
}

/// Counts the peaks of a job's statistics anew, from what is there now.
#[unsafe(no_mangle)]
pub extern "C" fn zico_reset_peaks(job: JobHandle) -> Status {
    call(|| {
        jobs().find(job)?.reset_peaks();
        Ok(())
    })
}
