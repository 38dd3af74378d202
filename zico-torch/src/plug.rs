//! What a framework's allocator calls: the job that a process or a thread uses, and blocks by
//! address.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};

use zico_core::Bytes;

use crate::abi::{JobHandle, raw};
use crate::blocks::blocks;
use crate::fork;
use crate::handles::jobs;
use crate::status::{Failure, Status, attempt, call, tell};
use crate::streams::RawStream;
use crate::tenant::Tenant;

/// The job of threads that have none of their own.
static DEFAULT: RwLock<Option<Arc<dyn Tenant>>> = RwLock::new(None);

thread_local! {
    /// The job of this thread.
    static OWN: RefCell<Option<Arc<dyn Tenant>>> = const { RefCell::new(None) };
}

/// The job for which this thread allocates.
fn current() -> Option<Arc<dyn Tenant>> {
    // A thread that ends has none of its own any more.
    let own = OWN.try_with(|own| own.borrow().clone()).ok().flatten();
    own.or_else(|| DEFAULT.read().unwrap_or_else(PoisonError::into_inner).clone())
}

/// A job leaves: nobody allocates for it any more. A thread that has it as its own is refused.
pub(crate) fn retire(tenant: &Arc<dyn Tenant>) {
    let mut default = DEFAULT.write().unwrap_or_else(PoisonError::into_inner);
    if default.as_ref().is_some_and(|job| Arc::ptr_eq(job, tenant)) {
        *default = None;
    }
}

pub(crate) fn allocate(
    tenant: &Arc<dyn Tenant>,
    bytes: u64,
    stream: RawStream,
    wait: bool,
) -> Result<*mut c_void, Failure> {
    if bytes == 0 {
        return Ok(ptr::null_mut());
    }
    let block = tenant.alloc(Bytes::new(bytes), stream, wait)?;
    blocks().insert(tenant.clone(), block);
    let address = usize::try_from(block.address().value()).unwrap_or_default();
    Ok(ptr::with_exposed_provenance_mut(address))
}

pub(crate) fn free(block: *mut c_void) -> Result<(), Failure> {
    if block.is_null() {
        return Ok(());
    }
    let owned = blocks().remove(block.addr() as u64).ok_or_else(|| not_live(block))?;
    owned.tenant.free(owned.block)
}

pub(crate) fn record_use(block: *mut c_void, stream: RawStream) -> Result<(), Failure> {
    let owned = blocks().find(block.addr() as u64).ok_or_else(|| not_live(block))?;
    owned.tenant.record_use(owned.block, stream)
}

pub(crate) fn size(block: *const c_void) -> u64 {
    let address = block.addr() as u64;
    if fork::is_child() {
        return fork::size(address);
    }
    blocks().find(address).map_or(0, |owned| owned.block.bytes().value())
}

fn not_live(block: *mut c_void) -> Failure {
    let text = format_args!("no live block begins at {block:p}: freed before, or never allocated");
    Failure::new(Status::ZicoNotLive, text)
}

/// Makes a job the one for which `zico_malloc` allocates, on all threads that have none of their
/// own (`zico_use`). 0 is none.
#[unsafe(no_mangle)]
pub extern "C" fn zico_use_everywhere(job: JobHandle) -> Status {
    call(|| {
        let tenant = if job == 0 { None } else { Some(jobs().find(job)?) };
        *DEFAULT.write().unwrap_or_else(PoisonError::into_inner) = tenant;
        Ok(())
    })
}

/// Makes a job the one for which `zico_malloc` allocates on this thread. 0 is none of its own.
#[unsafe(no_mangle)]
pub extern "C" fn zico_use(job: JobHandle) -> Status {
    call(|| {
        let tenant = if job == 0 { None } else { Some(jobs().find(job)?) };
        // A thread that ends uses none.
        let _ = OWN.try_with(|own| *own.borrow_mut() = tenant);
        Ok(())
    })
}

/// Allocates for the job in use. The form that frameworks ask for: null for no bytes, and null
/// where it failed, with the reason in `zico_last_error`; it waits where it has to, on locks of
/// zico alone. A null pointer for some bytes also means that no job is in use.
///
/// `device` is not looked at: a job has one device.
///
/// # Safety
/// `stream` is as for `zico_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_malloc(
    size: usize,
    _device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    let made = attempt(|| {
        let tenant = current().ok_or_else(|| {
            Failure::new(Status::ZicoBadHandle, "no job is in use: call zico_use_everywhere first")
        })?;
        allocate(&tenant, size as u64, raw(stream), true)
    });
    made.unwrap_or_else(|failure| {
        tell(&failure);
        ptr::null_mut()
    })
}

/// Frees a block that `zico_malloc` has allocated, on any thread, never waiting. What is no live
/// block is left alone, and so is everything in a forked child, whose parent has the memory.
///
/// `size`, `device` and `stream` are not looked at: zico knows them.
#[unsafe(no_mangle)]
pub extern "C" fn zico_free(
    block: *mut c_void,
    _size: usize,
    _device: c_int,
    _stream: *mut c_void,
) {
    // There is no way to say that it failed; the last error has it.
    let _ = call(|| free(block));
}

/// Says to the job in use that an iteration has ended: `zico_mark`.
#[unsafe(no_mangle)]
pub extern "C" fn zico_mark_current() -> Status {
    call(|| {
        if let Some(tenant) = current() {
            tenant.mark();
        }
        Ok(())
    })
}

/// What is nobody's goes back to the device: what `torch.cuda.empty_cache` asks for.
#[unsafe(no_mangle)]
pub extern "C" fn zico_empty_cache() {
    let _ = call(|| current().map_or(Ok(()), |tenant| tenant.trim()));
}
