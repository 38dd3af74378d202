//! The results of a replay.

use zico_core::{Bytes, Planning, Ticks};

use super::Wave;
use crate::Violation;

/// One iteration of a job, by the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When the job asked to start.
    pub asked: Ticks,
    /// When it was let start.
    pub began: Ticks,
    /// When the host had enqueued its last work; none if the window closed before.
    pub ended: Option<Ticks>,
}

/// What one job did within the window: from the start until the last job had done its iterations.
#[derive(Clone, Debug)]
pub struct JobOutcome {
    /// The trace's name; numbered if the same trace runs twice.
    pub name: String,
    /// Iterations that the device finished within the window.
    pub iterations: u64,
    /// The same with the share that was done of the one under way when the window closed.
    pub iterations_done: f64,
    /// What the device had done of them when each job had done its first one.
    pub iterations_before: f64,
    /// The most that was charged to it, in whole regions.
    pub peak: Bytes,
    /// The most that it had leased at one time, in program order: without what was draining.
    pub peak_leased: Bytes,
    /// What is charged to it for persistent blocks, in whole regions, at the end.
    pub persistent: Bytes,
    /// The most that it had leased while no iteration of it ran, in whole regions: what persists,
    /// and what it carried over from one iteration to the next.
    pub kept: Bytes,
    /// Time spent waiting for iterations to start, and before the first one for its setup's memory.
    pub start_delay: Ticks,
    /// Time spent waiting for memory within iterations.
    pub stalled: Ticks,
    /// The bytes of the transfers that its plan of relief has asked for.
    pub moved: Bytes,
    /// How its iterations were planned.
    pub planning: Planning,
    /// Its iterations.
    pub spans: Vec<Span>,
    /// Why it stopped early, if it did.
    pub failure: Option<String>,
}

impl JobOutcome {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            iterations: 0,
            iterations_done: 0.0,
            iterations_before: 0.0,
            peak: Bytes::ZERO,
            peak_leased: Bytes::ZERO,
            persistent: Bytes::ZERO,
            kept: Bytes::ZERO,
            start_delay: Ticks::ZERO,
            stalled: Ticks::ZERO,
            moved: Bytes::ZERO,
            planning: Planning::default(),
            spans: Vec::new(),
            failure: None,
        }
    }
}

/// The results of a replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The policy's name.
    pub policy: &'static str,
    /// The budget: whole regions.
    pub budget: Bytes,
    /// The bytes that all copies took to the host, and those that they took back.
    pub traffic: (Bytes, Bytes),
    /// When each job had done its first iteration, if all have.
    pub settled: Option<Ticks>,
    /// The size of a region.
    pub region: Bytes,
    /// From the start until the last job had done its iterations.
    pub window: Ticks,
    /// The most physical memory that the device gave out.
    pub peak_held: Bytes,
    /// The largest sum of live bytes, as requested, in program order.
    pub peak_live: Bytes,
    /// What the oracle saw that must not happen: the first ones ...
    pub violations: Vec<Violation>,
    /// ... and how many in all.
    pub violation_count: u64,
    /// The steps of the traces that were replayed: allocations, frees and launches.
    pub steps: u64,
    /// Device memory calls (create, map, unmap and the like) in the whole replay.
    pub memory_calls: u64,
    /// How many [brokers](super::ReplayConfig::restarts) have died.
    pub restarts: u64,
    /// The jobs, in the order given.
    pub jobs: Vec<JobOutcome>,
    /// What they held over time.
    pub wave: Wave,
}

impl Outcome {
    /// Iterations per second of a job once each job has done its first one: without the setups, and
    /// without memory that is created when it is first needed. Over the whole window if that ends
    /// there.
    #[must_use]
    pub fn rate(&self, job: &JobOutcome) -> f64 {
        let (from, before) = match self.settled {
            Some(settled) if settled < self.window => (settled, job.iterations_before),
            _ => (Ticks::ZERO, 0.0),
        };
        let time = self.window.saturating_sub(from);
        if time.is_zero() { 0.0 } else { (job.iterations_done - before) / time.seconds() }
    }
}
