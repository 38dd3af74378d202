//! The calls that the jobs of a run make, one at a time.

use std::sync::Arc;

use zico_core::{
    AllocError, Begin, BeginError, Bytes, Device as _, JoinError, Lifetime, Request, Ticks,
};
use zico_mock::{Access, Claim, Utilisation};

use super::bound::cost;
use super::run::{Actor, Dev, Done, Live, Run, State};
use super::script::{Ending, Marks, Op, Script};
use crate::handle::Handle;

impl Run<'_> {
    pub(super) fn join(&mut self, who: usize) -> Done {
        let (script, most) = (&self.setup.scripts[who], self.setup.most[who]);
        let config = script.config(who, most.iteration, most.ever);
        let stream = self.actors[who].stream;
        let joined = self.pool.join(config, stream);
        self.note(|| format!("job {who} joins: {:?}", joined.as_ref().err()));
        match joined {
            Ok(job) => {
                let Script { marks, pace, .. } = self.setup.scripts[who];
                assert!(self.pool.set_pace(job.id(), pace));
                let detect = marks == Marks::Detected;
                self.actors[who].job = Some(Arc::new(Handle::new(job, detect)));
                Done::Yes
            }
            // "It helps to try again when an iteration has ended."
            Err(JoinError::FloorNotFree { floor, .. }) => {
                let others = self.actors.iter().enumerate();
                let alone = others
                    .filter(|&(other, _)| other != who)
                    .all(|(_, actor)| actor.state != State::Goes || actor.job.is_none());
                if alone && self.device.idle() {
                    return Done::Told(format!("no floor of {floor}"));
                }
                // The cleanup changes the generation too, which is no reason to ask again.
                Done::Wait(self.pool.generation(), format!("no floor of {floor} yet"))
            }
            Err(error) => Done::Told(error.to_string()),
        }
    }

    pub(super) fn op(&mut self, who: usize, op: Op, generation: u32) -> Done {
        let Some(job) = self.actors[who].job.clone() else { return Done::Yes };
        let done = match op {
            Op::Begin => self.begin(who, &job, generation),
            Op::End => {
                self.may_go(who);
                let is_followed = self.setup.scripts[who].is_followed(self.actors[who].at);
                let ended = if is_followed { job.end_with_next() } else { job.end() };
                self.note(|| format!("job {who} ends: {ended:?}"));
                let actor = &mut self.actors[who];
                actor.inside = false;
                actor.iterations += 1;
                actor.shown = actor.shown.max(actor.most);
                Done::Yes
            }
            Op::Alloc(slot, bytes, lifetime) => {
                self.alloc(who, &job, slot, (bytes, lifetime), generation)
            }
            Op::Free(slot) => {
                if let Some(live) = self.actors[who].slots.get_mut(slot).and_then(Option::take) {
                    self.free(who, &job, live);
                }
                Done::Yes
            }
            Op::FreeElsewhere(slot) => {
                let actor = &mut self.actors[who];
                let live = actor.slots.get_mut(slot).and_then(Option::take);
                actor.given.extend(live);
                Done::Yes
            }
            Op::UseElsewhere(slot) => {
                self.use_elsewhere(who, &job, slot);
                Done::Yes
            }
            Op::Launch(micros) => {
                let (stream, work) = (self.actors[who].stream, Ticks::micros(micros));
                self.device.launch(stream, work, Utilisation::FULL).unwrap();
                Done::Yes
            }
            Op::Mute(steps) => {
                self.note(|| format!("job {who}'s stream takes no events"));
                self.actors[who].mute = Some(self.outcome.steps + u64::from(steps));
                self.pool.device().mute(self.actors[who].stream);
                Done::Yes
            }
            Op::Sleep => {
                self.actors[who].state = State::Sleeps;
                Done::Yes
            }
            Op::Suspend => self.suspend(who, &job),
            Op::Resume => self.resume(who, &job, generation),
        };
        if matches!(done, Done::Yes) {
            self.actors[who].at += 1;
        }
        done
    }

    fn begin(&mut self, who: usize, job: &Handle<Dev>, generation: u32) -> Done {
        let begun = job.begin(None);
        self.note(|| format!("job {who} begins: {begun:?}"));
        match begun {
            Ok(Begin::Started) => {
                let actor = &mut self.actors[who];
                actor.inside = true;
                actor.most = actor.now;
                self.is_here(who);
                Done::Yes
            }
            Ok(Begin::Wait(_)) => Done::Wait(generation, "it may not begin yet".to_owned()),
            Err(error @ (BeginError::NeverFits { .. } | BeginError::BeyondCap { .. })) => {
                Done::Told(error.to_string())
            }
            Err(error) => Done::Told(format!("wrongly: {error}")),
        }
    }

    fn alloc(
        &mut self,
        who: usize,
        job: &Handle<Dev>,
        slot: usize,
        (bytes, lifetime): (Bytes, Option<Lifetime>),
        generation: u32,
    ) -> Done {
        let request = lifetime.map_or(Request::learned(bytes), |it| Request::new(bytes, it));
        match job.alloc(request) {
            Ok(block) => {
                self.note(|| format!("job {who}: #{slot} = {bytes} at {:?}", block.address()));
                let actor = &mut self.actors[who];
                let (owner, address) = (who.try_into().unwrap(), block.address());
                let claim = self.device.own(actor.stream, owner, address, bytes).unwrap();
                let stays = lifetime == Some(Lifetime::Persistent);
                let claim = Some(claim);
                let live = Live { block, claim, elsewhere: false, cost: cost(bytes), stays };
                actor.now += if stays { 0 } else { live.cost };
                actor.most = actor.most.max(actor.now);
                if actor.slots.len() <= slot {
                    actor.slots.resize_with(slot + 1, || None);
                }
                actor.slots[slot] = Some(live);
                self.is_back(who);
                if !self.actors[who].inside {
                    self.may_go(who);
                }
                Done::Yes
            }
            Err(AllocError::Busy(shortage)) if shortage.rest.is_some() => Done::Rest(generation),
            Err(AllocError::Busy(shortage)) => {
                self.may_be_interrupted(who, job);
                Done::Wait(generation, shortage.to_string())
            }
            Err(AllocError::Device(_)) if self.actors[who].mute.is_some() => Done::Later,
            Err(error) => Done::Told(error.to_string()),
        }
    }

    fn use_elsewhere(&mut self, who: usize, job: &Handle<Dev>, slot: usize) {
        let actor = &mut self.actors[who];
        let Some(live) = actor.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if job.record_use(live.block, actor.side).is_err() {
            return;
        }
        live.elsewhere = true;
        let ready = self.device.record(actor.stream).unwrap();
        self.device.order_after(actor.side, &ready).unwrap();
        let (addr, len) = (live.block.address(), live.block.bytes());
        let access = [Access { owner: who.try_into().unwrap(), addr, len }];
        let work = Ticks::micros(self.rng.u64(1..400));
        self.device.launch_touching(actor.side, work, Utilisation::FULL, &access).unwrap();
    }

    pub(super) fn free_given(&mut self, who: usize) {
        let live = self.actors[who].given.swap_remove(0);
        if let Some(job) = self.actors[who].job.clone() {
            self.note(|| format!("another thread of job {who} frees {:?}", live.block.address()));
            self.free(who, &job, live);
        }
    }

    fn free(&mut self, who: usize, job: &Handle<Dev>, live: Live) {
        self.note(|| format!("job {who} frees {:?}", live.block.address()));
        self.disown(who, live.elsewhere, live.claim);
        self.actors[who].now -= if live.stays { 0 } else { live.cost };
        job.free(live.block).unwrap();
    }

    /// What a block's claim is to end after.
    pub(super) fn disown(&self, who: usize, elsewhere: bool, claim: Option<Claim>) {
        let Some(claim) = claim else { return };
        let Actor { stream, side, .. } = self.actors[who];
        if elsewhere {
            let passed = self.device.record(stream).unwrap();
            self.device.order_after(side, &passed).unwrap();
        }
        self.device.disown(if elsewhere { side } else { stream }, claim).unwrap();
    }

    /// A job has finished its program.
    pub(super) fn finish(&mut self, who: usize) {
        match self.setup.scripts[who].ending {
            Ending::Leave => self.leave(who),
            Ending::Stay => {
                self.note(|| format!("job {who} does nothing any more"));
                self.actors[who].state = State::Over;
            }
            Ending::FreeAndLeave => {
                let lives: Vec<Live> = self.actors[who].slots.drain(..).flatten().collect();
                if let Some(job) = self.actors[who].job.clone() {
                    lives.into_iter().for_each(|live| self.free(who, &job, live));
                }
                self.leave(who);
            }
        }
    }

    pub(super) fn leave(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        actor.state = State::Over;
        actor.waits = None;
        actor.inside = false;
        let lives: Vec<Live> =
            actor.slots.drain(..).flatten().chain(actor.given.drain(..)).collect();
        lives.into_iter().for_each(|live| self.disown(who, live.elsewhere, live.claim));
        self.note(|| format!("job {who} leaves"));
        drop(self.actors[who].job.take());
    }
}
