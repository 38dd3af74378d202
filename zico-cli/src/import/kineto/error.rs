//! Why a file is not the profile of a training job.

use std::fmt;
use std::io;

use zico_core::Bytes;

use crate::import::MAX_EVENTS;
use crate::import::before::{Device, list};
use crate::import::recording::RecordingError;

/// Where reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What the list of events is called: `traceEvents`, or `the list` where the file is just that.
    pub events: &'static str,
    /// The event in that list, counted from zero; nothing outside of it.
    pub record: Option<u32>,
    /// The line, counted from one; zero if it was not the text that went wrong but its file.
    pub line: usize,
    /// The byte in the line, counted from one.
    pub column: usize,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            Some(record) => write!(f, "record {record} of {}", self.events)?,
            None => write!(f, "outside of {}", self.events)?,
        }
        match self.line {
            0 => Ok(()),
            line => write!(f, ", line {line} column {}", self.column),
        }
    }
}

/// Why a file is not the profile of a training job. Records are events in the list of them, counted
/// from zero.
#[derive(Debug, thiserror::Error)]
pub enum KinetoError {
    /// The file is broken JSON.
    #[error("the JSON is broken ({0})", .stopped)]
    Json {
        /// Where.
        stopped: Stopped,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// The file is JSON, with something in it that no profile has there.
    #[error("the JSON is not that of a profile ({stopped})")]
    Unexpected {
        /// Where.
        stopped: Stopped,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// The JSON, or the gzip file that it is in, ends too early.
    #[error("the file is cut off ({stopped}): was the export interrupted?")]
    CutOff {
        /// Where.
        stopped: Stopped,
    },
    /// The file cannot be read on, or cannot be decompressed.
    #[error("the file cannot be read on ({stopped})")]
    Io {
        /// Where.
        stopped: Stopped,
        /// Why.
        source: io::Error,
    },
    /// The file comes from another program.
    #[error("the JSON has no traceEvents: it is no profile of the PyTorch profiler")]
    NoTraceEvents,
    /// The profile is longer than any that is accepted.
    #[error(
        "the profile has more than {MAX_EVENTS} operators, kernels and memory events: record less"
    )]
    TooMany,
    /// An event lacks something, or has nonsense in its place.
    #[error("record {record}: {field} {found}", found = match .found {
        Some(text) => format!("is {text}"),
        None => "is missing".to_owned(),
    })]
    Field {
        /// The event.
        record: u32,
        /// The field of it.
        field: &'static str,
        /// What stands there, cut off where it is long; nothing if the field is missing.
        found: Option<String>,
    },
    /// Nothing is said about memory.
    #[error("the profile has no memory events: record it with profile(profile_memory=True)")]
    NoMemory,
    /// Nothing is said about iterations.
    #[error(
        "the profile has no iterations: it has neither annotations named \"iteration\" \
         (put `with record_function(\"iteration\"):` around each) nor \"ProfilerStep#N\" \
         (give the profiler a schedule and call its step() after each)"
    )]
    NoIterations,
    /// There is no accelerator of the number that was asked for.
    #[error(
        "the profile has no memory events of an accelerator {index}, only of {}", list(.there)
    )]
    NoSuchDevice {
        /// What was asked for.
        index: u32,
        /// What there is.
        there: Vec<Device>,
    },
    /// More was in use before, as the profile shows, than was said.
    #[error(
        "--kept-before {given} cannot be: the profile frees {freed} that were in use before it began"
    )]
    KeptBefore {
        /// What was said.
        given: Bytes,
        /// What was freed without having been allocated.
        freed: Bytes,
    },
    /// The events are not those of a training job.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}
