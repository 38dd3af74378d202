//! The operations of a [`Device`](zico_core::Device) and its host tier that can fail, for counters
//! and fault plans.

use std::fmt;

bitflags::bitflags! {
    /// A set of the operations that can fail.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Operations: u16 {
        /// `reserve`
        const RESERVE = 1 << Operation::Reserve as u16;
        /// `release`
        const RELEASE = 1 << Operation::Release as u16;
        /// `create`
        const CREATE = 1 << Operation::Create as u16;
        /// `destroy`
        const DESTROY = 1 << Operation::Destroy as u16;
        /// `map`
        const MAP = 1 << Operation::Map as u16;
        /// `unmap`
        const UNMAP = 1 << Operation::Unmap as u16;
        /// `record`
        const RECORD = 1 << Operation::Record as u16;
        /// `query`
        const QUERY = 1 << Operation::Query as u16;
        /// `order_after`
        const ORDER_AFTER = 1 << Operation::OrderAfter as u16;
        /// `allocate` of the host tier
        const ALLOCATE = 1 << Operation::Allocate as u16;
        /// `free` of the host tier
        const FREE = 1 << Operation::Free as u16;
        /// `copy_out` of the host tier
        const COPY_OUT = 1 << Operation::CopyOut as u16;
        /// `copy_in` of the host tier
        const COPY_IN = 1 << Operation::CopyIn as u16;
    }
}

/// An operation of a device that can fail: the ones that reach a driver.
///
/// `caps`, `now` and `base` cannot, and are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `reserve`
    Reserve,
    /// `release`
    Release,
    /// `create`
    Create,
    /// `destroy`
    Destroy,
    /// `map`
    Map,
    /// `unmap`
    Unmap,
    /// `record`
    Record,
    /// `query`
    Query,
    /// `order_after`
    OrderAfter,
    /// `allocate` of the host tier
    Allocate,
    /// `free` of the host tier
    Free,
    /// `copy_out` of the host tier
    CopyOut,
    /// `copy_in` of the host tier
    CopyIn,
}

impl Operation {
    /// All of them, in the order of the traits.
    pub const ALL: [Self; 13] = [
        Self::Reserve,
        Self::Release,
        Self::Create,
        Self::Destroy,
        Self::Map,
        Self::Unmap,
        Self::Record,
        Self::Query,
        Self::OrderAfter,
        Self::Allocate,
        Self::Free,
        Self::CopyOut,
        Self::CopyIn,
    ];
}

impl From<Operation> for Operations {
    fn from(operation: Operation) -> Self {
        Self::from_bits_retain(1 << operation as u16)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserve => "reserve",
            Self::Release => "release",
            Self::Create => "create",
            Self::Destroy => "destroy",
            Self::Map => "map",
            Self::Unmap => "unmap",
            Self::Record => "record",
            Self::Query => "query",
            Self::OrderAfter => "order_after",
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::CopyOut => "copy_out",
            Self::CopyIn => "copy_in",
        })
    }
}

/// How often each operation has been called, refused calls included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls([u64; Operation::ALL.len()]);

impl Calls {
    /// Calls of one operation.
    #[must_use]
    pub const fn of(&self, operation: Operation) -> u64 {
        self.0[operation as usize]
    }

    /// Calls of all of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The calls made since an earlier reading of the same counts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut calls = *self;
        for (count, before) in calls.0.iter_mut().zip(earlier.0) {
            *count = count.saturating_sub(before);
        }
        calls
    }

    /// Counts a call and returns the count of that operation, this call included.
    pub(crate) fn count(&mut self, operation: Operation) -> u64 {
        let count = &mut self.0[operation as usize];
        *count = count.saturating_add(1);
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_own_flag_and_count() {
        let mut calls = Calls::default();
        let mut all = Operations::empty();
        for (i, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, i);
            assert!(!all.contains(operation.into()));
            all |= operation.into();
            let before = calls;
            assert_eq!(calls.count(operation), 1);
            assert_eq!(calls.since(&before).of(operation), 1);
            assert_eq!(calls.since(&before).total(), 1);
        }
        assert_eq!(all, Operations::all());
        assert_eq!(calls.total(), 13);
    }
}
