//! How a job of a replay ends.

use zico_core::{Bytes, Ticks};

use super::Actor;
use crate::Claim;
use crate::replay::ReplayError;
use crate::replay::outcome::JobOutcome;
use crate::replay::state::State;
use crate::trace::BlockId;

impl Actor<'_> {
    /// The job leaves, wherever it is: its blocks' last uses have been enqueued.
    pub(super) fn leave(&mut self) -> Result<(), ReplayError> {
        self.outcome.planning =
            self.job.as_ref().map(|job| job.job().snapshot().planning).unwrap_or_default();
        if let Some(carrier) = self.source.carrier() {
            carrier.leave_off()?;
        }
        let mut blocks: Vec<(BlockId, Claim)> =
            self.blocks.drain().map(|(id, (_, claim))| (id, claim)).collect();
        blocks.sort_unstable_by_key(|&(id, _)| id);
        for (id, claim) in blocks {
            self.sides.disown(&self.device, self.stream, (id, claim))?;
        }
        self.live = Bytes::ZERO;
        self.job = None;
        self.state = State::Left;
        Ok(())
    }

    /// The window has closed.
    pub(in crate::replay) fn finish(mut self, now: Ticks) -> Result<JobOutcome, ReplayError> {
        let held = self.held();
        (self.outcome.persistent, self.outcome.peak) = (held.persistent, held.peak);
        self.outcome.peak_leased = held.peak_leased;
        self.outcome.moved = self.source.carrier().map_or(Bytes::ZERO, |carrier| carrier.moved());
        self.outcome.iterations_done = self.iterations_done();
        if let (Some((_, since)), State::Pool) = (self.pending, self.state) {
            self.waited(since, now);
        }
        if self.state != State::Left {
            self.leave()?;
        }
        Ok(self.outcome)
    }
}
