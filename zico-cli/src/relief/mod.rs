//! Iterations with operations, what they read and write and how long they take: input for
//! [`zico_plan::relief`].
//!
//! [`open`] looks at the content of a file, plain or in gzip, never at its name, and reads
//!
//! - graphs as networkx writes them in node-link form ([`node_link`]);
//! - logs of DTR's recorder ([`dtr`]).

pub mod dtr;
pub mod node_link;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use zico_plan::relief::{Graph, GraphError};

/// The most bytes of a file, out of its gzip: 1 GiB.
pub const MAX_BYTES: u64 = 1 << 30;

/// An iteration that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read operations from {}", .path.display())]
pub struct InputError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: InputProblem,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputProblem {
    /// It cannot be read.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
    /// It is larger than [`MAX_BYTES`].
    #[error("it is larger than 1 GiB")]
    TooLarge,
    /// It is of no kind that is known.
    #[error(
        "it is neither a node-link graph (JSON) nor a log of DTR (JSON lines); a profile or a .ztrace \
         does not say what its operations read and write"
    )]
    Unrecognised,
    /// It is no JSON.
    #[error("it is no JSON")]
    Json(#[from] serde_json::Error),
    /// A line of a log is wrong.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Something in a graph is wrong.
    #[error("{0}")]
    Node(String),
    /// The operations make no iteration.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Reads the iteration in a file. Times of a node-link graph are in units of so many nanoseconds.
///
/// # Errors
/// See [`InputProblem`]; whatever it is, the error names the file.
pub fn open(path: &Path, unit: f64) -> Result<Graph, InputError> {
    let failed = |problem| InputError { path: path.to_owned(), problem };
    let file = File::open(path).map_err(|error| failed(error.into()))?;
    read(BufReader::new(file), unit).map_err(failed)
}

fn read(mut file: impl BufRead, unit: f64) -> Result<Graph, InputProblem> {
    const GZIP: u8 = 0x1f;
    if file.fill_buf()?.first() == Some(&GZIP) {
        return read_plain(MultiGzDecoder::new(file), unit);
    }
    read_plain(file, unit)
}

fn read_plain(file: impl Read, unit: f64) -> Result<Graph, InputProblem> {
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(InputProblem::TooLarge);
    }
    let text = String::from_utf8(text).map_err(|_| InputProblem::Unrecognised)?;
    if !text.trim_start().starts_with('{') {
        return Err(InputProblem::Unrecognised);
    }
    if dtr::looks_like(&text) { dtr::parse(&text) } else { node_link::parse(&text, unit) }
}

#[cfg(test)]
mod tests;
