//! The common form of all kinds of recordings, and the rules by which a recording becomes a trace
//! ([`import`](super#what-a-recording-becomes)).

mod blocks;
mod error;
mod launches;
mod marks;
mod steps;

use zico_mock::trace::Phase;

pub use error::RecordingError;
pub(super) use launches::{Launch, of_operators};
pub(super) use steps::{Steps, steps};

/// A recording of one device. Times are nanoseconds from any origin, threads are numbered as they
/// come, records are positions in the list of the file that an event stands in.
#[derive(Default)]
pub(super) struct Recording {
    /// In order of time.
    pub(super) memory: Vec<Memory>,
    pub(super) launches: Vec<Launch>,
    /// The iterations: at least one.
    pub(super) iterations: Vec<Mark>,
    pub(super) phases: Vec<(Phase, Mark)>,
    /// What was in use before the first memory event, if that is known; not less than the blocks
    /// that are freed without having been allocated.
    pub(super) before: Option<u64>,
}

/// Memory is allocated (`bytes` is positive) or freed (negative), never zero.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) at: i64,
    pub(super) address: i64,
    pub(super) bytes: i64,
    pub(super) record: u32,
}

/// An operator runs.
#[derive(Clone, Copy)]
pub(super) struct Op {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The time from `start` to before `end` is annotated.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) record: u32,
}

/// The annotations that are used, by their names.
#[derive(Default)]
pub(super) struct Annotations {
    /// Those named `iteration`.
    iterations: Vec<Mark>,
    /// Those named `ProfilerStep#N`.
    profiler_steps: Vec<Mark>,
    /// The least number of a `ProfilerStep#N`.
    first_step: Option<u64>,
    pub(super) phases: Vec<(Phase, Mark)>,
}

impl Annotations {
    /// Whether an annotation of this name is used.
    pub(super) fn knows(name: &str) -> bool {
        name == "iteration" || name.starts_with("ProfilerStep#") || phase(name).is_some()
    }

    /// Adds an annotation, if its name is known.
    pub(super) fn add(&mut self, name: &str, mark: Mark) {
        if name == "iteration" {
            self.iterations.push(mark);
        } else if let Some(number) = name.strip_prefix("ProfilerStep#") {
            self.profiler_steps.push(mark);
            let number = number.parse().ok();
            self.first_step = self.first_step.into_iter().chain(number).min();
        } else if let Some(phase) = phase(name) {
            self.phases.push((phase, mark));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.iterations.len() + self.profiler_steps.len() + self.phases.len()
    }

    /// Whether the iterations are known not to begin with the first one of the training.
    pub(super) fn begin_later(&self) -> bool {
        self.iterations.is_empty() && self.first_step.is_some_and(|number| number > 0)
    }

    /// The iterations: what is named so or, where nothing is, the profiler's steps.
    pub(super) fn iterations(&mut self) -> Vec<Mark> {
        let steps = std::mem::take(&mut self.profiler_steps);
        let iterations = std::mem::take(&mut self.iterations);
        if iterations.is_empty() { steps } else { iterations }
    }
}

fn phase(name: &str) -> Option<Phase> {
    Phase::ALL.into_iter().find(|phase| phase.name() == name)
}
