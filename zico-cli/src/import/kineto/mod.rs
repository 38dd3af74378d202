//! Profiles of training jobs as PyTorch's profiler (Kineto) exports them: Chrome trace JSON, which is
//! an object with a list of events, `traceEvents`, or just the list.
//!
//! What is used of a profile, and how, besides what holds for all recordings
//! ([`import`](super#what-a-recording-becomes)):
//!
//! - **Memory.** Events named `[memory]`: an allocation if `Bytes` is positive, the free of the
//!   same `Addr` if it is negative. They are merged with everything else by time, whatever their
//!   order in the file. If an accelerator has allocated (`Device Type` is not 0), only its memory
//!   counts, otherwise the CPU's. There may be one accelerator: a trace is of one.
//! - **Iterations.** Annotations named `iteration`, or, if there are none, `ProfilerStep#N`, which
//!   a profiler with a schedule makes at each `step()`.
//! - **Phases.** Annotations named `data`, `forward`, `backward`, `optimizer` and `zero_grad`.
//! - **Launches.** If the accelerator that has allocated also ran something (`kernel`,
//!   `gpu_memcpy`, `gpu_memset` of that `device`): a launch for each call of the CUDA runtime or
//!   driver that made it do so. It stands where the call was made, found by its `correlation`, and
//!   is as long as what it asked for kept the device busy. What several streams did at once counts
//!   once. Otherwise launches are made out from the operators.
//!
//! Without activities of a GPU the work of a launch is how long the operator took on the host that
//! recorded it. If that job ran on a GPU, it is the time to issue the work, not to do it: such a
//! profile should be recorded with `ProfilerActivity.CUDA` as well.
//!
//! PyTorch reports sizes of GPU memory as its allocator hands them out, which is multiples of 512
//! bytes; a [memory snapshot](super::snapshot) has them as they were asked for.

mod error;
mod events;
mod gpu;
mod nanoseconds;
mod threads;

use std::collections::BTreeSet;
use std::io::Read;

use zico_mock::trace::Trace;

use super::recording::{Memory, Recording, of_operators, steps};

use events::Located;

pub use error::{KinetoError, Stopped};
pub use threads::{LONGEST_ID, MAX_THREADS};

/// Reads a profile (not compressed) and makes a trace of it with this name and provenance; the
/// provenance is added to if the launches are those of a GPU. The file is read as a stream: memory
/// is needed for its operators, kernels and memory events only, and for the names of its threads.
///
/// # Errors
///
/// See [`KinetoError`].
pub fn read(from: impl Read, name: String, mut provenance: String) -> Result<Trace, KinetoError> {
    let mut profile = events::read(from)?;
    let (device, memory) = of_one_device(profile.memory)?;
    let iterations = profile.annotations.iterations();
    if iterations.is_empty() {
        return Err(KinetoError::NoIterations);
    }
    let mut launches = match device {
        (CPU, _) => Vec::new(),
        (_, id) => gpu::launches(&profile.activities, &profile.calls, id),
    };
    if launches.is_empty() {
        launches = of_operators(&profile.ops, memory.iter().map(|event| event.at));
    } else {
        provenance.push_str("; launches last as long as on the GPU");
    }
    let phases = profile.annotations.phases;
    let recording = Recording { memory, ops: profile.ops, launches, iterations, phases };
    let (setup, iterations) = steps(recording)?;
    Ok(Trace::new(name, provenance, setup, iterations).map_err(super::RecordingError::from)?)
}

const CPU: i32 = 0;

/// The one accelerator, or the CPU if there is none, and its memory events in order of time.
fn of_one_device(memory: Vec<Located>) -> Result<((i32, i32), Vec<Memory>), KinetoError> {
    let devices: BTreeSet<_> = memory.iter().map(|&(device, _)| device).collect();
    let mut accelerators = devices.iter().copied().filter(|&(kind, _)| kind != CPU);
    let device = match (accelerators.next(), accelerators.next()) {
        (Some(first), Some(second)) => return Err(KinetoError::SeveralDevices { first, second }),
        (device, _) => device,
    };
    // Different numbers of the CPU are one.
    let counts = |of: (i32, i32)| device.is_none_or(|device| device == of);
    let mut memory: Vec<_> =
        memory.into_iter().filter(|&(of, _)| counts(of)).map(|(_, event)| event).collect();
    if memory.is_empty() {
        return Err(KinetoError::NoMemory);
    }
    memory.sort_by_key(|event| event.at);
    Ok((device.unwrap_or((CPU, 0)), memory))
}
