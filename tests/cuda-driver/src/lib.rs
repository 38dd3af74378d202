//! A CUDA driver in software, to test a CUDA backend where there is no GPU.
//!
//! Built as a shared library, it stands in for `libcuda.so`: it exports the functions of the driver
//! API that zico, the bare start of `cudarc` and the CUDA runtime of `tests/cuda-runtime` use, and
//! does what NVIDIA's documentation says of them, strictly: what is documented as an error is one,
//! and where the documentation is silent it does what it knows of real drivers, or refuses. The
//! sections are those of <https://docs.nvidia.com/cuda/cuda-driver-api/>.
//!
//! * Memory is real: a reservation is inaccessible address space, an allocation a file in memory, a
//!   mapping a shared mapping of that file. So contents, aliases and exports to other processes are
//!   what they would be.
//! * Streams are threads: work takes time, and events pass later.
//! * Kernels are known by their names (`kernels.rs`); what they touch has to be mapped and
//!   accessible, else the context is lost, as on a GPU.
//!
//! Environment variables, read at the first call, configure the simulated machine:
//!
//! | variable | meaning | without it |
//! |---|---|---|
//! | `ZICO_DRIVER_DEVICES` | how many devices there are | 1 |
//! | `ZICO_DRIVER_UUID` | the first 8 bytes of each UUID; the last one is the device's | 0 |
//! | `ZICO_DRIVER_MEMORY` | the bytes of each | 1 GiB |
//! | `ZICO_DRIVER_NO_VMM` | devices have no virtual memory management | they have |
//! | `ZICO_DRIVER_NO_ALIGNMENT` | reservations ignore the alignment asked for | they do not |
//! | `ZICO_DRIVER_FAULTS` | rules for calls that fail, separated by commas | none |
//! | `ZICO_DRIVER_LOG` | a file to which each call and its code are written | none |
//!
//! A rule `cuMemMap:3=2` makes the third call of `cuMemMap` do nothing but return 2; with the code
//! 0 the call is ignored silently. `cuMemMap:3+=2` applies to all calls from the third on.
#![cfg(target_os = "linux")]
#![allow(non_snake_case, reason = "the driver's names")]
#![allow(clippy::cast_possible_truncation, reason = "systems with CUDA have 64 bits")]
#![allow(clippy::missing_safety_doc, reason = "what a caller has to keep is NVIDIA's to document")]

mod calls;
mod codes;
mod contexts;
mod errors;
mod handles;
mod kernels;
mod memory;
mod streams;
mod training;

use std::ffi::{c_char, c_int, c_uint, c_void};

use calls::{call, call_early};
use memory::{AccessDesc, AllocationProp};

/// A result code: none of the driver's refusals, or one.
type Done = Result<(), u32>;

/// Writes a result through a pointer of the caller's, which may not be null.
///
/// # Safety
/// If it is not null, it has to be valid for writing a `T`.
unsafe fn put<T>(out: *mut T, value: T) -> Done {
    if out.is_null() {
        return Err(codes::INVALID_VALUE);
    }
    // SAFETY: by the contract of this function.
    unsafe { out.write(value) };
    Ok(())
}

/// Copies whole words of device memory.
///
/// # Safety
/// The buffer has to have that many bytes.
unsafe fn copy_to_host(to: *mut c_void, from: u64, bytes: usize) -> Done {
    if !bytes.is_multiple_of(4) {
        return Err(codes::INVALID_VALUE);
    }
    let mut at = to.cast::<u32>();
    memory::touch(from, bytes as u64, |word| {
        // SAFETY: by the contract of this function.
        unsafe { at.write_unaligned(*word) };
        at = at.wrapping_add(1);
    })
}

/// Exports functions under their C names; each body is run as a call of the driver.
macro_rules! export {
    ($by:ident: $($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "as many as the driver has")]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
            // SAFETY (of the blocks within): pointers are what the caller of a C function says.
            $by(stringify!($name), || $body)
        }
    )*};
}

pub mod transfers;

export! { call_early:
    /// 6.2 Initialization
    cuInit(flags: c_uint) { contexts::init(flags) }
    /// 6.3 Version Management
    cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(version, contexts::VERSION) }
    }
    /// 6.1 Error Handling
    cuGetErrorName(code: u32, name: *mut *const c_char) {
        // SAFETY: the caller's pointer.
        unsafe { put(name, errors::name(code)) }?;
        errors::known(code)
    }
    /// 6.1 Error Handling
    cuGetErrorString(code: u32, text: *mut *const c_char) {
        // SAFETY: the caller's pointer.
        unsafe { put(text, errors::text(code)) }?;
        errors::known(code)
    }
}

