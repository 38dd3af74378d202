//! Regression tests: each defect found by hostile use, in the shortest program that shows it.
//!
//! The numbers are those of the table in docs/verification.md.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod admission;
mod departures;
mod events;
mod leftovers;
mod quota;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use zico_core::policy::{Policy, TimeShift};
use zico_core::{
    AllocError, Begin, Bytes, Job, JobConfig, Lifetime, Pool, PoolConfig, Request, Ticks,
};
use zico_mock::{MockConfig, MockDevice, MockStream, Operation, Utilisation};
use zico_tests::hook::{Hook, When};
use zico_tests::waves::{REGION, regions};

const LOOK: Duration = Duration::from_millis(1);

struct Setup {
    device: MockDevice,
    pool: Pool<MockDevice>,
}

impl Setup {
    fn new(budget: u64) -> Self {
        Self::under(budget, TimeShift::default())
    }

    fn under(budget: u64, policy: impl Policy + 'static) -> Self {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(4))).unwrap();
        let config = PoolConfig::new(regions(budget)).region_size(REGION).policy(Box::new(policy));
        Self { pool: Pool::new(device.clone(), config).unwrap(), device }
    }

    fn join(&self, terms: impl Into<JobConfig>) -> Job<MockDevice> {
        self.pool.join(terms, self.device.add_stream()).unwrap()
    }

    /// The device completes all enqueued work.
    fn settle(&self) {
        self.device.run_until_idle();
        self.pool.poll().unwrap();
    }

    /// Iterations alone with a peak of this many regions.
    fn learn(&self, job: &Job<MockDevice>, peak: u64, times: usize) {
        for _ in 0..times {
            assert_eq!(job.begin(None), Ok(Begin::Started));
            job.free(job.alloc(own(peak)).unwrap()).unwrap();
            job.end().unwrap();
            self.settle();
        }
    }
}

fn own(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Iteration)
}

fn stays(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Persistent)
}

fn learned(count: u64) -> Request {
    Request::learned(regions(count))
}

fn busy<T: std::fmt::Debug, E: std::fmt::Debug>(result: &Result<T, AllocError<E>>) {
    assert!(matches!(result, Err(AllocError::Busy(_))), "{result:?}");
}

fn out_of_memory<T: std::fmt::Debug, E: std::fmt::Debug>(
    result: Result<T, AllocError<E>>,
) -> String {
    let Err(AllocError::OutOfMemory(why)) = result else { panic!("{result:?}") };
    why.to_string()
}

struct Hooked {
    device: MockDevice,
    hook: Hook,
    pool: Pool<Hook>,
}

impl Hooked {
    fn new(budget: u64) -> Self {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
        let hook = Hook::new(device.clone());
        let config = PoolConfig::new(regions(budget)).region_size(REGION);
        Self { pool: Pool::new(hook.clone(), config).unwrap(), device, hook }
    }

    fn join(&self, name: &str) -> (Arc<Job<Hook>>, MockStream) {
        let stream = self.device.add_stream();
        (Arc::new(self.pool.join(name, stream).unwrap()), stream)
    }

    /// A job leaves or is made to at a moment at which a parked block is looked at.
    fn leave_at(
        &self,
        operation: Operation,
        leave: impl FnOnce(Arc<Job<Hook>>, &Pool<Hook>) + Send + 'static,
    ) {
        let (a, _) = self.join("a");
        let side = self.device.add_stream();
        let block = a.alloc(own(1)).unwrap();
        a.record_use(block, side).unwrap();
        self.device.launch(side, Ticks::millis(5), Utilisation::FULL).unwrap();
        // The block stays parked.
        self.hook.on(Operation::OrderAfter, When::Before, || true);
        a.free(block).unwrap();
        let pool = self.pool.clone();
        self.hook.on(operation, When::Before, move || {
            leave(a, &pool);
            false
        });
        self.pool.poll().unwrap();
        self.pool.poll().unwrap();
        assert_eq!(self.pool.snapshot().free, Bytes::ZERO, "the other stream still uses it");
        self.device.run_until_idle();
        self.pool.poll().unwrap();
        assert_eq!(self.pool.snapshot().free, REGION);
        assert!(self.pool.snapshot().jobs.is_empty());
    }
}
