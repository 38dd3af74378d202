//! Memory in use before a recording began: most jobs are recorded in the middle of their training.

use std::fmt;

use zico_core::Bytes;
use zico_mock::trace::Trace;

/// Options for reading a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The accelerator whose memory counts, by its number; without it the one that allocates the
    /// most.
    pub device_index: Option<u32>,
    /// What was in use when the recording began; without it what the recording says.
    pub kept_before: Option<Bytes>,
}

/// A recording as a trace.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The trace.
    pub trace: Trace,
    /// Its origin in the recording.
    pub origin: Origin,
}

/// The part of a recording that became a trace, and what remains unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The device whose memory it is.
    pub device: Device,
    /// Other accelerators with memory events, which are not in the trace.
    pub others: Vec<Device>,
    /// What was in use when the recording began.
    pub before: Before,
}

/// A device of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The host.
    Cpu,
    /// An accelerator.
    Accelerator {
        /// PyTorch's number of the kind of device: 1 is CUDA.
        kind: i32,
        /// Its number among those of its kind.
        index: i32,
    },
}

/// Memory in use when a recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The known bytes. All of them are in the trace.
    pub bytes: Bytes,
    /// Of these, what the recording tells nothing more of: one persistent block, the first of the
    /// trace. The others are blocks of which the recording has the size or the free.
    pub block: Bytes,
    /// The source of the figure.
    pub source: Source,
    /// Why the figure may be incomplete or wrong.
    pub doubt: Option<Doubt>,
}

/// The source of the figure for memory in use when a recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `Total Allocated` of the memory events, less what they had allocated until then.
    Totals,
    /// The segments of the snapshot, and the frees of blocks whose allocation is not in it.
    Segments,
    /// Only the frees of blocks whose allocation was not recorded.
    Frees,
    /// The user ([`Options::kept_before`]).
    User,
}

/// Why the figure for memory in use before a recording may be incomplete or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The memory events have no `Total Allocated`.
    NoTotals,
    /// For half of the memory events or more there is no common difference of `Total Allocated` and
    /// what they have allocated until then.
    NoCommonTotals,
    /// `Total Allocated` is less than what the events have allocated, or than what they free of
    /// before.
    TotalsTooLow,
    /// By `Total Allocated` more was in use than any device has.
    TotalsTooHigh,
    /// Some memory events have another difference, or none: events are missing, or out of order.
    TotalsDiffer {
        /// How many.
        events: usize,
        /// The number of all events.
        of: usize,
    },
    /// PyTorch counts the memory of the CPU from when the profiler first looked, and this began in
    /// the middle of the training.
    HostTotals,
    /// The snapshot has no segments.
    NoSegments,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Cpu => f.write_str("the CPU"),
            Self::Accelerator { kind: 1, index } => write!(f, "CUDA device {index}"),
            Self::Accelerator { kind, index } => write!(f, "device {index} of type {kind}"),
        }
    }
}

/// Devices by name, one after the other.
pub(super) fn list(devices: &[Device]) -> String {
    devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Totals => "by Total Allocated",
            Self::Segments => "by the segments and the frees",
            Self::Frees => "by the frees",
            Self::User => "as given by --kept-before",
        })
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTotals => f.write_str("its memory events have no Total Allocated"),
            Self::NoCommonTotals => {
                f.write_str("its Total Allocated does not go with what its events allocate and free")
            }
            Self::TotalsTooLow => {
                f.write_str("its Total Allocated is less than what its events have in use")
            }
            Self::TotalsTooHigh => f.write_str("its Total Allocated is more than any device has"),
            Self::TotalsDiffer { events, of } => write!(
                f,
                "in {events} of {of} memory events Total Allocated says something else: events are missing \
                 or out of order"
            ),
            Self::HostTotals => f.write_str(
                "PyTorch counts the memory of the CPU only from when the profiler begins, and this one seems to \
                 have begun in the middle of the training",
            ),
            Self::NoSegments => f.write_str("the snapshot has no segments"),
        }
    }
}

impl Doubt {
    /// Whether there may be more than what is known. (Otherwise it may be something else.)
    fn is_open(self) -> bool {
        !matches!(self, Self::TotalsDiffer { .. })
    }
}

impl Before {
    /// The figure and its source.
    fn said(&self) -> String {
        let Self { bytes, source, doubt, .. } = self;
        let open = doubt.is_some_and(Doubt::is_open);
        match (*bytes, open) {
            (Bytes::ZERO, true) => "unknown".to_owned(),
            (_, true) => format!("at least {bytes}, {source}"),
            (Bytes::ZERO, false) => format!("nothing, {source}"),
            (_, false) => format!("{bytes}, {source}"),
        }
    }
}

impl Origin {
    /// The text for the provenance of the trace, which a converted trace keeps. Empty if the
    /// recording has one device and is complete.
    pub(crate) fn provenance(&self) -> String {
        let mut text = String::new();
        if !self.others.is_empty() {
            text = format!("; the memory of {}, one of {}", self.device, self.others.len() + 1);
        }
        let Before { block, source, doubt, .. } = &self.before;
        if *block > Bytes::ZERO || *source == Source::User || doubt.is_some() {
            text.push_str("; in use before the recording: ");
            text.push_str(&self.before.said());
        }
        text
    }

    /// All known facts, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.choice().into_iter().collect();
        let Before { block, doubt, .. } = &self.before;
        let mut said = format!("In use before the recording: {}", self.before.said());
        if *block > Bytes::ZERO {
            said.push_str(&format!("; {block} of it for good: one persistent block, the first"));
        }
        if let Some(doubt) = doubt {
            said.push_str(&format!(". But {doubt}"));
            if doubt.is_open() {
                said.push_str("; if you know, say --kept-before SIZE");
            }
        }
        lines.push(said);
        lines
    }

    /// Warnings for standard error: which of several devices was taken, and which figures are in
    /// doubt.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        match self.before.doubt {
            Some(_) => self.lines(),
            None => self.choice().into_iter().collect(),
        }
    }

    fn choice(&self) -> Option<String> {
        let others = (!self.others.is_empty()).then(|| list(&self.others))?;
        let device = self.device;
        Some(format!(
            "The memory is that of {device}; the recording also has {others} (--device-index)"
        ))
    }
}
