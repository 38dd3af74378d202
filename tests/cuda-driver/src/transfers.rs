//! The functions of the driver API that a CUDA runtime is made of, beyond those that zico uses:
//! linear and page-locked memory, copies and fills as work of streams, times of events.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::calls::call;
use crate::{Done, codes, contexts, memory, put, streams};

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, and its values for memory of the host and of a device.
const MEMORY_TYPE: c_uint = 2;
const OF_HOST: c_uint = 1;
const OF_DEVICE: c_uint = 2;

/// Whether a copy may be under way when the call that asks for it returns: not to or from memory of
/// the host that is not page-locked.
fn is_asynchronous(address: u64) -> bool {
    memory::is_device(address) || memory::is_pinned(address)
}

/// Copies when its turn comes in a stream.
///
/// # Safety
/// What is of the host stays there until then.
unsafe fn copy(to: u64, from: u64, bytes: usize, stream: usize) -> Done {
    let context = contexts::need()?;
    streams::enqueue(context, stream, move || {
        // SAFETY: by the contract of this function. A failure is found by the next call.
        let _ = unsafe { memory::copy(to, from, bytes as u64) };
    })?;
    if is_asynchronous(to) && is_asynchronous(from) {
        return Ok(());
    }
    streams::synchronize_one(context, stream)
}

