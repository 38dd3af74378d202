//! What a refused call gives back.

use core::fmt;

/// A refused call that gives back the resource it was given, so that nothing is lost (I8).
#[derive(Debug)]
pub struct Refused<T, E> {
    /// What the call was to consume.
    pub resource: T,
    /// Why it did not.
    pub error: E,
}

impl<T, E: fmt::Display> fmt::Display for Refused<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
