//! Jobs that go to the host and come back: of themselves, by turns, or in mid-iteration.

use std::sync::Arc;

use zico_core::{Device as _, OnSuspend, Resume, SuspendError};
use zico_mock::Access;

use super::run::{Actor, Dev, Done, Live, Run};
use crate::handle::Handle;
use crate::owned::at_random;

impl Run<'_> {
    pub(super) fn suspend(&mut self, who: usize, job: &Arc<Handle<Dev>>) -> Done {
        self.let_go(who);
        let suspended = match self.takes_turns(who) {
            true => job.suspend(),
            false => job.suspend_with(|block| at_random(block.address)),
        };
        self.note(|| format!("job {who} is suspended: {suspended:?}"));
        match suspended {
            Ok(bytes) if !bytes.is_zero() => return Done::Yes,
            Ok(_) => {}
            // It has given way to another one.
            Err(SuspendError::Suspended) if self.takes_turns(who) => {}
            Err(SuspendError::Device(_)) if self.actors[who].mute.is_some() => {
                self.have_again(who, self.takes_turns(who));
                return Done::Later;
            }
            // Nothing is lost: it stays.
            Err(SuspendError::NoTicket(_)) if !self.setup.enough => {}
            Err(error) => return Done::Told(error.to_string()),
        }
        self.have_again(who, self.takes_turns(who));
        Done::Yes
    }

    pub(super) fn resume(&mut self, who: usize, job: &Arc<Handle<Dev>>, generation: u32) -> Done {
        let resumed = job.resume();
        self.note(|| format!("job {who} is resumed: {resumed:?}"));
        match resumed {
            Ok(Resume::Done) => {
                self.have_again(who, self.takes_turns(who));
                Done::Yes
            }
            Ok(Resume::Wait) => Done::Wait(generation, "it may not come back yet".to_owned()),
            Err(_) if self.actors[who].mute.is_some() => Done::Later,
            Err(error) => Done::Told(error.to_string()),
        }
    }

    fn takes_turns(&self, who: usize) -> bool {
        self.setup.scripts[who].slice.is_some()
    }

    /// A job that takes turns may be taken to the host from now on.
    pub(super) fn may_go(&mut self, who: usize) {
        if self.takes_turns(who) {
            self.let_go(who);
        }
    }

    /// It is on the device for an iteration.
    pub(super) fn is_here(&mut self, who: usize) {
        if self.takes_turns(who) {
            self.have_again(who, true);
        }
    }

    /// A job that waits for memory may go to the host when it asks again, or is there.
    pub(super) fn may_be_interrupted(&mut self, who: usize, job: &Handle<Dev>) {
        let Actor { inside, now, .. } = self.actors[who];
        let is_away = inside && now > 0 && job.held().total().is_zero();
        self.outcome.interrupted += u64::from(is_away);
        if self.setup.scripts[who].interruptible {
            self.let_go(who);
        }
    }

    /// It has what it waited for.
    pub(super) fn is_back(&mut self, who: usize) {
        if self.setup.scripts[who].interruptible {
            self.have_again(who, true);
        }
    }

    /// Gives up the claims on a job's blocks, which have in them what tells them by.
    fn let_go(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        let (stream, side) = (actor.stream, actor.side);
        let mut gone = Vec::new();
        let lives = actor.slots.iter_mut().flatten().chain(&mut actor.given);
        for live in lives.filter(|live| live.claim.is_some()) {
            let access = access(who, live);
            self.device.write(stream, access, access.addr.value()).unwrap();
            gone.push((core::mem::take(&mut live.elsewhere), live.claim.take()));
        }
        gone.into_iter().for_each(|(elsewhere, claim)| self.disown(who, elsewhere, claim));
        // If it stays, its own work comes after what the other stream did with the blocks.
        let passed = self.device.record(side).unwrap();
        self.device.order_after(stream, &passed).unwrap();
    }

    /// A job's blocks are where they were, and have in them what they had, all of them or those that
    /// were not discarded. One that takes turns uses them in its iterations only.
    fn have_again(&mut self, who: usize, all: bool) {
        if self.takes_turns(who) && !self.actors[who].inside {
            return;
        }
        let Actor { stream, slots, given, .. } = &mut self.actors[who];
        let lives = slots.iter_mut().flatten().chain(given);
        for live in lives.filter(|live| live.claim.is_none()) {
            let access = access(who, live);
            let Access { owner, addr, len } = access;
            live.claim = Some(self.device.own(*stream, owner, addr, len).unwrap());
            if all || at_random(addr) != OnSuspend::Discard {
                self.device.expect(*stream, access, addr.value()).unwrap();
            }
        }
    }

    /// A job on the host waits for what others hold between iterations beside what they keep. It is
    /// not told, since they may free it; here they never do, and it goes.
    pub(super) fn waits_in_vain(&self, who: usize) -> bool {
        let waits = self.pool.waits();
        let own = self.actors[who].job.as_ref().map(|job| job.id());
        let held = |waiting: &zico_core::Waiting| {
            matches!(waiting.awaited, zico_core::Awaited::Return(_)) && !waiting.blockers.is_empty()
        };
        !self.setup.enough && waits.iter().any(|one| Some(one.id) == own && held(one))
    }
}

fn access(who: usize, live: &Live) -> Access {
    let (addr, len) = (live.block.address(), live.block.bytes());
    Access { owner: who.try_into().unwrap(), addr, len }
}