export! { call:
    /// 6.7 Primary Context Management
    cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        let there = contexts::is_active(device)?;
        // SAFETY: the caller's pointers.
        unsafe {
            put(flags, 0)?;
            put(active, c_int::from(there))
        }
    }
    /// 6.5 Device Management
    cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) {
        contexts::check_device(device)?;
        let text = format!("0000:{:02x}:00.0\0", device + 1);
        if usize::try_from(len).unwrap_or(0) < text.len() { return Err(codes::INVALID_VALUE) }
        for (at, byte) in text.bytes().enumerate() {
            // SAFETY: the caller's buffer has `len` bytes.
            unsafe { put(id.add(at), byte as c_char) }?;
        }
        Ok(())
    }
    /// 6.13 Memory Management
    cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        // SAFETY: the caller's pointer.
        unsafe { put(address, memory::allocate(contexts::device()?, bytes as u64)?) }
    }
    /// 6.13 Memory Management. Work that may use the memory is waited for.
    cuMemFree_v2(address: u64) {
        if address == 0 { return Ok(()) }
        streams::synchronize(contexts::need()?)?;
        memory::deallocate(address)
    }
    /// 6.13 Memory Management
    cuMemHostAlloc(block: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        contexts::need()?;
        // SAFETY: the caller's pointer.
        unsafe { put(block, memory::pin(bytes as u64)? as *mut c_void) }
    }
    /// 6.13 Memory Management. Work that may use the memory is waited for.
    cuMemFreeHost(block: *mut c_void) {
        streams::synchronize(contexts::need()?)?;
        memory::unpin(block.expose_provenance() as u64)
    }
    /// 6.13 Memory Management
    cuMemcpy(to: u64, from: u64, bytes: usize) {
        // SAFETY: the caller's memory stays where it is until this returns.
        unsafe { copy(to, from, bytes, 0) }?;
        streams::synchronize_one(contexts::need()?, 0)
    }
    /// 6.13 Memory Management
    cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) {
        // SAFETY: the caller's page-locked memory stays until the copy is done; no other is used
        // after this has returned.
        unsafe { copy(to, from, bytes, stream) }
    }
    /// 6.13 Memory Management. To memory of the host that is not page-locked, "the function will
    /// return only once the copy has completed" (API synchronization behavior).
    cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        if !memory::is_device(from) { return Err(codes::INVALID_VALUE) }
        // SAFETY: as for `cuMemcpyAsync`.
        unsafe { copy(to, from, bytes, stream) }
    }
    /// 6.13 Memory Management
    cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        if !memory::is_device(to) { return Err(codes::INVALID_VALUE) }
        // SAFETY: as for `cuMemcpyAsync`.
        unsafe { copy(to, from, bytes, stream) }
    }
    /// 6.13 Memory Management
    cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize) {
        streams::enqueue(contexts::need()?, stream, move || {
            // SAFETY: as for a copy. A failure is found by the next call.
            let _ = unsafe { memory::fill(to, value, bytes as u64) };
        })
    }
    /// 6.15 Unified Addressing
    cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: u64) {
        if attribute != MEMORY_TYPE { return Err(codes::NOT_SUPPORTED) }
        let kind = match (memory::is_device(address), memory::is_pinned(address)) {
            (true, _) => OF_DEVICE,
            (_, true) => OF_HOST,
            _ => return Err(codes::INVALID_VALUE),
        };
        // SAFETY: for this attribute the pointer is to an enum.
        unsafe { put(value.cast::<c_uint>(), kind) }
    }
    /// 6.18 Stream Management. Priorities are taken, and have no effect.
    cuStreamCreateWithPriority(stream: *mut usize, flags: c_uint, _priority: c_int) {
        if flags > 1 { return Err(codes::INVALID_VALUE) }
        // SAFETY: the caller's pointer.
        unsafe { put(stream, streams::create(contexts::need()?)) }
    }
    /// 6.18 Stream Management
    cuStreamQuery(stream: usize) { streams::query_stream(contexts::need()?, stream) }
    /// 6.22 Execution Control
    cuLaunchHostFunc(stream: usize, function: Option<unsafe extern "C" fn(*mut c_void)>,
        argument: *mut c_void) {
        let function = function.ok_or(codes::INVALID_VALUE)?;
        let argument = argument.expose_provenance();
        streams::enqueue(contexts::need()?, stream, move || {
            // SAFETY: the caller's function, with what it asked for it to be called with.
            unsafe { function(std::ptr::with_exposed_provenance_mut(argument)) }
        })
    }
    /// 6.19 Event Management
    cuEventSynchronize(event: usize) {
        contexts::need()?;
        streams::synchronize_event(event)
    }
    /// 6.19 Event Management
    cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) {
        contexts::need()?;
        // SAFETY: the caller's pointer.
        unsafe { put(milliseconds, streams::elapsed(start, end)?) }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain, cuEventCreate, cuEventRecord};
    use crate::{cuInit, cuStreamCreate, cuStreamSynchronize};

    /// The device waits here until the test says so.
    extern "C" fn gate(open: *mut c_void) {
        // SAFETY: each test passes its own flag, which stays.
        let open = unsafe { &*open.cast::<AtomicBool>() };
        while !open.swap(false, Ordering::AcqRel) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    extern "C" fn sleep(_: *mut c_void) {
        std::thread::sleep(Duration::from_millis(50));
    }

    fn closed() -> &'static AtomicBool {
        Box::leak(Box::default())
    }

    fn pass(gate: &'static AtomicBool) {
        gate.store(true, Ordering::Release);
    }

    unsafe fn wait_for(open: &'static AtomicBool, stream: usize) {
        let open = ptr::from_ref(open).cast_mut().cast();
        // SAFETY: the flag stays.
        assert_eq!(unsafe { cuLaunchHostFunc(stream, Some(gate), open) }, 0);
    }

    /// Device memory with some words, and a stream.
    unsafe fn start(words: &mut [u32; 4]) -> (u64, usize) {
        let (mut context, mut address, mut stream) = (0, 0, 0);
        // SAFETY: all pointers are to what the functions write or read.
        unsafe {
            assert_eq!(cuInit(0), 0);
            assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), 0);
            assert_eq!(cuCtxSetCurrent(context), 0);
            assert_eq!(cuMemAlloc_v2(&raw mut address, 16), 0);
            let from = words.as_mut_ptr().expose_provenance() as u64;
            assert_eq!(cuMemcpy(address, from, 16), 0);
            assert_eq!(cuStreamCreate(&raw mut stream, 1), 0);
        }
        (address, stream)
    }

    #[test]
    fn a_copy_has_its_turn_and_one_to_pageable_memory_is_waited_for() {
        let mut words = [1, 2, 3, 4];
        // SAFETY: as in `start`; the page-locked block has 4096 bytes.
        unsafe {
            let (address, stream) = start(&mut words);
            let mut pinned = ptr::null_mut();
            assert_eq!(cuMemHostAlloc(&raw mut pinned, 16, 0), 0);
            let to = pinned.expose_provenance() as u64;
            let open = closed();
            wait_for(open, stream);
            assert_eq!(cuMemcpyAsync(to, address, 16, stream), 0);
            assert_eq!(cuMemsetD8Async(address, 7, 8, stream), 0);
            assert_eq!(pinned.cast::<[u32; 4]>().read_volatile(), [0; 4], "not yet");
            assert_eq!(cuStreamQuery(stream), codes::NOT_READY);
            pass(open);
            let pageable = words.as_mut_ptr().expose_provenance() as u64;
            assert_eq!(cuMemcpyAsync(pageable, address, 16, stream), 0);
            assert_eq!(cuStreamQuery(stream), 0);
            assert_eq!(pinned.cast::<[u32; 4]>().read(), [1, 2, 3, 4]);
            assert_eq!(words, [0x0707_0707, 0x0707_0707, 3, 4]);
            assert_eq!(cuMemFreeHost(pinned), 0);
            assert_eq!(cuMemFreeHost(pinned), codes::INVALID_VALUE);
            assert_eq!(cuMemFree_v2(address), 0);
            assert_eq!(cuMemFree_v2(address), codes::INVALID_VALUE);
        }
    }

    #[test]
    fn pointers_are_told_apart_and_events_have_times() {
        let mut words = [0; 4];
        // SAFETY: as in `start`.
        unsafe {
            let (address, stream) = start(&mut words);
            let (mut kind, mut first, mut last, mut time) = (0_u32, 0, 0, 0.0);
            let mut tell =
                |address| cuPointerGetAttribute((&raw mut kind).cast(), MEMORY_TYPE, address);
            assert_eq!(tell(address + 15), 0);
            assert_eq!(tell(words.as_ptr().expose_provenance() as u64), codes::INVALID_VALUE);
            assert_eq!(kind, OF_DEVICE);
            assert_eq!(cuStreamSynchronize(stream), 0);
            assert_eq!(cuEventCreate(&raw mut first, 0) | cuEventCreate(&raw mut last, 0), 0);
            assert_eq!(cuEventElapsedTime(&raw mut time, first, last), codes::INVALID_HANDLE);
            assert_eq!(cuEventRecord(first, stream), 0);
            let open = closed();
            wait_for(open, stream);
            assert_eq!(cuLaunchHostFunc(stream, Some(sleep), ptr::null_mut()), 0);
            assert_eq!(cuEventRecord(last, stream), 0);
            assert_eq!(cuEventElapsedTime(&raw mut time, first, last), codes::NOT_READY);
            pass(open);
            assert_eq!(cuEventSynchronize(last), 0);
            assert_eq!(cuEventElapsedTime(&raw mut time, first, last), 0);
            assert!(time >= 49.0, "{time} ms");
        }
    }
}
