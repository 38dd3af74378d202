//! What the device does with memory: words, copies, fills. Where it may not, it is lost.

use super::{GRANULARITY, lock};
use crate::calls::lose;
use crate::{Done, codes};

/// Lets the device read and write words of memory. Where it may not, it is lost.
pub(crate) fn touch(start: u64, len: u64, each: impl FnMut(&mut u32)) -> Done {
    touch_words(start, len / 4, 4, each)
}

/// As [`touch`], one word in each `stride` bytes.
pub(crate) fn touch_words(
    start: u64,
    words: u64,
    stride: u64,
    mut each: impl FnMut(&mut u32),
) -> Done {
    let mut done = 0;
    while done < words {
        // One page of the device at a time, so that the lock is not held for long.
        let space = lock();
        let first = start + done * stride;
        let end = (first + 1).next_multiple_of(GRANULARITY);
        if !space.is_accessible(first) || !first.is_multiple_of(4) {
            lose(codes::ILLEGAL_ADDRESS);
            return Err(codes::ILLEGAL_ADDRESS);
        }
        while done < words && start + done * stride < end {
            let word = (start + done * stride) as *mut u32;
            // SAFETY: the address is mapped, readable and writable while the lock is held, aligned,
            // and nothing in Rust refers to it; other processes may write there at the same time,
            // as work of another stream may, so it is not read or written by reference.
            let mut value = unsafe { word.read_volatile() };
            let before = value;
            each(&mut value);
            if value != before {
                // SAFETY: as above.
                unsafe { word.write_volatile(value) };
            }
            done += 1;
        }
    }
    Ok(())
}

/// Copies bytes between any two places, each of the device's or of the host's. They may overlap
/// within 2 MiB.
///
/// # Safety
/// What is of the host has to be there for that many bytes.
pub(crate) unsafe fn copy(to: u64, from: u64, len: u64) -> Done {
    pieces([to, from], len, |[to, from], bytes| {
        // SAFETY: memory of the device is accessible while `pieces` runs this; for that of the host
        // the caller answers. Nothing in Rust refers to either.
        unsafe { from.copy_to(to, bytes) }
    })
}

/// Sets bytes.
///
/// # Safety
/// As for [`copy`].
pub(crate) unsafe fn fill(to: u64, value: u8, len: u64) -> Done {
    pieces([to], len, |[to], bytes| {
        // SAFETY: as in `copy`.
        unsafe { to.write_bytes(value, bytes) }
    })
}

/// Goes through some places of the same length by pieces that lie within one page of the device,
/// which stays mapped meanwhile.
fn pieces<const N: usize>(
    starts: [u64; N],
    len: u64,
    mut each: impl FnMut([*mut u8; N], usize),
) -> Done {
    let mut done = 0;
    while done < len {
        let space = lock();
        let at = starts.map(|start| start + done);
        let ends = at.map(|at| (at + 1).next_multiple_of(GRANULARITY) - at);
        let bytes = ends.into_iter().fold(len - done, u64::min);
        if !at.iter().all(|&at| space.is_foreign(at) || space.is_accessible(at)) {
            lose(codes::ILLEGAL_ADDRESS);
            return Err(codes::ILLEGAL_ADDRESS);
        }
        each(at.map(|at| at as *mut u8), bytes as usize);
        done += bytes;
    }
    Ok(())
}
