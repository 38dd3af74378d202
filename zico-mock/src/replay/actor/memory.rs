//! A job's memory in a replay: on the device, and on the host where it is beyond the job's cap.

use std::cmp::Reverse;
use std::num::NonZeroU8;

use zico_core::{AllocError, BrokerError, BudgetError, Bytes, Lifetime, Request, Ticks};

use super::Actor;
use crate::MockError;
use crate::replay::ReplayError;
use crate::replay::overflow::{Overflow, Scale};
use crate::replay::state::{Done, State};
use crate::trace::BlockId;

impl Actor<'_> {
    pub(super) fn alloc(
        &mut self,
        id: BlockId,
        (bytes, lifetime): (Bytes, Lifetime),
        since: Ticks,
        now: Ticks,
    ) -> Result<Done, ReplayError> {
        let told = Request::new(bytes, lifetime);
        match self.place(id, if self.learned { Request::learned(bytes) } else { told }, now)? {
            Placed::Device => {}
            Placed::Beyond(why) => match &mut self.overflow {
                Some(overflow) => overflow.alloc(id, bytes),
                None => return Ok(Done::Never(why)),
            },
            Placed::Not(done) => return Ok(done),
        }
        self.waited(since, now);
        self.live = self.live.saturating_add(bytes);
        self.note_need();
        Ok(Done::Yes)
    }

    /// Allocates a block on the device, if that can be.
    fn place(&mut self, id: BlockId, request: Request, now: Ticks) -> Result<Placed, ReplayError> {
        let Some(job) = &self.job else { return Ok(Placed::Not(Done::Wait(State::Left))) };
        Ok(match job.alloc(request) {
            Ok(block) => {
                let owned = self.is_inside() || !self.takes_turns;
                let claim = owned.then(|| self.own(&block)).transpose()?;
                if let Some(carrier) = self.source.carrier() {
                    carrier.allocated(&block)?;
                }
                self.blocks.insert(id, (block, claim));
                if self.is_let_go && owned {
                    self.own_all()?;
                }
                Placed::Device
            }
            Err(AllocError::Busy(_)) => {
                // It may be interrupted when it asks again.
                if self.interruptible {
                    self.let_go()?;
                }
                Placed::Not(Done::Wait(State::Pool))
            }
            Err(AllocError::Broker(BrokerError::Unreachable)) => Placed::Not(Done::no_broker(now)),
            Err(
                error @ (AllocError::OutOfMemory(_)
                | AllocError::Device(MockError::OutOfMemory { .. })),
            ) => Placed::Beyond(error.to_string()),
            Err(error) => Placed::Not(Done::Never(error.to_string())),
        })
    }

    pub(super) fn free(&mut self, id: BlockId) -> Result<Done, ReplayError> {
        let freed = match self.overflow.as_mut().and_then(|overflow| overflow.take(id)) {
            None => self.displace(id)?,
            on_host => on_host,
        };
        self.live = self.live.saturating_sub(freed.unwrap_or_default());
        Ok(Done::Yes)
    }

    /// Frees a block on the device, and says how large it was.
    fn displace(&mut self, id: BlockId) -> Result<Option<Bytes>, ReplayError> {
        let Some((block, claim)) = self.blocks.remove(&id) else { return Ok(None) };
        self.disown(id, claim)?;
        if let Some(job) = &self.job {
            job.free(block)?;
        }
        Ok(Some(block.bytes()))
    }

    /// Another stream of the job uses a block.
    pub(super) fn lend(&mut self, id: BlockId, number: NonZeroU8) -> Done {
        let (Some(job), Some(&(block, _))) = (&self.job, self.blocks.get(&id)) else {
            return Done::Yes;
        };
        let (streams, lent) = ((self.stream, number), (id, block, self.tag));
        let lent = self.sides.lend(job.job(), &self.device, streams, lent);
        lent.map_or_else(|error| Done::Never(error.to_string()), |()| Done::Yes)
    }

    /// How the job is scaled: a higher cap counts at once, a lower one from its next iteration on.
    pub(in crate::replay) fn scale(&mut self, scale: Scale) {
        let (Some(overflow), Some(pool)) = (&mut self.overflow, &self.pool) else { return };
        overflow.scale(scale);
        let region = pool.region_size();
        let cap = scale.cap.at_least(region);
        let budget = pool.budget();
        let is_lower = budget > cap && self.blocks.is_empty();
        if is_lower || cap.saturating_sub(budget) >= region {
            // Only a lower one can be refused, and then there is nothing that it would be below.
            let _ = pool.set_budget(cap);
        }
    }

    /// What it needs to have an iteration on the device, once one has ended.
    pub(in crate::replay) fn need(&self) -> Option<Bytes> {
        self.overflow.as_ref().and_then(Overflow::need)
    }

    fn note_need(&mut self) {
        if self.overflow.is_some() {
            let held = self.held().total();
            self.overflow.iter_mut().for_each(|overflow| overflow.note(held));
        }
    }

    /// Between two iterations: what the job keeps beyond its cap goes to the host, and what has room
    /// comes back. What it waits for before its next one, if it has not all of the time: the device,
    /// and then for its time to come again.
    pub(super) fn rescale(&mut self, now: Ticks) -> Result<Option<State>, ReplayError> {
        let (Some(overflow), Some(pool)) = (&self.overflow, &self.pool) else { return Ok(None) };
        let (cap, rests) = (overflow.cap().at_least(pool.region_size()), overflow.rests());
        if rests && self.device.outstanding(self.stream) > 0 {
            return Ok(Some(State::RunAhead));
        }
        self.spill(cap)?;
        let began = self.outcome.spans.last().map(|span| span.began);
        let until = self.overflow.as_mut().and_then(|overflow| overflow.rests_until(began, now));
        if let Some(until) = until.filter(|_| rests) {
            return Ok(Some(State::Ready(until)));
        }
        self.come_back(cap, now)?;
        self.overflow.iter_mut().for_each(Overflow::begin);
        self.note_need();
        Ok(None)
    }

    /// What the job keeps beyond its cap goes to the host, largest first.
    fn spill(&mut self, cap: Bytes) -> Result<(), ReplayError> {
        let Some(pool) = self.pool.clone().filter(|pool| cap < pool.budget()) else {
            return Ok(());
        };
        while matches!(pool.set_budget(cap), Err(BudgetError::BelowPersistent { .. })) {
            let largest = self.blocks.iter().map(|(&id, (block, _))| (block.bytes(), Reverse(id)));
            let Some((bytes, Reverse(id))) = largest.max() else { break };
            self.displace(id)?;
            self.overflow.iter_mut().for_each(|overflow| overflow.spill(id, bytes));
        }
        Ok(())
    }

    /// What is on the host comes back, as far as there is room for it.
    fn come_back(&mut self, cap: Bytes, now: Ticks) -> Result<(), ReplayError> {
        let standing = self.overflow.as_ref().map(Overflow::blocks);
        for (id, bytes) in standing.unwrap_or_default() {
            let request = Request::new(bytes, Lifetime::Persistent);
            let has_room = self.held().total().saturating_add(bytes) <= cap;
            if has_room
                && matches!(self.place(id, request, now)?, Placed::Device)
                && let Some(overflow) = &mut self.overflow
            {
                overflow.take(id);
            }
        }
        Ok(())
    }
}

/// What becomes of an allocation on the device.
enum Placed {
    Device,
    /// It is beyond the job's cap, or the device has no more memory.
    Beyond(String),
    /// It is not done for another reason.
    Not(Done),
}
