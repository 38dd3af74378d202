//! The steps of a trace, from the events of a recording.

use zico_core::{Bytes, Ticks};
use zico_mock::trace::{Iteration, Step};

use super::blocks::History;
use super::{Mark, Recording, RecordingError};

/// The steps of the recorded job.
pub(in crate::import) struct Steps {
    pub(in crate::import) setup: Vec<Step>,
    pub(in crate::import) iterations: Vec<Iteration>,
    /// What was freed without having been allocated.
    pub(in crate::import) unseen: Bytes,
    /// What was in use before beyond that: the first block, if it is anything.
    pub(in crate::import) block: Bytes,
}

/// The setup and the iterations of the recorded job.
pub(in crate::import) fn steps(recording: Recording) -> Result<Steps, RecordingError> {
    let Recording { memory, ops, launches, iterations, phases, before } = recording;
    let marks = Marks::new(iterations)?;
    let history = History::of(&memory, &marks, &ops)?;
    let unseen = history.unseen();
    let block = Bytes::new(before.unwrap_or(0)).saturating_sub(unseen);
    let (setup, mut timed) = history.steps(marks.count(), block);

    timed.extend(phases.iter().map(|(phase, mark)| Timed {
        at: mark.start,
        record: mark.record,
        step: Step::Phase(*phase),
    }));
    timed.extend(launches.iter().map(|launch| Timed {
        at: launch.start,
        record: u32::MAX,
        step: Step::Launch { work: Ticks::new(launch.work) },
    }));
    timed.sort_by_key(|step| (step.at, step.record));
    Ok(Steps { setup, iterations: marks.iterations(&timed), unseen, block })
}

/// A step and its moment. Among those of one moment, `record` decides: the order in the file, and
/// launches last, because what happens at the moment in which a launch starts is what starts it.
pub(super) struct Timed {
    pub(super) at: i64,
    pub(super) record: u32,
    pub(super) step: Step,
}

/// The marks of iterations, in order of time, none overlapping another.
pub(super) struct Marks {
    marks: Vec<Mark>,
    /// When the last iteration ends.
    end: i64,
}

impl Marks {
    fn new(mut marks: Vec<Mark>) -> Result<Self, RecordingError> {
        marks.sort_by_key(|mark| mark.start);
        for pair in marks.windows(2) {
            if pair[1].start < pair[0].end {
                let (record, earlier) = (pair[1].record, pair[0].record);
                return Err(RecordingError::Overlap { record, earlier });
            }
        }
        let end = marks.last().map_or(i64::MIN, |mark| mark.end);
        Ok(Self { marks, end })
    }

    /// How many iterations there are.
    pub(super) fn count(&self) -> usize {
        self.marks.len()
    }

    /// When the last iteration ends. What happens from then on is not in the trace.
    pub(super) fn end(&self) -> i64 {
        self.end
    }

    /// The iteration that owns a moment before the end; nothing before the first one.
    pub(super) fn owner(&self, at: i64) -> Option<usize> {
        self.marks.partition_point(|mark| mark.start <= at).checked_sub(1)
    }

    /// Cuts steps in order of time into iterations.
    fn iterations(&self, steps: &[Timed]) -> Vec<Iteration> {
        let ends = self.marks.iter().skip(1).map(|mark| mark.start).chain([self.end]);
        let iterations = self.marks.iter().zip(ends).map(|(mark, end)| {
            let from = steps.partition_point(|step| step.at < mark.start);
            let to = steps.partition_point(|step| step.at < end);
            let steps = steps[from..to].iter().map(|timed| timed.step).collect();
            Iteration::new(steps, Ticks::new(end.abs_diff(mark.start)))
        });
        iterations.collect()
    }
}
