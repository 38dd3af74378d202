//! Numbers for blocks that no other block has, of whichever job and pool: by its number a handle is
//! known to be of a block that is live.
//!
//! A job takes them in the order of its allocations from series of 2^32. The process counts the
//! series, and that is all it counts: no decision depends on which ones a job gets. (With the
//! 2^32nd series the count begins anew. By then as many jobs have joined.)

use core::sync::atomic::{AtomicU32, Ordering};

/// The next series. Not the model checker's: threads that draw from it see nothing else of each
/// other.
static SERIES: AtomicU32 = AtomicU32::new(1);

/// A job's numbers, which rise.
pub(super) struct Serials {
    next: u64,
}

impl Serials {
    pub(crate) fn new() -> Self {
        Self { next: new_series() }
    }

    /// The number of the next block.
    #[inline]
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// The next block has been made.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.next += 1;
        if self.next.trailing_zeros() >= u32::BITS {
            self.next = new_series();
        }
    }
}

/// The first number of a series. Zero stands for no block, and the last number of all for one that
/// has been freed; their series are left out.
#[cold]
fn new_series() -> u64 {
    loop {
        let series = SERIES.fetch_add(1, Ordering::Relaxed);
        if series != 0 && series != u32::MAX {
            return u64::from(series) << u32::BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_have_no_number_in_common_and_a_series_ends() {
        let (mut one, mut other) = (Serials::new(), Serials::new());
        assert_ne!(one.next(), other.next());
        one.next |= u64::from(u32::MAX) - 1;
        let last = one.next();
        one.take();
        assert_eq!(one.next(), last + 1);
        other.take();
        one.take();
        assert!(one.next() > other.next(), "the next series is a later one");
        assert_eq!(one.next() % (1 << 32), 0);
    }
}
