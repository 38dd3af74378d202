//! The progress of the device in a job's enqueued work.

use std::collections::VecDeque;

use zico_core::Ticks;

/// The progress of the device in a job's iterations.
#[derive(Default)]
pub(super) struct Progress {
    /// Recorded work of each launch that the device has not finished, oldest first.
    outstanding: VecDeque<Ticks>,
    launched: u64,
    finished: u64,
    /// Recorded work of each iteration that has begun and that the device has not finished.
    iterations: VecDeque<Ticks>,
    /// The number of the last launch of each of those that have ended on the host.
    ends: VecDeque<u64>,
    /// Recorded work that the device has finished of the oldest of them.
    done: Ticks,
    /// The same of all that it has done so far.
    made: Ticks,
}

impl Progress {
    pub(super) fn begin(&mut self, work: Ticks) {
        self.iterations.push_back(work);
    }

    pub(super) fn launch(&mut self, work: Ticks) {
        self.outstanding.push_back(work);
        self.launched += 1;
    }

    pub(super) fn end(&mut self) -> u64 {
        self.ends.push_back(self.launched);
        self.close()
    }

    /// Notes the number of launches that the device has finished in all. Returns how many
    /// iterations that completes.
    pub(super) fn finish(&mut self, finished: u64) -> u64 {
        let mut iterations = 0;
        while self.finished < finished {
            self.finished += 1;
            let work = self.outstanding.pop_front().unwrap_or_default();
            self.done = self.done.saturating_add(work);
            self.made = self.made.saturating_add(work);
            iterations += self.close();
        }
        iterations
    }

    fn close(&mut self) -> u64 {
        let mut closed = 0;
        while self.ends.front() == Some(&self.finished) {
            self.ends.pop_front();
            self.iterations.pop_front();
            self.done = Ticks::ZERO;
            closed += 1;
        }
        closed
    }

    /// Recorded work that the device has finished.
    pub(super) fn made(&self) -> Ticks {
        self.made
    }

    /// The share of the iteration under way that the device has finished.
    pub(super) fn share(&self) -> f64 {
        match self.iterations.front() {
            Some(work) if !work.is_zero() => self.done.seconds() / work.seconds(),
            _ => 0.0,
        }
    }
}
