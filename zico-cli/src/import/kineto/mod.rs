//! Profiles of training jobs as PyTorch's profiler (Kineto) exports them: Chrome trace JSON, which
//! is an object with a list of events, `traceEvents`, or just the list.
//!
//! What is used of a profile, and how, besides what holds for all recordings
//! ([`import`](super#what-a-recording-becomes)):
//!
//! - **Memory.** Events named `[memory]`: an allocation if `Bytes` is positive, the free of the
//!   same `Addr` if it is negative. They are merged with everything else by time, whatever their
//!   order in the file. If an accelerator has allocated (`Device Type` is not 0), only its memory
//!   counts, otherwise the CPU's. Of several accelerators one is taken, because a trace is of one:
//!   that of [`Options::device_index`], or else the one that allocates the most bytes.
//! - **What was there before.** `Total Allocated` is what is in use on the device after an event.
//!   Less what the events up to then have allocated and not freed, that is what was in use before
//!   the profile; what more than half of the events say counts. As far as the profile does not free
//!   it, it becomes one persistent block, the first of the trace. PyTorch counts the CPU's memory
//!   only from when the profiler first looked, so of the CPU there is nothing to be known.
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

mod devices;
mod error;
mod events;
mod gpu;
mod nanoseconds;
mod totals;

use std::io::Read;

use zico_core::Bytes;
use zico_mock::trace::Trace;

use super::before::{Before, Device, Doubt, Options, Origin, Recorded, Source};
use super::recording::{Memory, Recording, Steps, of_operators, steps};
use devices::OneDevice;

pub use error::{KinetoError, Stopped};

/// Reads a profile (not compressed) and makes a trace of it with this name and provenance; the
/// provenance is added to if the launches are those of a GPU, and by what [`Origin`] leaves open.
/// The file is read as a stream: memory is needed for its operators, kernels and memory events
/// only, and for the names of its threads.
///
/// # Errors
///
/// See [`KinetoError`].
pub fn read(
    from: impl Read,
    name: String,
    mut provenance: String,
    options: &Options,
) -> Result<Recorded, KinetoError> {
    let mut profile = events::read(from)?;
    let OneDevice { device, others, events } = devices::one(profile.memory, options.device_index)?;
    let begins_later = profile.annotations.begin_later();
    let iterations = profile.annotations.iterations();
    if iterations.is_empty() {
        return Err(KinetoError::NoIterations);
    }
    let totals = totals::before(&events);
    let memory: Vec<Memory> = events.into_iter().map(|(event, _)| event).collect();
    let mut launches = match device {
        Device::Cpu => Vec::new(),
        Device::Accelerator { index, .. } => {
            gpu::launches(&profile.activities, &profile.calls, index)
        }
    };
    if launches.is_empty() {
        launches = of_operators(&profile.ops, memory.iter().map(|event| event.at));
    } else {
        provenance.push_str("; launches last as long as on the GPU");
    }
    let phases = profile.annotations.phases;
    let known = totals.ok().map(|(bytes, _)| bytes);
    let before = options.kept_before.map(Bytes::value).or(known);
    let recording = Recording { memory, launches, iterations, phases, before };
    let steps = steps(recording)?;
    let begins_later = begins_later || steps.setup.is_empty();
    let before = match options.kept_before {
        Some(given) => as_given(given, &steps)?,
        None => as_recorded(totals, device, begins_later, &steps),
    };
    let origin = Origin { device, others, before };
    provenance.push_str(&origin.provenance());
    let trace = Trace::new(name, provenance, steps.setup, steps.iterations);
    Ok(Recorded { trace: trace.map_err(super::RecordingError::from)?, origin })
}

/// What the user says was in use before.
fn as_given(given: Bytes, steps: &Steps) -> Result<Before, KinetoError> {
    if given < steps.unseen {
        return Err(KinetoError::KeptBefore { given, freed: steps.unseen });
    }
    Ok(Before { bytes: given, block: steps.block, source: Source::User, doubt: None })
}

/// What the profile says was in use before. Of the CPU it cannot say so: see [`Doubt::HostTotals`].
fn as_recorded(
    totals: Result<(u64, Option<Doubt>), Doubt>,
    device: Device,
    begins_later: bool,
    steps: &Steps,
) -> Before {
    let bytes = steps.unseen.saturating_add(steps.block);
    let (source, doubt) = match totals {
        Ok((total, _)) if total < steps.unseen.value() => {
            (Source::Frees, Some(Doubt::TotalsTooLow))
        }
        Ok((_, doubt)) => (Source::Totals, doubt),
        Err(doubt) => (Source::Frees, Some(doubt)),
    };
    let doubt = match (device, begins_later) {
        (Device::Cpu, true) => Some(Doubt::HostTotals),
        // A profile of the CPU that begins with the training has seen everything.
        (Device::Cpu, false) => doubt.filter(|&doubt| doubt != Doubt::NoTotals),
        _ => doubt,
    };
    Before { bytes, block: steps.block, source, doubt }
}
