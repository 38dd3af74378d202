//! CUDA memory snapshots of PyTorch: pickles that `torch.cuda.memory._dump_snapshot` writes.
//!
//! A snapshot has the state of the caching allocator and, if its history was recorded, each
//! allocation and free before. What is used of it, and how, besides what holds for all recordings
//! ([`import`](super#what-a-recording-becomes)):
//!
//! - **Memory.** `alloc` and `free_requested` in `device_traces`, in the order in which they stand
//!   there, which is that of the program; the sizes are those that were asked for. When the device
//!   had passed a free (`free_completed`) is a matter of the allocator that hands memory on, and so
//!   are its segments: they are left out. Of several devices one is taken, because a trace is of
//!   one: that of [`Options::device_index`], or else the one that allocates the most bytes.
//! - **Older blocks.** A block that is in use in `segments`, but was not allocated in the history,
//!   was there before, and so was one that is freed without having been allocated.
//! - **Iterations.** Annotations named `iteration` or else `ProfilerStep#N` in
//!   `external_annotations`, where newer versions of PyTorch keep what `record_function` marks.
//!   Without them iterations are detected: stretches that allocate the same sizes, each from where
//!   the least is in use. An iteration of another shape does not count as one, nor do those that
//!   do not follow each other.
//! - **Phases.** Annotations named `data`, `forward`, `backward`, `optimizer` and `zero_grad`.
//! - **Operators** are not in a snapshot. The time from one allocation to the next is taken for
//!   one.
//! - **Launches** are not in a snapshot either. All time within an iteration is taken for work of
//!   the device, where it passes on the host: a launch is what lies between two events. That holds
//!   if the host waits for each launch, so record with `CUDA_LAUNCH_BLOCKING=1`. Otherwise it is
//!   the time to issue the work, and the time to do it lies where the host waits for the device (at
//!   `loss.item()`, say), or nowhere.
//!
//! The pickle is read by a reader of our own (`pickle/`) that carries nothing out but what
//! makes plain data.

mod entries;
mod error;
mod iterations;
mod pickle;

use std::io::BufRead;

use zico_core::Bytes;
use zico_mock::trace::Trace;

use super::before::{Before, Doubt, Options, Origin, Recorded, Source};
use super::recording::{Mark, Memory, Op, Recording, Steps, of_operators, steps};
use entries::Snapshot;

pub use error::{Place, SnapshotError};
pub use pickle::{MAX_HELD, PickleError};

/// Reads a snapshot (not compressed) and makes a trace of it with this name and provenance, to
/// which is added whether iterations were annotated or detected, and what [`Origin`] leaves open.
///
/// # Errors
///
/// See [`SnapshotError`]. No file makes it panic, run anything, or take more memory than
/// [`MAX_HELD`] and [`MAX_EVENTS`](super::MAX_EVENTS) allow.
pub fn read(
    from: impl BufRead,
    name: String,
    mut provenance: String,
    options: &Options,
) -> Result<Recorded, SnapshotError> {
    let (heap, root) = pickle::read(from)?;
    let Snapshot { memory, mut older, segments, device, others, mut annotations, end } =
        entries::snapshot(&heap, root, options.device_index)?;
    drop(heap);
    let (iterations, how) = match annotations.iterations() {
        none if none.is_empty() => {
            let live = live_before(&older, &memory);
            (iterations::detect(&memory, live, end), "; iterations detected")
        }
        annotated => (annotated, "; iterations as annotated"),
    };
    if iterations.is_empty() {
        return Err(SnapshotError::NoIterations);
    }
    let ops = operators(&memory, &iterations);
    let launches = of_operators(&ops, memory.iter().map(|event| event.at));
    let listed = sum(&older);
    let before = options.kept_before.map(|given| given.saturating_sub(listed).value());
    older.extend(memory);
    let phases = annotations.phases;
    let steps = steps(Recording { memory: older, launches, iterations, phases, before })?;
    let before = before_it_began(options.kept_before, listed, segments, &steps)?;
    let origin = Origin { device, others, before };
    provenance.push_str(how);
    provenance.push_str(&origin.provenance());
    let trace = Trace::new(name, provenance, steps.setup, steps.iterations);
    Ok(Recorded { trace: trace.map_err(super::RecordingError::from)?, origin })
}

/// What was in use before: what is `listed` in the segments, what was freed, and what the user says
/// there was beyond that.
fn before_it_began(
    given: Option<Bytes>,
    listed: Bytes,
    segments: bool,
    steps: &Steps,
) -> Result<Before, SnapshotError> {
    let known = listed.saturating_add(steps.unseen);
    let (bytes, source) = match given {
        Some(given) if given < known => return Err(SnapshotError::KeptBefore { given, known }),
        Some(given) => (given, Source::User),
        None if segments => (known, Source::Segments),
        None => (known, Source::Frees),
    };
    let doubt = (!segments && given.is_none()).then_some(Doubt::NoSegments);
    Ok(Before { bytes, block: steps.block, source, doubt })
}

fn sum(blocks: &[Memory]) -> Bytes {
    let bytes = blocks.iter().map(|event| Bytes::new(event.bytes.unsigned_abs()));
    bytes.fold(Bytes::ZERO, Bytes::saturating_add)
}

/// How much was in use when the recording began.
fn live_before(older: &[Memory], memory: &[Memory]) -> Bytes {
    let mut allocated = std::collections::HashSet::new();
    let freed_only = memory.iter().filter(|event| {
        if event.bytes > 0 {
            allocated.insert(event.address);
            return false;
        }
        allocated.insert(event.address)
    });
    let freed_only: Vec<Memory> = freed_only.copied().collect();
    sum(older).saturating_add(sum(&freed_only))
}

/// The stretches from one allocation, or the start of an iteration, to the next one, as far as they
/// lie within a mark.
fn operators(memory: &[Memory], iterations: &[Mark]) -> Vec<Op> {
    let mut marks = iterations.to_vec();
    marks.sort_by_key(|mark| mark.start);
    let allocations = memory.iter().filter(|event| event.bytes > 0).map(|event| event.at);
    let mut starts: Vec<i64> = allocations.chain(marks.iter().map(|mark| mark.start)).collect();
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([i64::MAX]);
    let op = |(&start, end): (&i64, i64)| {
        let mark = marks.partition_point(|mark| mark.start <= start).checked_sub(1)?;
        let end = end.min(marks[mark].end);
        (start < end).then_some(Op { start, end })
    };
    starts.iter().zip(ends).filter_map(op).collect()
}
