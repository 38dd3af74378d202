//! What is wrong with a graph or a schedule.

use core::fmt;

/// A graph that cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// There are 2^31 storages or operations, or more.
    TooMany,
    /// All bytes, or all times, come to 2^62 or more.
    TooLarge,
    /// An alias of an alias, or of no storage.
    Alias {
        /// Its position.
        storage: usize,
    },
    /// An operation names a storage that there is not.
    NoStorage {
        /// The position of the operation.
        operation: usize,
        /// What it names.
        storage: usize,
    },
    /// An operation reads what nothing has written.
    NoContents {
        /// The position of the operation.
        operation: usize,
        /// What it reads.
        storage: usize,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooMany => write!(f, "there are more than 2^31 operations or storages"),
            Self::TooLarge => write!(f, "all bytes, or all times, come to more than 2^62"),
            Self::Alias { storage } => write!(f, "storage {storage} is an alias of no storage"),
            Self::NoStorage { operation, storage } => {
                write!(f, "operation {operation} names storage {storage}, which there is not")
            }
            Self::NoContents { operation, storage } => {
                write!(
                    f,
                    "operation {operation} reads storage {storage}, which nothing has written"
                )
            }
        }
    }
}

impl core::error::Error for GraphError {}

/// Why a schedule is refused, and at which of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The position of the step; the number of steps for what is missing at the end.
    pub step: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What can be wrong with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// There is no such operation or storage, or the storage has no encoding.
    Unknown,
    /// A storage is not on the device where it is needed.
    Absent {
        /// The storage.
        storage: u32,
    },
    /// A storage has other contents than those that the operation read when it was recorded.
    Stale {
        /// The storage.
        storage: u32,
    },
    /// A storage would be made, or brought back, that is on the device already.
    Present {
        /// The storage.
        storage: u32,
    },
    /// An operation is run again that does not give the same result each time.
    NotRepeatable {
        /// The operation.
        operation: u32,
    },
    /// A lossy encoding, and nobody asked for one.
    Lossy {
        /// The storage.
        storage: u32,
    },
    /// There is no room in the budget, whatever is waited for.
    OverBudget {
        /// The bytes that would be in use.
        bytes: u64,
    },
    /// A step takes place before what it uses is there, while its channel is busy, while something
    /// else uses what it takes away, or for another time than it has to.
    Untimely,
    /// An operation never runs.
    Missing {
        /// The operation.
        operation: u32,
    },
    /// A storage is said to be on the host before the iteration that does not persist, or after
    /// other steps; or it is not on the host alone after the iteration.
    NotHosted {
        /// The storage.
        storage: u32,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: ", self.step)?;
        match self.fault {
            Fault::Unknown => write!(f, "no such operation, storage or encoding"),
            Fault::Absent { storage } => write!(f, "storage {storage} is not on the device"),
            Fault::Stale { storage } => write!(f, "storage {storage} has other contents"),
            Fault::Present { storage } => write!(f, "storage {storage} is on the device already"),
            Fault::NotRepeatable { operation } => {
                write!(f, "operation {operation} cannot be run again")
            }
            Fault::Lossy { storage } => write!(f, "the encoding of storage {storage} is lossy"),
            Fault::OverBudget { bytes } => write!(f, "{bytes} bytes would be in use"),
            Fault::Untimely => write!(f, "it takes place at a time at which it cannot"),
            Fault::Missing { operation } => write!(f, "operation {operation} never runs"),
            Fault::NotHosted { storage } => {
                write!(f, "storage {storage} is not on the host before and after the iteration")
            }
        }
    }
}

impl core::error::Error for Refusal {}
