//! Import of recorded training jobs, in any supported format.
//!
//! [`open`] looks at the content of a file, never at its name, and reads
//!
//! - `.ztrace`, this project's own format ([`zico_mock::trace::format`]);
//! - what the PyTorch profiler exports ([`kineto`]);
//! - memory snapshots of PyTorch's CUDA allocator ([`snapshot`]);
//! - any of them in gzip.
//!
//! # What a recording becomes
//!
//! - **Iterations.** An iteration owns everything from its start to the start of the next one, the
//!   last one everything to its end; what follows is teardown and is left out.
//! - **Setup.** Blocks alive when the first iteration starts. A block that is freed without having
//!   been allocated was there before the recording, and is one of them. What was in use before the
//!   recording without being freed in it shows in no event: a profile counts it, a snapshot lists
//!   it ([`Before`]), and it persists.
//! - **Lifetimes.** Persistent: blocks of the setup that no iteration frees and, if there are at
//!   least two iterations, blocks of the first one that are still alive at the end (an optimizer
//!   makes its state in its first step). All others live for an iteration.
//! - **Launches** stand where they start in the order of events. Where a recording does not say
//!   what the device did, it is made out from the operators: at each moment the innermost one that
//!   is running is taken to be what keeps the device busy. A launch is then a stretch of time in
//!   which that stays the same operator and nothing is allocated or freed. Stretches below
//!   [`SHORTEST_LAUNCH`] are taken for the host's own bookkeeping and left out.

mod before;
pub mod csv;
pub mod kineto;
mod recording;
pub mod snapshot;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use zico_core::Ticks;
use zico_mock::trace::{ReadError, Trace, format};

pub use before::{Before, Device, Doubt, Options, Origin, Recorded, Source};
use kineto::KinetoError;
use snapshot::SnapshotError;

pub use recording::RecordingError;

/// The shortest time on the host that counts as work of the device.
pub const SHORTEST_LAUNCH: Ticks = Ticks::micros(10);

/// The most events that are used of a recording: 2^24, of which a long profile of a large model has
/// a hundredth. It bounds the memory that an import needs, some 60 bytes for each. No text of a
/// file is kept beyond that but what a trace is called, who made it from what
/// ([`format::MAX_TEXT`]), and what tells blocks apart ([`csv::MAX_IDS`]).
pub const MAX_EVENTS: usize = 1 << 24;

/// A file that could not be imported.
#[derive(Debug, thiserror::Error)]
#[error("cannot import {}", .path.display())]
pub struct ImportError {
    /// The file, as it was asked for.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

/// An error in a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It cannot be opened, or not even its start can be read.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// Its format is unknown.
    #[error(
        "it is neither a profile (JSON) nor a memory snapshot (pickle) nor a .ztrace, nor one of \
         them in gzip"
    )]
    Unrecognised,
    /// It is JSON, but not a profile of a training job.
    #[error("reading it as a profile")]
    Kineto(#[from] KinetoError),
    /// It starts as a pickle does, but is not the memory snapshot of a training job.
    #[error("reading it as a memory snapshot")]
    Snapshot(#[from] SnapshotError),
    /// It looks like a `.ztrace` but is none, or is damaged.
    #[error("reading it as a .ztrace")]
    Trace(#[from] ReadError),
}

/// What is in a file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The recorded job.
    pub trace: Trace,
    /// The origin in a recording; none if the file is a `.ztrace`.
    pub origin: Option<Origin>,
}

/// Reads the recorded job in the file at `path`, as [`open_with`] does without options.
///
/// # Errors
///
/// See [`Problem`]; whatever it is, the error names the file.
pub fn open(path: &Path) -> Result<Trace, ImportError> {
    open_with(path, &Options::default()).map(|imported| imported.trace)
}

/// Reads the recorded job in the file at `path`. Options say what to take of a recording; for a
/// `.ztrace` they mean nothing.
///
/// A recording does not say what it is of: the trace gets the name of the file, up to the first
/// dot.
///
/// # Errors
///
/// See [`Problem`]; whatever it is, the error names the file.
pub fn open_with(path: &Path, options: &Options) -> Result<Imported, ImportError> {
    let failed = |problem| ImportError { path: path.to_owned(), problem };
    let file = File::open(path).map_err(|error| failed(Problem::Io(error)))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    read(BufReader::new(file), &name, options).map_err(failed)
}

fn read(mut file: impl BufRead, name: &str, options: &Options) -> Result<Imported, Problem> {
    const GZIP: u8 = 0x1f;
    if first_byte(&mut file)? == GZIP {
        return read_plain(BufReader::new(MultiGzDecoder::new(file)), name, options);
    }
    read_plain(file, name, options)
}

fn read_plain(mut file: impl BufRead, name: &str, options: &Options) -> Result<Imported, Problem> {
    const ZTRACE: u8 = format::MAGIC[0];
    /// Pickles of protocol 2 and later say their protocol first.
    const PICKLE: u8 = 0x80;
    let stem = || name.split('.').next().unwrap_or(name).to_owned();
    let by = |with: &str| format!("recorded with the PyTorch {with}, imported from {name}");
    let Recorded { trace, origin } = match first_byte(&mut file)? {
        ZTRACE => return Ok(Imported { trace: Trace::read(file)?, origin: None }),
        PICKLE => snapshot::read(file, stem(), by("memory snapshot"), options)?,
        b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' => {
            kineto::read(file, stem(), by("profiler"), options)?
        }
        _ => return Err(Problem::Unrecognised),
    };
    Ok(Imported { trace, origin: Some(origin) })
}

fn first_byte(file: &mut impl BufRead) -> Result<u8, Problem> {
    file.fill_buf().map_err(Problem::Io)?.first().copied().ok_or(Problem::Empty)
}
