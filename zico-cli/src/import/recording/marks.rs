//! Marks of iterations, and steps with their moments.

use zico_core::Ticks;
use zico_mock::trace::{Iteration, Step};

use super::{Mark, RecordingError};

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
    pub(super) fn new(mut marks: Vec<Mark>) -> Result<Self, RecordingError> {
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
    pub(super) fn iterations(&self, steps: &[Timed]) -> Vec<Iteration> {
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
