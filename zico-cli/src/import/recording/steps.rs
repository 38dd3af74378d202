//! The steps of a trace, from the events of a recording.

use zico_core::{Bytes, Ticks};
use zico_mock::trace::{Iteration, Step};

use super::blocks::History;
use super::marks::{Marks, Timed};
use super::{Recording, RecordingError};

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
    let Recording { memory, launches, iterations, phases, before } = recording;
    let marks = Marks::new(iterations)?;
    let history = History::of(&memory, &marks)?;
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
