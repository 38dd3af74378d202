//! The training jobs that come with the library: recorded ones ([`names`]), small synthetic ones
//! ([`made`]), some of the size of a large GPU ([`large`]), and recordings of what each launch
//! reads and writes ([`operations`]).
//!
//! `traces/README.md` says where they come from and what they are not.

use super::{ReadError, Trace};

/// Names and files, in the order of the names.
macro_rules! traces {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../traces/", $folder, $name, ".ztrace")))),*]
    };
}

const TRACES: &[(&str, &[u8])] = traces!["":
    "bert-base",
    "dlrm",
    "gcn",
    "gnmt",
    "gpt2-small",
    "mobilenet_v2",
    "nasnetalarge",
    "resnet110-cifar",
    "resnet50",
    "unet",
    "whisper-tiny",
];

const MADE: &[(&str, &[u8])] = traces!["": "carry"];

const LARGE: &[(&str, &[u8])] = traces!["gpu/": "bert-large-like", "gpt2-large"];

const OPERATIONS: &[(&str, &[u8])] =
    traces!["operations/": "bert-base", "gcn", "gpt2-small", "resnet50"];

fn all() -> impl Iterator<Item = &'static (&'static str, &'static [u8])> {
    TRACES.iter().chain(MADE).chain(LARGE)
}

/// Why a bundled trace could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BundledError {
    /// There is no such trace.
    #[error(
        "no bundled trace is called \"{name}\"; there are {}",
        every().collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// There is no such recording with operations.
    #[error(
        "no bundled recording with operations is called \"{name}\"; there are {}",
        operations().collect::<Vec<_>>().join(", ")
    )]
    UnknownOperations {
        /// The name that was asked for.
        name: String,
    },
    /// The trace was damaged before it was built into the library.
    #[error("the bundled trace \"{name}\"")]
    Damaged {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        source: ReadError,
    },
}

/// The names of the recorded jobs, sorted. All figures of the documentation are of these.
pub fn names() -> impl Iterator<Item = &'static str> {
    TRACES.iter().map(|&(name, _)| name)
}

/// The names of the synthetic jobs, sorted. Each does something that the recorded ones do not.
/// `carry` replaces its loss in each iteration.
pub fn made() -> impl Iterator<Item = &'static str> {
    MADE.iter().map(|&(name, _)| name)
}

/// The names of recorded jobs that need most of a GPU of 80 GB, sorted. Sizes and order are those
/// of PyTorch's CUDA backend, and times are by a rule ([`Trace::timed_by_bytes`]).
pub fn large() -> impl Iterator<Item = &'static str> {
    LARGE.iter().map(|&(name, _)| name)
}

/// All names that [`open`] knows: [`names`], [`made`] and [`large`].
pub fn every() -> impl Iterator<Item = &'static str> {
    all().map(|&(name, _)| name)
}

/// The names of the recordings that say what each launch reads and writes, sorted. They are other
/// recordings than those of the same [`names`], and are opened by [`open_operations`].
pub fn operations() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|&(name, _)| name)
}

/// Reads the bundled recording with operations of this name.
///
/// # Errors
///
/// No such recording has this name.
pub fn open_operations(name: &str) -> Result<Trace, BundledError> {
    let found = OPERATIONS.iter().find(|&&(known, _)| known == name);
    let unknown = || BundledError::UnknownOperations { name: name.to_owned() };
    let &(name, file) = found.ok_or_else(unknown)?;
    Trace::read(file).map_err(|source| BundledError::Damaged { name, source })
}

/// Reads the bundled trace of this name, one of [`every`]: a millisecond for most, ten for the
/// longest.
///
/// # Errors
///
/// No trace has this name.
pub fn open(name: &str) -> Result<Trace, BundledError> {
    let found = all().find(|&&(known, _)| known == name);
    let &(name, file) = found.ok_or_else(|| BundledError::Unknown { name: name.to_owned() })?;
    Trace::read(file).map_err(|source| BundledError::Damaged { name, source })
}
