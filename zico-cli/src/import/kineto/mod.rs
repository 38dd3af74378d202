//! Profiles of training jobs as PyTorch's profiler (Kineto) exports them: Chrome trace JSON.
//!
//! What is used of a profile, and how:
//!
//! - **Memory.** Events named `[memory]`: an allocation if `Bytes` is positive, the free of the
//!   same `Addr` if it is negative. They are merged with everything else by time, whatever their
//!   order in the file. If an accelerator has allocated (`Device Type` is not 0), only its memory
//!   counts, otherwise the CPU's.
//! - **Iterations.** Annotations named `iteration`, or, if there are none, `ProfilerStep#N`, which
//!   a profiler with a schedule makes at each `step()`. An iteration owns everything from its
//!   start to the start of the next one, the last one everything to its end; what follows is
//!   teardown and is left out.
//! - **Setup.** Blocks alive when the first iteration starts. A block that is freed without having
//!   been allocated was there before the recording, and is one of them.
//! - **Lifetimes.** Persistent: blocks of the setup that no iteration frees and, if there are at
//!   least two iterations, blocks of the first one that are still alive at the end (an optimizer
//!   makes its state in its first step). Transient: blocks that are allocated and freed within one
//!   iteration and one outermost operator. All others live for an iteration.
//! - **Launches.** At each moment the innermost operator that is running is taken to be what keeps
//!   the device busy. A launch is a stretch of time in which that stays the same operator and
//!   nothing is allocated or freed. It stands where it starts in the order of events. Stretches
//!   below [`SHORTEST_LAUNCH`] are taken for the host's own bookkeeping and left out.
//! - **Phases.** Annotations named `data`, `forward`, `backward`, `optimizer` and `zero_grad`.
//!
//! The work of a launch is how long the operator took on the host that recorded it. In a profile
//! of a GPU that is the time to issue the work, not to do it.

mod assemble;
mod blocks;
mod error;
mod events;
mod launches;
mod nanoseconds;

use std::io::Read;

use zico_core::Ticks;
use zico_mock::trace::Trace;

pub use error::{KinetoError, Stopped};

/// The shortest time that counts as work of the device.
pub const SHORTEST_LAUNCH: Ticks = Ticks::micros(10);

/// The most operators, memory events and annotations together that a profile may have: 2^24, of
/// which a long profile of a large model has a hundredth. It bounds the memory that an import
/// needs, some 40 bytes for each.
pub const MAX_EVENTS: usize = 1 << 24;

/// Reads a profile (not compressed) and makes a trace of it with this name and provenance. The
/// file is read as a stream: memory is needed for its operators and memory events only.
///
/// # Errors
///
/// See [`KinetoError`].
pub fn read(from: impl Read, name: String, provenance: String) -> Result<Trace, KinetoError> {
    let recording = events::read(from)?;
    let (setup, iterations) = assemble::steps(recording)?;
    Ok(Trace::new(name, provenance, setup, iterations)?)
}
