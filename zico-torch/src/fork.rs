//! Processes that fork.
//!
//! A child has its parent's books and none of its memory, and it must not speak for its parent to
//! anybody. So it is told apart from its parent for good, and every call in it is refused before it
//! takes a lock: one that another thread held at the fork stays locked in the child for ever.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process is a child, made by `fork` after something had been opened.
#[inline]
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// From now on a child of this process knows that it is one.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        extern "C" fn child() {
            IS_CHILD.store(true, Ordering::Relaxed);
        }
        // SAFETY: the handler is a function that stays; it stores to an atomic, which is allowed
        // there.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(child)) };
        // Only for want of memory.
        assert_eq!(failed, 0, "pthread_atfork: no memory");
    });
}
