//! What a job of a replay has, as the oracle is told, how long it has waited, and how the job ends.

use zico_core::{Block, Bytes, Held, Ticks};

use super::Actor;
use crate::Claim;
use crate::replay::ReplayError;
use crate::replay::outcome::JobOutcome;
use crate::replay::overflow::Overflow;
use crate::replay::sides::is_done;
use crate::replay::state::State;
use crate::trace::BlockId;

impl Actor<'_> {
    /// No iteration of it runs: what it has leased it keeps, however long it waits for the next
    /// one.
    pub(super) fn note_kept(&mut self) {
        let Held { persistent, iteration, .. } = self.held();
        let leased = persistent.saturating_add(iteration);
        self.outcome.kept = self.outcome.kept.at_least(leased);
    }

    /// Adds up a wait for the pool: a stall within an iteration, otherwise a delayed start.
    pub(super) fn waited(&mut self, since: Ticks, now: Ticks) {
        let sum = if self.is_inside() {
            &mut self.outcome.stalled
        } else {
            &mut self.outcome.start_delay
        };
        *sum = sum.saturating_add(now.saturating_sub(since));
    }

    /// The job's claim to a block from now on.
    pub(super) fn own(&self, block: &Block) -> Result<Claim, ReplayError> {
        Ok(self.device.own(self.stream, self.tag, block.address(), block.bytes())?)
    }

    /// Its claim to a block ends, if it has one.
    pub(super) fn disown(&mut self, id: BlockId, claim: Option<Claim>) -> Result<(), ReplayError> {
        let disown = |claim| self.sides.disown(&self.device, self.stream, (id, claim));
        Ok(claim.map_or(Ok(()), disown)?)
    }

    /// It claims all that it has.
    pub(super) fn own_all(&mut self) -> Result<(), ReplayError> {
        self.is_let_go = false;
        let missing = self.blocks.iter().filter(|(_, (_, claim))| claim.is_none());
        let mut missing: Vec<(BlockId, Block)> =
            missing.map(|(&id, &(block, _))| (id, block)).collect();
        missing.sort_unstable_by_key(|&(id, _)| id);
        for (id, block) in missing {
            let claim = self.own(&block)?;
            self.blocks.insert(id, (block, Some(claim)));
        }
        Ok(())
    }

    /// It may be taken to the host from now on, after all that it has enqueued.
    pub(super) fn let_go(&mut self) -> Result<(), ReplayError> {
        self.is_let_go = true;
        self.sides.rejoin(&self.device, self.stream)?;
        self.disown_all()
    }

    /// All its claims end.
    pub(super) fn disown_all(&mut self) -> Result<(), ReplayError> {
        let claims = self.blocks.iter_mut();
        let mut claims: Vec<_> = claims.map(|(&id, (_, claim))| (id, claim.take())).collect();
        claims.sort_unstable_by_key(|&(id, _)| id);
        claims.into_iter().try_for_each(|(id, claim)| self.disown(id, claim))
    }

    /// When it is to be gone, unless it is.
    pub(in crate::replay) fn ends_at(&self) -> Option<Ticks> {
        self.usage.ends.filter(|_| !self.has_left())
    }

    /// Whether the device has done all that it has been given.
    pub(in crate::replay) fn is_quiet(&self) -> Result<bool, ReplayError> {
        Ok(is_done(&self.device, self.stream)? && self.sides.are_done(&self.device)?)
    }

    /// It does nothing more, wherever it is: its blocks' last uses have been enqueued. What it has
    /// leased is its own until it [leaves](Self::leave).
    pub(in crate::replay) fn stop(&mut self) -> Result<(), ReplayError> {
        self.disown_all()?;
        self.blocks.clear();
        self.live = Bytes::ZERO;
        (self.state, self.pending, self.asks_again) = (State::Left, None, false);
        Ok(())
    }

    /// The job leaves, wherever it is.
    pub(in crate::replay) fn leave(&mut self) -> Result<(), ReplayError> {
        self.outcome.planning =
            self.job.as_ref().map(|job| job.job().snapshot().planning).unwrap_or_default();
        if let Some(carrier) = self.source.carrier() {
            carrier.leave_off()?;
        }
        self.stop()?;
        self.job = None;
        Ok(())
    }

    /// What has crossed the link because it was beyond the job's cap: to the host, and from it.
    pub(in crate::replay) fn overflowed(&self) -> (Bytes, Bytes) {
        self.overflow.as_ref().map_or((Bytes::ZERO, Bytes::ZERO), Overflow::moved)
    }

    /// The window has closed.
    pub(in crate::replay) fn finish(mut self, now: Ticks) -> Result<JobOutcome, ReplayError> {
        let held = self.held();
        (self.outcome.persistent, self.outcome.peak) = (held.persistent, held.peak);
        self.outcome.peak_leased = held.peak_leased;
        let (out, back) = self.overflowed();
        let moved = self.source.carrier().map_or(Bytes::ZERO, |carrier| carrier.moved());
        self.outcome.moved = moved.saturating_add(out).saturating_add(back);
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
