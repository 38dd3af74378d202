//! Recorded training jobs, from whatever file they are in.
//!
//! [`open`] looks at the content of a file, never at its name, and reads
//!
//! - `.ztrace`, this project's own format ([`zico_mock::trace::format`]);
//! - what the PyTorch profiler exports ([`kineto`]);
//! - either of them in gzip.

pub mod csv;
pub mod kineto;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use zico_mock::trace::{ReadError, Trace, format};

use kineto::KinetoError;

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

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It cannot be opened, or not even its start can be read.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// It is neither JSON nor a `.ztrace`.
    #[error("it is neither a profile (JSON) nor a .ztrace, nor one of them in gzip")]
    Unrecognised,
    /// It is JSON, but not a profile of a training job.
    #[error("reading it as a profile")]
    Kineto(#[from] KinetoError),
    /// It looks like a `.ztrace` but is none, or is damaged.
    #[error("reading it as a .ztrace")]
    Trace(#[from] ReadError),
}

/// Reads the recorded job in the file at `path`.
///
/// A profile does not say what it is of: the trace gets the name of the file, up to the first dot.
///
/// # Errors
///
/// See [`Problem`]; whatever it is, the error names the file.
pub fn open(path: &Path) -> Result<Trace, ImportError> {
    let failed = |problem| ImportError { path: path.to_owned(), problem };
    let file = File::open(path).map_err(|error| failed(Problem::Io(error)))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    read(BufReader::new(file), &name).map_err(failed)
}

fn read(mut file: impl BufRead, name: &str) -> Result<Trace, Problem> {
    const GZIP: u8 = 0x1f;
    if first_byte(&mut file)? == GZIP {
        return read_plain(BufReader::new(MultiGzDecoder::new(file)), name);
    }
    read_plain(file, name)
}

fn read_plain(mut file: impl BufRead, name: &str) -> Result<Trace, Problem> {
    const ZTRACE: u8 = format::MAGIC[0];
    match first_byte(&mut file)? {
        ZTRACE => Ok(Trace::read(file)?),
        b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' => {
            let stem = name.split('.').next().unwrap_or(name);
            let provenance = format!("recorded with the PyTorch profiler, imported from {name}");
            Ok(kineto::read(file, stem.to_owned(), provenance)?)
        }
        _ => Err(Problem::Unrecognised),
    }
}

fn first_byte(file: &mut impl BufRead) -> Result<u8, Problem> {
    file.fill_buf().map_err(Problem::Io)?.first().copied().ok_or(Problem::Empty)
}
