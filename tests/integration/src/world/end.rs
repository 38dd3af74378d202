//! The end of a sequence: each job can go on, or is refused, whatever the paces of the others; then
//! all memory comes back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::Arc;

use zico_core::{AllocError, Begin, Bytes, Job, Lifetime, Request, Ticks};
use zico_mock::FaultPlan;

use super::{Dev, Inner, REGION};

impl Inner {
    /// Nothing fails any more.
    fn all_is_well(&self) {
        self.state().during.clear();
        self.pool.device().inner().set_plan(FaultPlan::none());
        self.pool.device().unmute_all();
    }

    /// All end their iterations and keep what they have. Each in turn has one more, or is refused.
    fn each_can_go_on(&self) {
        self.all_is_well();
        let jobs: Vec<Arc<Job<Dev>>> = (0..self.jobs).filter_map(|i| self.job(i)).collect();
        for job in &jobs {
            job.withdraw();
            let _ = job.end();
        }
        // For a job that does nothing others wait only as long as the pool has patience.
        let settle = || {
            let now = self.device.run_until_idle();
            self.pool.poll().unwrap();
            self.device.advance_to(now.saturating_add(Ticks::millis(60_000)));
            self.pool.poll().unwrap();
        };
        self.all_come_back(settle);
        let one = Request::new(REGION, Lifetime::Iteration);
        for job in &jobs {
            // The others keep their paces, be it a halt.
            assert!(self.pool.set_pace(job.id(), None));
            settle();
            let begun = (0..4).find_map(|_| match job.begin(None) {
                Ok(Begin::Wait(_)) => {
                    settle();
                    None
                }
                done => Some(done),
            });
            match begun {
                Some(Ok(_)) => {}
                Some(Err(_)) => continue,
                None => {
                    panic!("nothing runs, and {job:?} may not begin:\n{}", self.pool.snapshot())
                }
            }
            let block = (0..4).find_map(|_| match job.alloc(one) {
                Err(AllocError::Busy(_)) => {
                    settle();
                    None
                }
                done => Some(done),
            });
            match block {
                Some(Ok(block)) => job.free(block).unwrap(),
                Some(Err(_)) => {}
                None => panic!("nothing else runs, and {job:?} waits:\n{}", self.pool.snapshot()),
            }
            job.end().unwrap();
        }
    }

    /// All free all they have: what they hold then is for good reason nothing.
    fn nothing_live_nothing_held(&self) {
        for i in 0..self.jobs {
            if let Some(tenant) = self.state().tenant(i) {
                tenant.idle = 0;
            }
            while self.state().tenant(i).is_some_and(|tenant| tenant.has_blocks()) {
                self.free(i, 0);
            }
            if let Some(job) = self.job(i) {
                let _ = job.end();
            }
        }
        self.device.run_until_idle();
        (0..2).for_each(|_| self.pool.poll().unwrap());
        for i in 0..self.jobs {
            let held = self.job(i).map(|job| job.held().total());
            assert!(held.is_none_or(Bytes::is_zero), "nothing is live: {}", self.pool.snapshot());
        }
    }

    pub(super) fn end(&self) {
        self.each_can_go_on();
        self.nothing_live_nothing_held();
        for i in 0..self.jobs {
            let is_there = self.state().tenants[i].is_some();
            if is_there {
                self.join_or_leave(i);
            }
        }
        self.check();
        self.pool.poll().unwrap();
        self.device.run_until_idle();
        self.pool.poll().unwrap();
        self.check();
        let snapshot = self.pool.snapshot();
        assert!(snapshot.jobs.is_empty() && snapshot.free == snapshot.held, "{snapshot}");
        assert_eq!(self.pool.budget_status().pending, Bytes::ZERO);
    }
}
