//! Jobs that share a pool on a CUDA device, with patterns that show every conflict.
//!
//! Each job is a thread with a stream. What it allocates it fills with a pattern of its own, on the
//! stream, and before it frees it, it has the pattern checked there. A byte that two jobs own at
//! once, a page that is mapped to the wrong memory, or memory that is handed over too early shows
//! as a word of another pattern.

use std::error::Error;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zico_core::{Block, Bytes, Counts, HandOver, Job, Lifetime, Pool, PoolConfig, Request, Ticks};
use zico_cuda::{CudaDevice, Pattern, StreamId};

use crate::bench::CudaBench;

/// The interval at which a waiting thread polls for completed fences.
const LOOK: Duration = Duration::from_micros(200);
/// A word in each of the smallest units that blocks are made of.
const STRIDE: u32 = 512;

/// What the jobs are to do.
#[derive(Clone, Copy, Debug)]
pub struct Waves {
    /// What they may hold together.
    pub budget: Bytes,
    /// A block of an iteration; there are up to [`BLOCKS`] of them at once, and one that stays.
    pub block: Bytes,
    /// How memory passes from one job to another.
    pub hand_over: HandOver,
    /// How many jobs there are.
    pub jobs: u32,
    /// How many iterations each does.
    pub iterations: u32,
    /// How long the device is busy with each block.
    pub work: Ticks,
}

/// The blocks at the peak of an iteration.
pub const BLOCKS: u32 = 8;

/// The result.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Words that were other than written.
    pub mismatches: u64,
    /// Patterns checked.
    pub checked: u64,
    /// The most that the pool held.
    pub most_held: Bytes,
    /// The sum of the jobs' own peaks.
    pub sum_of_peaks: Bytes,
    /// What the pool did.
    pub counts: Counts,
    /// How long it took.
    pub time: Duration,
}

/// An error of any part.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// Runs the jobs.
///
/// # Errors
/// The first that a job met.
pub fn share(bench: &CudaBench, waves: &Waves) -> Result<Outcome, AnyError> {
    let config = PoolConfig::new(waves.budget).hand_over(waves.hand_over);
    let pool = Pool::new(bench.device.clone(), config)?;
    let run = Run { bench, pool, waves, seeds: AtomicU32::new(1), most_held: AtomicU64::new(0) };
    let before = Instant::now();
    let peaks = std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..waves.jobs)
            .map(|number| {
                scope.spawn({
                    let run = &run;
                    move || run.job(number)
                })
            })
            .collect();
        let outcomes = jobs
            .into_iter()
            .map(|job| job.join().unwrap_or_else(|_| Err("a job's thread panicked".into())));
        outcomes.collect::<Result<Vec<Bytes>, AnyError>>()
    })?;
    let time = before.elapsed();
    let sum_of_peaks = peaks.into_iter().fold(Bytes::ZERO, Bytes::saturating_add);
    Ok(Outcome {
        mismatches: bench.probe.mismatches()?,
        checked: u64::from(run.seeds.load(Ordering::Relaxed)) - 1,
        most_held: Bytes::new(run.most_held.load(Ordering::Relaxed)),
        sum_of_peaks,
        counts: run.pool.snapshot().counts,
        time,
    })
}

struct Run<'b> {
    bench: &'b CudaBench,
    pool: Pool<CudaDevice>,
    waves: &'b Waves,
    /// The next pattern's.
    seeds: AtomicU32,
    most_held: AtomicU64,
}

impl Run<'_> {
    /// All that a job does; returns its peak.
    fn job(&self, number: u32) -> Result<Bytes, AnyError> {
        let stream = self.bench.device.add_stream()?;
        let job = self.pool.join(format!("job {number}"), stream)?;
        let weights = self.alloc(&job, stream, self.waves.block, Lifetime::Persistent)?;
        for _ in 0..self.waves.iterations {
            job.begin_blocking(None, LOOK)?;
            self.iteration(&job, stream)?;
            job.end()?;
            self.bench.probe.check(stream, weights.1)?;
            self.most_held.fetch_max(self.pool.snapshot().held.value(), Ordering::Relaxed);
        }
        self.free(&job, stream, weights)?;
        Ok(job.held().peak)
    }

    /// Up and down again, with blocks of several sizes.
    fn iteration(&self, job: &Job<CudaDevice>, stream: StreamId) -> Result<(), AnyError> {
        let mut blocks = Vec::new();
        for number in 0..BLOCKS {
            let part = [4, 3, 2, 1][number as usize % 4];
            let bytes = Bytes::new(self.waves.block.value() / 4 * part);
            blocks.push(self.alloc(job, stream, bytes, Lifetime::Iteration)?);
            self.bench.probe.spin(stream, self.waves.work)?;
        }
        while let Some(block) = blocks.pop() {
            self.bench.probe.spin(stream, self.waves.work)?;
            self.free(job, stream, block)?;
        }
        Ok(())
    }

    fn alloc(
        &self,
        job: &Job<CudaDevice>,
        stream: StreamId,
        bytes: Bytes,
        lifetime: Lifetime,
    ) -> Result<(Block, Pattern), AnyError> {
        let block = job.alloc_blocking(Request::new(bytes, lifetime), LOOK)?;
        let seed = self.seeds.fetch_add(1, Ordering::Relaxed);
        let pattern = Pattern { addr: block.address(), len: bytes, stride: STRIDE, seed };
        self.bench.probe.fill(stream, pattern)?;
        Ok((block, pattern))
    }

    fn free(
        &self,
        job: &Job<CudaDevice>,
        stream: StreamId,
        (block, pattern): (Block, Pattern),
    ) -> Result<(), AnyError> {
        self.bench.probe.check(stream, pattern)?;
        job.free(block)?;
        Ok(())
    }
}
