//! Why a recording is not that of a training job.

use zico_core::Bytes;
use zico_mock::trace::TraceError;

/// Why a recording is not that of a training job. Records are positions in the list of the file
/// that an event stands in, counted from zero.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Two marks of iterations overlap, so it is unclear where one ends.
    #[error("record {record}: the iteration starts before that of record {earlier} ends")]
    Overlap {
        /// The mark that starts later.
        record: u32,
        /// The mark that starts earlier.
        earlier: u32,
    },
    /// Memory is allocated that is in use.
    #[error("record {record}: {address:#x} is allocated, but is in use since record {earlier}")]
    InUse {
        /// The allocation.
        record: u32,
        /// The address.
        address: i64,
        /// The allocation before.
        earlier: u32,
    },
    /// A free is of another size than its allocation.
    #[error(
        "record {record}: {} bytes are freed at {address:#x}, where record {earlier} allocated {}",
        .freed.value(), .allocated.value()
    )]
    SizeDiffers {
        /// The free.
        record: u32,
        /// The address.
        address: i64,
        /// The size in the free.
        freed: Bytes,
        /// The allocation.
        earlier: u32,
        /// The size in the allocation.
        allocated: Bytes,
    },
    /// The events make no job.
    #[error("the events make no trace")]
    Trace(#[from] TraceError),
}
