//! Jobs that go to the host and come back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::Arc;

use zico_core::{Awaited, Device, Job, Lifetime, OnSuspend, Resume, ResumeError, SuspendError};
use zico_mock::Access;

use super::step::{Live, disown};
use super::{Dev, Inner};
use crate::owned::at_random;

impl Inner {
    /// The job goes to the host if it is here, else it asks to come back.
    pub(super) fn suspend_or_resume(&self, i: usize) {
        let Some((job, stay)) = self.active(i) else { return };
        let away = self.state().tenant(i).is_some_and(|tenant| tenant.away);
        if away {
            self.resume(i, stay, &job);
        } else {
            self.suspend(i, stay, &job);
        }
    }

    /// Whoever was told that its job is suspended has one that is, or was a moment ago.
    pub(super) fn is_away(&self, i: usize, stay: u64) {
        let mut state = self.state();
        let same = state.tenant(i).filter(|tenant| tenant.stay == stay);
        let fired = self.is_alone(self.fired.load(std::sync::atomic::Ordering::SeqCst));
        assert!(!fired || same.is_none_or(|tenant| tenant.away), "it is here");
    }

    fn suspend(&self, i: usize, stay: u64, job: &Job<Dev>) {
        self.let_go(i, stay);
        match job.suspend_with(|block| at_random(block.address)) {
            Ok(bytes) => {
                if !bytes.is_zero() {
                    return;
                }
            }
            // Another thread has taken it there.
            Err(SuspendError::Suspended | SuspendError::Left) => return,
            Err(SuspendError::Device(error)) => Self::is_made_up(&error),
            Err(SuspendError::NoTicket(why)) => {
                let all = why.held.saturating_add(why.kept_by_others);
                assert!(all > why.budget, "{why}");
            }
            Err(SuspendError::InIteration | SuspendError::Busy | SuspendError::TakesTurns) => {}
            Err(error) => panic!("{error}"),
        }
        self.have_again(i, stay);
    }

    /// Writes to the blocks of a job what tells them by, and gives up the claims on them.
    fn let_go(&self, i: usize, stay: u64) {
        let mut state = self.state();
        let Some(tenant) = state.tenant(i).filter(|tenant| tenant.stay == stay) else { return };
        tenant.away = true;
        let streams = (tenant.stream, tenant.side);
        for live in &mut tenant.live {
            let block = live.block;
            let (owner, addr, len) = (i.try_into().unwrap(), block.address(), block.bytes());
            if live.claim.is_some() {
                let value = addr.value() ^ stay;
                self.device.write(tenant.stream, Access { owner, addr, len }, value).unwrap();
                live.written = at_random(addr) != OnSuspend::Discard;
            }
            let (claim, elsewhere) = (live.claim.take(), core::mem::take(&mut live.elsewhere));
            disown(&self.device, streams, Live { block, claim, elsewhere, written: true });
        }
        // If it stays, its own work comes after what the other stream did with the blocks.
        let passed = self.device.record(tenant.side).unwrap();
        self.device.order_after(tenant.stream, &passed).unwrap();
    }

    /// The blocks of a job are at their addresses, and have in them what was written.
    fn have_again(&self, i: usize, stay: u64) {
        let mut state = self.state();
        let Some(tenant) = state.tenant(i).filter(|tenant| tenant.stay == stay) else { return };
        if !core::mem::take(&mut tenant.away) {
            return;
        }
        for live in tenant.live.iter_mut().filter(|live| live.claim.is_none()) {
            let (addr, len) = (live.block.address(), live.block.bytes());
            let owner = i.try_into().unwrap();
            live.claim = Some(self.device.own(tenant.stream, owner, addr, len).unwrap());
            let value = addr.value() ^ stay;
            // One that another thread has made while the job was about to go has nothing in it.
            if core::mem::take(&mut live.written) {
                self.device.expect(tenant.stream, Access { owner, addr, len }, value).unwrap();
            }
        }
    }

    fn resume(&self, i: usize, stay: u64, job: &Job<Dev>) -> bool {
        match job.resume() {
            Ok(Resume::Done) => {
                self.have_again(i, stay);
                true
            }
            Ok(Resume::Wait) | Err(ResumeError::Left) => false,
            Err(ResumeError::Device(error)) => {
                Self::is_made_up(&error);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// All that are on the host come back, in turn, while the others keep what persists: their
    /// tickets are good. Whoever has to wait for what others hold between their iterations beside
    /// that, waits for somebody who is named, and comes back when that has been freed.
    pub(super) fn all_come_back(&self, settle: impl Fn()) {
        for i in 0..self.jobs {
            let Some((job, stay)) = self.who(i) else { continue };
            let back = || {
                (0..4).any(|_| {
                    settle();
                    self.resume(i, stay, &job)
                })
            };
            if back() {
                continue;
            }
            let waits = self.pool.waits();
            let own = waits.iter().find(|waiting| waiting.id == job.id());
            let own = own.filter(|own| matches!(own.awaited, Awaited::Return(_)));
            let held = own.is_some_and(|own| !own.blockers.is_empty());
            assert!(held, "job {i} waits for nobody:\n{}\n{waits:?}", self.pool.snapshot());
            (0..self.jobs).filter(|&other| other != i).for_each(|other| self.free_leftovers(other));
            assert!(back(), "job {i} is away:\n{}\n{waits:?}", self.pool.snapshot());
        }
    }

    /// A job between iterations frees what is not persistent.
    fn free_leftovers(&self, i: usize) {
        let Some((job, _)) = self.who(i) else { return };
        self.state().tenant(i).into_iter().for_each(|tenant| tenant.idle = 0);
        for left in job.live_blocks().blocks {
            let at = {
                let mut state = self.state();
                let live = state.tenant(i).map(|tenant| &tenant.live);
                let is_it = |live: &Live| live.block.address() == left.address;
                live.and_then(|live| live.iter().position(is_it))
            };
            if left.lifetime == Lifetime::Iteration
                && let Some(at) = at
            {
                self.free(i, at);
            }
        }
    }

    fn who(&self, i: usize) -> Option<(Arc<Job<Dev>>, u64)> {
        let mut state = self.state();
        let tenant = state.tenant(i)?;
        Some((tenant.job.clone(), tenant.stay))
    }
}
