//! Iterations with operations, what they read and write and how long they take: input for
//! [`zico_plan::relief`].
//!
//! [`open`] looks at the content of a file, plain or in gzip, never at its name, and reads
//!
//! - graphs as networkx writes them in node-link form ([`node_link`]);
//! - logs of DTR's recorder ([`dtr`]);
//! - execution traces of PyTorch ([`execution`]), with the times of a profile;
//! - traces with operations (`.ztrace` of version 2, [`mod@zico_mock::trace::format`]): their last
//!   iteration.
//!
//! A name that is no file is that of a bundled recording with operations
//! ([`zico_mock::bundled::operations`]).

pub mod dtr;
pub mod execution;
pub mod node_link;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use execution::Times;
use flate2::bufread::MultiGzDecoder;
use serde_json::Value;
use zico_mock::bundled;
use zico_mock::trace::format::MAGIC;
use zico_mock::trace::{Operations, OperationsError, ReadError, Trace};
use zico_plan::relief::{Graph, GraphError, Kind};

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
    /// It is not there, and no bundled recording has its name.
    #[error(
        "there is no such file, and no recording with operations of that name: bundled are {}",
        bundled::operations().collect::<Vec<_>>().join(", ")
    )]
    NotThere,
    /// It cannot be read.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
    /// It is larger than [`MAX_BYTES`].
    #[error("it is larger than 1 GiB")]
    TooLarge,
    /// It is of no kind that is known.
    #[error(
        "it is neither a .ztrace, nor an execution trace of PyTorch, nor a node-link graph (both JSON), nor a \
         log of DTR (JSON lines); a profile does not say what its operations read and write"
    )]
    Unrecognised,
    /// It is no JSON.
    #[error("it is no JSON")]
    Json(#[from] serde_json::Error),
    /// It is no trace.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// A trace without operations, as those of version 1 are.
    #[error("its last iteration")]
    Operations(#[from] OperationsError),
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
    /// A profile is given for what has times of its own.
    #[error("it has times of its own: a profile belongs to an execution trace alone")]
    NotTimed,
    /// The operations make no iteration.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// What is not in the file.
#[derive(Clone, Debug)]
pub struct Options {
    /// The unit of the times in a node-link graph, in nanoseconds.
    pub unit: f64,
    /// The profile of the run that an execution trace is of. Without one, that of a file
    /// `NAME_et.json` is `NAME_kineto.json` beside it, if there is one.
    pub times: Option<PathBuf>,
}

impl Default for Options {
    /// Microseconds, and no profile.
    fn default() -> Self {
        Self { unit: 1e3, times: None }
    }
}

/// An iteration that has been read.
#[derive(Debug)]
pub struct Input {
    /// Its operations and storages.
    pub graph: Graph,
    /// What the file calls it, if it does.
    pub name: Option<String>,
    /// What each operation is called, where the file says so.
    pub names: Vec<String>,
    /// What somebody who uses it should know, a sentence each.
    pub notes: Vec<String>,
}

impl From<Graph> for Input {
    fn from(graph: Graph) -> Self {
        Self { graph, name: None, names: Vec::new(), notes: Vec::new() }
    }
}

/// Reads the iteration in a file.
///
/// # Errors
/// See [`InputProblem`]; whatever it is, the error names the file.
pub fn open(path: &Path, options: &Options) -> Result<Input, InputError> {
    let failed = |path: &Path, problem| InputError { path: path.to_owned(), problem };
    let name = path.to_str().filter(|_| !path.exists()).unwrap_or_default();
    let recorded = |trace: &Trace| {
        let done = no_profile(options.times.as_ref()).and_then(|()| of_trace(trace));
        done.map_err(|problem| failed(path, problem))
    };
    if let Ok(trace) = bundled::open_operations(name) {
        return recorded(&trace);
    }
    if !path.exists() {
        return Err(failed(path, InputProblem::NotThere));
    }
    let content = bytes(path).map_err(|problem| failed(path, problem))?;
    if content.starts_with(&MAGIC) {
        let trace = Trace::read(content.as_slice()).map_err(|error| failed(path, error.into()))?;
        return recorded(&trace);
    }
    let text = text(content).map_err(|problem| failed(path, problem))?;
    let beside = options.times.clone().or_else(|| profile_beside(path));
    let times = match beside.filter(|_| options.times.is_some() || !dtr::looks_like(&text)) {
        Some(file) => {
            let times = bytes(&file).and_then(self::text).and_then(|text| Times::parse(&text));
            Some(times.map_err(|problem| failed(&file, problem))?)
        }
        None => None,
    };
    parse(&text, options.unit, times.as_ref()).map_err(|problem| failed(path, problem))
}

/// The profile that lies beside an execution trace.
fn profile_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let beside = path.with_file_name(name.replacen("_et.json", "_kineto.json", 1));
    (beside != path && beside.exists()).then_some(beside)
}

/// The graph with the kinds of operations that their names tell.
fn with_kinds(graph: Graph, names: &[String]) -> Graph {
    graph.with_kinds(names.iter().map(|name| Kind::of(name)).collect())
}

/// The last iteration of a trace with operations.
///
/// # Errors
/// The trace does not say what its launches read and write.
pub fn of_trace(trace: &Trace) -> Result<Input, InputProblem> {
    let Operations { graph, names, backward, .. } =
        trace.operations(trace.iterations().len() - 1)?;
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let graph = match backward {
        Some(first) => graph.with_backward(first),
        None => graph,
    };
    Ok(Input {
        graph: with_kinds(graph, &names),
        name: Some(trace.name().to_owned()),
        names,
        notes: Vec::new(),
    })
}

/// What is in a file, plain or in gzip.
fn bytes(path: &Path) -> Result<Vec<u8>, InputProblem> {
    const GZIP: u8 = 0x1f;
    let mut file = BufReader::new(File::open(path)?);
    if file.fill_buf()?.first() == Some(&GZIP) {
        return read(MultiGzDecoder::new(file));
    }
    read(file)
}

fn read(file: impl Read) -> Result<Vec<u8>, InputProblem> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(InputProblem::TooLarge);
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> Result<String, InputProblem> {
    String::from_utf8(bytes).map_err(|_| InputProblem::Unrecognised)
}

/// Reads an iteration of whatever kind. Times of a node-link graph are in units of so many
/// nanoseconds; a profile is for an execution trace alone.
///
/// # Errors
/// See [`InputProblem`].
pub fn parse(text: &str, unit: f64, times: Option<&Times>) -> Result<Input, InputProblem> {
    if !text.trim_start().starts_with('{') {
        return Err(InputProblem::Unrecognised);
    }
    if dtr::looks_like(text) {
        return no_profile(times).and_then(|()| Ok(dtr::parse(text)?.into()));
    }
    let raw: Value = serde_json::from_str(text)?;
    if execution::looks_like(&raw) {
        return execution::parse(&raw, times);
    }
    no_profile(times).and_then(|()| Ok(node_link::parse(raw, unit)?.into()))
}

fn no_profile<T>(times: Option<&T>) -> Result<(), InputProblem> {
    if times.is_some() { Err(InputProblem::NotTimed) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