export! { call:
    /// 6.5 Device Management
    cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(count, contexts::devices()) }
    }
    /// 6.5 Device Management
    cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        contexts::check_device(ordinal)?;
        // SAFETY: the caller's pointer.
        unsafe { put(device, ordinal) }
    }
    /// 6.5 Device Management
    cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        contexts::check_device(device)?;
        for (at, byte) in contexts::NAME.iter().take(usize::try_from(len).unwrap_or(0)).enumerate() {
            // SAFETY: the caller's buffer has `len` bytes.
            unsafe { put(name.add(at), *byte as c_char) }?;
        }
        Ok(())
    }
    /// 6.5 Device Management
    cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        contexts::check_device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { put(uuid, contexts::uuid(device)) }
    }
    /// 6.5 Device Management
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        contexts::check_device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { put(uuid, contexts::uuid(device)) }
    }
    /// 6.5 Device Management
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        contexts::check_device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { put(bytes, memory::capacity()) }
    }
    /// 6.5 Device Management
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        contexts::check_device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { put(value, contexts::attribute(attribute)?) }
    }
    /// 6.7 Primary Context Management
    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        contexts::check_device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { put(context, contexts::retain(device)) }
    }
    /// 6.7 Primary Context Management
    cuDevicePrimaryCtxRelease_v2(device: c_int) { contexts::release(device) }
    /// 6.8 Context Management
    cuCtxGetCurrent(context: *mut usize) {
        // SAFETY: the caller's pointer.
        unsafe { put(context, contexts::current()) }
    }
    /// 6.8 Context Management
    cuCtxSetCurrent(context: usize) { contexts::set_current(context) }
    /// 6.8 Context Management
    cuCtxPushCurrent_v2(context: usize) { contexts::push(context) }
    /// 6.8 Context Management
    cuCtxPopCurrent_v2(context: *mut usize) {
        let popped = contexts::pop()?;
        // SAFETY: the caller's pointer, which may be null here.
        if context.is_null() { Ok(()) } else { unsafe { put(context, popped) } }
    }
    /// 6.8 Context Management
    cuCtxSynchronize() { streams::synchronize(contexts::need()?) }
    /// 6.13 Memory Management
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        contexts::need()?;
        let capacity = memory::capacity();
        // SAFETY: the caller's pointers.
        unsafe {
            put(free, capacity.saturating_sub(memory::used()))?;
            put(total, capacity)
        }
    }
    /// 6.13 Memory Management
    cuMemsetD32_v2(address: u64, value: c_uint, count: usize) {
        contexts::need()?;
        memory::touch(address, (count * 4) as u64, |word| *word = value)
    }
    /// 6.13 Memory Management
    cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        contexts::need()?;
        // SAFETY: the caller's buffer has that many bytes.
        unsafe { copy_to_host(to, from, bytes) }
    }
    /// 6.14 Virtual Memory Management
    cuMemGetAllocationGranularity(
        granularity: *mut usize, prop: *const AllocationProp, option: c_uint) {
        // SAFETY: the caller's pointer.
        memory::check_prop(unsafe { prop.as_ref() })?;
        // Minimum and recommended are the same.
        if option > 1 { return Err(codes::INVALID_VALUE) }
        // SAFETY: the caller's pointer.
        unsafe { put(granularity, memory::GRANULARITY as usize) }
    }
    /// 6.14 Virtual Memory Management
    cuMemAddressReserve(address: *mut u64, size: usize, alignment: usize, _hint: u64, flags: u64) {
        if flags != 0 { return Err(codes::INVALID_VALUE) }
        // SAFETY: the caller's pointer.
        unsafe { put(address, memory::reserve(size as u64, alignment as u64)?) }
    }
    /// 6.14 Virtual Memory Management
    cuMemAddressFree(address: u64, size: usize) { memory::free(address, size as u64) }
    /// 6.14 Virtual Memory Management
    cuMemCreate(handle: *mut u64, size: usize, prop: *const AllocationProp, flags: u64) {
        if flags != 0 { return Err(codes::INVALID_VALUE) }
        // SAFETY: the caller's pointer.
        let shareable = memory::check_prop(unsafe { prop.as_ref() })?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, memory::create(size as u64, shareable)?) }
    }
    /// 6.14 Virtual Memory Management
    cuMemRelease(handle: u64) { memory::release(handle) }
    /// 6.14 Virtual Memory Management
    cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        if flags != 0 || offset != 0 { return Err(codes::INVALID_VALUE) }
        memory::map(address, size as u64, handle)
    }
    /// 6.14 Virtual Memory Management
    cuMemSetAccess(address: u64, size: usize, access: *const AccessDesc, count: usize) {
        if count != 1 { return Err(codes::INVALID_VALUE) }
        // SAFETY: the caller's pointer.
        memory::set_access(address, size as u64, unsafe { access.as_ref() })
    }
    /// 6.14 Virtual Memory Management
    cuMemUnmap(address: u64, size: usize) { memory::unmap(address, size as u64) }
    /// 6.14 Virtual Memory Management
    cuMemExportToShareableHandle(
        shareable: *mut c_void, handle: u64, kind: c_uint, flags: u64) {
        if kind != memory::POSIX_FILE_DESCRIPTOR || flags != 0 {
            return Err(codes::INVALID_VALUE);
        }
        // SAFETY: for this kind the pointer is to a descriptor.
        unsafe { put(shareable.cast::<c_int>(), memory::export(handle)?) }
    }
    /// 6.14 Virtual Memory Management
    cuMemImportFromShareableHandle(handle: *mut u64, shareable: *mut c_void, kind: c_uint) {
        // A null pointer is none, and so the descriptor 0 is none either, as a driver for a GPU has it.
        if kind != memory::POSIX_FILE_DESCRIPTOR || shareable.is_null() {
            return Err(codes::INVALID_VALUE)
        }
        let descriptor = i32::try_from(shareable.addr()).map_err(|_| codes::INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, memory::import(descriptor)?) }
    }
    /// 6.18 Stream Management
    cuStreamCreate(stream: *mut usize, flags: c_uint) {
        if flags > 1 { return Err(codes::INVALID_VALUE) }
        // SAFETY: the caller's pointer.
        unsafe { put(stream, streams::create(contexts::need()?)) }
    }
    /// 6.18 Stream Management
    cuStreamDestroy_v2(stream: usize) {
        contexts::need()?;
        streams::destroy(stream)
    }
    /// 6.18 Stream Management
    cuStreamSynchronize(stream: usize) { streams::synchronize_one(contexts::need()?, stream) }
    /// 6.18 Stream Management
    cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        if flags != 0 { return Err(codes::INVALID_VALUE) }
        streams::wait(contexts::need()?, stream, event)
    }
    /// 6.19 Event Management
    cuEventCreate(event: *mut usize, flags: c_uint) {
        if flags > 7 { return Err(codes::INVALID_VALUE) }
        // SAFETY: the caller's pointer.
        unsafe { put(event, streams::create_event(contexts::need()?)) }
    }
    /// 6.19 Event Management
    cuEventRecord(event: usize, stream: usize) {
        streams::record(contexts::need()?, event, stream)
    }
    /// 6.19 Event Management
    cuEventQuery(event: usize) {
        contexts::need()?;
        streams::query(event)
    }
    /// 6.19 Event Management
    cuEventDestroy_v2(event: usize) {
        contexts::need()?;
        streams::destroy_event(event)
    }
    /// 6.12 Module Management
    cuModuleLoadData(module: *mut usize, image: *const c_void) {
        contexts::need()?;
        // SAFETY: the caller's pointers; an image in PTX ends with a zero.
        unsafe { put(module, kernels::load(image.cast())?) }
    }
    /// 6.12 Module Management
    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        contexts::need()?;
        // SAFETY: the caller's pointers; a name ends with a zero.
        unsafe { put(function, kernels::function(module, name)?) }
    }
    /// 6.12 Module Management
    cuModuleUnload(module: usize) {
        contexts::need()?;
        kernels::unload(module)
    }
    /// 6.22 Execution Control
    cuLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, _shared: c_uint, stream: usize,
        parameters: *mut *mut c_void, extra: *mut *mut c_void) {
        let context = contexts::need()?;
        let sizes = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
        if sizes.contains(&0) || block_x > 1024 || !extra.is_null() || parameters.is_null() {
            return Err(codes::INVALID_VALUE);
        }
        // SAFETY: the caller's pointers are to as many parameters as the kernel has.
        let kernel = unsafe { kernels::bind(function, parameters) }?;
        streams::launch(context, stream, kernel)
    }
}
