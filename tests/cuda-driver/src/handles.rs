//! Handles: numbers that are never reused.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What handles stand for.
pub(crate) type Table<T> = BTreeMap<usize, T>;

/// Not small, so that a stray number is none.
static NEXT: AtomicUsize = AtomicUsize::new(0x7000_0000);

pub(crate) fn new() -> usize {
    NEXT.fetch_add(16, Ordering::Relaxed)
}
