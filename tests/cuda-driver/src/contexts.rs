//! Devices and their primary contexts. Each thread has a stack of contexts.

use std::cell::RefCell;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::calls::{self, setting};
use crate::{Done, codes, kernels, memory, streams};

/// CUDA 12.4.
pub(crate) const VERSION: i32 = 12_040;
/// What the devices are called, with the zero at the end.
pub(crate) const NAME: &[u8] = b"zico test driver\0";

/// The handle of the primary context of device 0.
const FIRST: usize = 0xC0DE_0000;

static DEVICES: LazyLock<i32> = LazyLock::new(|| setting("ZICO_DRIVER_DEVICES", 1));
/// The same for all devices of a machine.
static UUID: LazyLock<u64> = LazyLock::new(|| setting("ZICO_DRIVER_UUID", 0));
/// How often each primary context is retained.
static RETAINED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

thread_local! {
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn init(flags: u32) -> Done {
    match (flags, *DEVICES) {
        (0, 0) => Err(codes::NO_DEVICE),
        (0, _) => {
            calls::start();
            Ok(())
        }
        _ => Err(codes::INVALID_VALUE),
    }
}

pub(crate) fn devices() -> i32 {
    *DEVICES
}

pub(crate) fn check_device(device: i32) -> Done {
    if (0..devices()).contains(&device) { Ok(()) } else { Err(codes::INVALID_DEVICE) }
}

pub(crate) fn uuid(device: i32) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&UUID.to_be_bytes());
    uuid[15] = u8::try_from(device).unwrap_or(u8::MAX);
    uuid
}

pub(crate) fn attribute(attribute: i32) -> Result<i32, u32> {
    match attribute {
        // COMPUTE_CAPABILITY_MAJOR and _MINOR
        75 => Ok(9),
        76 => Ok(0),
        // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        102 => Ok(i32::from(!memory::is_unsupported())),
        // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        103 => Ok(1),
        // MEMORY_POOLS_SUPPORTED, which cudarc asks for
        115 => Ok(0),
        _ => Err(codes::INVALID_VALUE),
    }
}

pub(crate) fn retain(device: i32) -> usize {
    let index = usize::try_from(device).unwrap_or(0);
    let mut retained = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    let len = retained.len().max(index + 1);
    retained.resize(len, 0);
    retained[index] += 1;
    FIRST + index
}

/// Whether a device's primary context is there.
pub(crate) fn is_active(device: i32) -> Result<bool, u32> {
    check_device(device)?;
    let index = usize::try_from(device).unwrap_or(0);
    let retained = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(retained.get(index).is_some_and(|&count| count > 0))
}

/// The device of the calling thread's context.
pub(crate) fn device() -> Result<i32, u32> {
    i32::try_from(need()? - FIRST).map_err(|_| codes::INVALID_CONTEXT)
}

/// The last release ends the context, with its streams, events and modules. What is left is told to
/// the log: a test finds there what was not given back.
pub(crate) fn release(device: i32) -> Done {
    check_device(device)?;
    let index = usize::try_from(device).unwrap_or(0);
    let mut retained = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    match retained.get_mut(index) {
        None | Some(0) => Err(codes::INVALID_CONTEXT),
        Some(count) => {
            *count -= 1;
            if *count == 0 {
                let (streams, events) = streams::end(FIRST + index);
                let (ranges, allocations, mappings) = memory::counts();
                let (modules, pinned) = (kernels::count(), memory::pinned());
                calls::log(&format!(
                    "end ranges={ranges} allocations={allocations} mappings={mappings} \
                     streams={streams} events={events} modules={modules} pinned={pinned}"
                ));
            }
            Ok(())
        }
    }
}

fn check(context: usize) -> Done {
    let retained = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    let index = context.checked_sub(FIRST);
    let live = index.and_then(|index| retained.get(index)).is_some_and(|&count| count > 0);
    if live { Ok(()) } else { Err(codes::INVALID_CONTEXT) }
}

/// The context of the calling thread, or 0.
pub(crate) fn current() -> usize {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// The context of the calling thread, for calls that need one.
pub(crate) fn need() -> Result<usize, u32> {
    let context = current();
    check(context).map(|()| context)
}

pub(crate) fn set_current(context: usize) -> Done {
    if context != 0 {
        check(context)?;
    }
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
    Ok(())
}

pub(crate) fn push(context: usize) -> Done {
    check(context)?;
    STACK.with_borrow_mut(|stack| stack.push(context));
    Ok(())
}

pub(crate) fn pop() -> Result<usize, u32> {
    STACK.with_borrow_mut(Vec::pop).ok_or(codes::INVALID_CONTEXT)
}
