//! What a program without std brings: an allocator, here one that never gives back, a panic
//! handler, and an entry, which the C runtime of the host calls where a board would jump to it.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

const HEAP: usize = 4 << 20;

/// Memory of the program, handed out from the beginning on.
struct Bump {
    heap: UnsafeCell<[u8; HEAP]>,
    used: AtomicUsize,
}

// SAFETY: a byte of the heap is handed out once, by an atomic addition.
unsafe impl Sync for Bump {}

// SAFETY: blocks are disjoint, aligned, within the heap, and never used again.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let room = layout.size() + layout.align();
        let used = self.used.fetch_add(room, Ordering::Relaxed);
        if used.saturating_add(room) > HEAP {
            return core::ptr::null_mut();
        }
        let start = self.heap.get().cast::<u8>();
        let free = start.wrapping_add(used);
        free.wrapping_add(free.align_offset(layout.align()))
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Bump = Bump { heap: UnsafeCell::new([0; HEAP]), used: AtomicUsize::new(0) };

// SAFETY: the C library's, which ends the program; a board would start again.
unsafe extern "C" {
    safe fn abort() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    abort()
}

/// Where the program begins.
// SAFETY: the one symbol of this name.
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    i32::from(zico_firmware::run().is_err())
}

/// The alloc crate of a hosted target is built to unwind, and names what does that. Nothing here
/// ever unwinds; boards' targets do not ask for it.
mod unwinding {
    // SAFETY: the one symbol of this name, never called.
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}

    // SAFETY: as above.
    #[unsafe(no_mangle)]
    extern "C" fn _Unwind_Resume() {}
}
