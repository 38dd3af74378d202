//! Why a file is not the memory snapshot of a training job.

use std::fmt;

use zico_core::Bytes;

use super::pickle::PickleError;
use crate::import::MAX_EVENTS;
use crate::import::before::{Device, list};
use crate::import::recording::RecordingError;

/// Where in a snapshot something stands, as Python would write it: `device_traces[0][17]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The list at the top.
    pub list: &'static str,
    /// The position in that.
    pub index: Option<usize>,
    /// The position in the list there, or in its `blocks`.
    pub inner: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.list)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        match self.inner {
            Some(inner) if self.list == "segments" => write!(f, ".blocks[{inner}]"),
            Some(inner) => write!(f, "[{inner}]"),
            None => Ok(()),
        }
    }
}

/// Why a file is not the memory snapshot of a training job.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file is no pickle of plain data.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// The pickle is of something else.
    #[error("the pickle is no memory snapshot of PyTorch: it is no dictionary with device_traces")]
    NotASnapshot,
    /// Something is not of the type that it has in snapshots.
    #[error("{place} is no {expected}")]
    Type {
        /// Where it stands.
        place: Place,
        /// What it should be.
        expected: &'static str,
    },
    /// A record lacks something, or has something of another type in its place.
    #[error("{place}: {field} {}", if *.missing { "is missing" } else { "is not of its type" })]
    Field {
        /// The record.
        place: Place,
        /// The field of it.
        field: &'static str,
        /// Whether there is none.
        missing: bool,
    },
    /// A time or an address cannot be counted with.
    #[error("{place}: {field} is {found}, which is out of range")]
    Range {
        /// The record.
        place: Place,
        /// The field of it.
        field: &'static str,
        /// What stands there.
        found: i64,
    },
    /// A record has more fields than any that PyTorch writes.
    #[error("{place} has {found} fields")]
    Fields {
        /// The record.
        place: Place,
        /// How many there are.
        found: usize,
    },
    /// The snapshot is longer than any that is accepted.
    #[error("the snapshot has more than {MAX_EVENTS} records: record fewer events (max_entries)")]
    TooMany,
    /// Nothing is said about what happened before the snapshot.
    #[error(
        "the snapshot has no history of allocations: call \
         torch.cuda.memory._record_memory_history() before what is to be recorded"
    )]
    NoHistory,
    /// There is no device of the number that was asked for.
    #[error("the snapshot has no allocations of device {index}, only of {}", list(.there))]
    NoSuchDevice {
        /// What was asked for.
        index: u32,
        /// What there is.
        there: Vec<Device>,
    },
    /// More was in use before, as the snapshot shows, than was said.
    #[error(
        "--kept-before {given} cannot be: {known} of what was there before are in the snapshot"
    )]
    KeptBefore {
        /// What was said.
        given: Bytes,
        /// What is known of.
        known: Bytes,
    },
    /// There are no annotations, and what is allocated does not repeat.
    #[error(
        "the snapshot has no iterations: it has neither annotations named \"iteration\" (put `with \
         record_function(\"iteration\"):` around each) nor, in half of what it allocates, iterations \
         of 50 allocations or more that are each like the one before"
    )]
    NoIterations,
    /// The events are not those of a training job. Records are positions in the device's list in
    /// `device_traces`, or in `external_annotations` where it is about marks.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}
