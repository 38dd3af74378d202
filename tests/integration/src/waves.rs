//! Jobs whose memory rises and falls in each iteration, run step by step in any order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::policy::{Policy, Verdict, View};
use zico_core::{AllocError, Begin, Block, Bytes, Job, JobConfig, Lifetime, Pool, Request, Ticks};
use zico_mock::{MockDevice, MockStream, Utilisation};

/// The size of a region.
pub const REGION: Bytes = Bytes::mib(2);

/// The bytes of this many regions.
#[must_use]
pub fn regions(n: u64) -> Bytes {
    Bytes::new(n * REGION.value())
}

/// A job whose iterations allocate blocks one after the other and free them in reverse.
pub struct Waves {
    /// The job.
    pub job: Job<MockDevice>,
    /// Its stream.
    pub stream: MockStream,
    /// The blocks of one iteration, in regions.
    pub wave: Vec<u64>,
    /// What the job says of its iterations' shape.
    pub shape: Option<u64>,
    live: Vec<Block>,
    /// How many of the iteration's operations are done; none while it has not begun.
    pub at: Option<usize>,
    /// How many iterations are left to do.
    pub left: u32,
}

impl Waves {
    /// Joins and takes the `kept` regions that it keeps.
    pub fn join(
        device: &MockDevice,
        pool: &Pool<MockDevice>,
        kept: u64,
        wave: &[u64],
        times: u32,
    ) -> Self {
        Self::join_as("waves", device, pool, kept, wave, times)
    }

    /// Joins on these terms.
    pub fn join_as(
        terms: impl Into<JobConfig>,
        device: &MockDevice,
        pool: &Pool<MockDevice>,
        kept: u64,
        wave: &[u64],
        times: u32,
    ) -> Self {
        let stream = device.add_stream();
        let job = pool.join(terms, stream).unwrap();
        if kept > 0 {
            job.alloc(Request::new(regions(kept), Lifetime::Persistent)).unwrap();
        }
        Self {
            job,
            stream,
            wave: wave.to_vec(),
            shape: None,
            live: Vec::new(),
            at: None,
            left: times,
        }
    }

    /// Takes the next step, if it may. True if it did, or has finished.
    pub fn step(&mut self, device: &MockDevice) -> bool {
        if self.left == 0 {
            return true;
        }
        let Some(at) = self.at else {
            let started = self.job.begin(self.shape).unwrap() == Begin::Started;
            self.at = started.then_some(0);
            return started;
        };
        device.launch(self.stream, Ticks::micros(10), Utilisation::FULL).unwrap();
        if let Some(&block) = self.wave.get(at) {
            match self.job.alloc(Request::new(regions(block), Lifetime::Iteration)) {
                Ok(block) => self.live.push(block),
                Err(AllocError::Busy(_)) => return false,
                Err(error) => panic!("a job within its profile was refused: {error}"),
            }
        } else if let Some(block) = self.live.pop() {
            self.job.free(block).unwrap();
        } else {
            self.job.end().unwrap();
            self.left -= 1;
            self.at = None;
            return true;
        }
        self.at = Some(at + 1);
        true
    }
}

/// Runs the jobs in the order given, repeatedly, until all are done.
pub fn run_all(device: &MockDevice, pool: &Pool<MockDevice>, jobs: &mut [Waves], order: &[usize]) {
    let mut vain = 0;
    for turn in 0.. {
        if jobs.iter().all(|job| job.left == 0) {
            break;
        }
        let job = order.get(turn % order.len()).map_or(0, |&i| i % jobs.len());
        // Every job gets a turn now and then, whatever the order says.
        let job = if turn % 3 == 0 { turn / 3 % jobs.len() } else { job };
        let done = jobs[job].left > 0 && jobs[job].step(device);
        vain = if done { 0 } else { vain + 1 };
        if vain > 3 * jobs.len() {
            device.run_until_idle();
            pool.poll().unwrap();
        }
        assert!(vain < 12 * jobs.len(), "all jobs wait for each other:\n{}", pool.snapshot());
        assert_eq!(device.violation_count(), 0, "{:?}", device.violations().first());
    }
}

/// The worst policy: every iteration starts at once. Only the pool's own guarantees remain.
pub struct Reckless;

impl Policy for Reckless {
    fn name(&self) -> &'static str {
        "reckless"
    }

    fn decide(&mut self, _: &View<'_>) -> Verdict {
        Verdict::Start
    }
}
