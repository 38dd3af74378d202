//! A pool and its jobs behind handles, whatever the device.
//!
//! # Marks
//!
//! A framework can say when an iteration has ended; when the next one begins it seldom knows. So
//! with a *mark* the iteration that runs is over, but for what is freed before the next one begins:
//! a training loop frees what its last iteration has used (its gradients, and what a name still
//! refers to). The next one begins within the first allocation after the mark, which is made by a
//! thread that can wait.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use zico_core::{
    AllocError, Block, BudgetStatus, Bytes, Counter, Job, JobConfig, JobId, Pool, PoolConfig,
    Request, Stats, SuspendError,
};

use zico_node::host::Backing;

use crate::peaks::Peaks;
use crate::record::Recorder;
use crate::status::{Failure, Status};
use crate::streams::{Adopt, RawStream};
use crate::suspend::Choices;

/// How often one that waits looks at what the device has passed.
const LOOK: Duration = Duration::from_micros(500);

/// How long a suspension waits for another thread of the job that is at its memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// A pool of any device.
pub(crate) trait Opened: Send + Sync {
    fn join(&self, config: JobConfig, stream: RawStream) -> Result<Arc<dyn Tenant>, Failure>;
    fn set_budget(&self, budget: Bytes) -> Result<(), Failure>;
    fn stats(&self) -> BudgetStatus;
    /// Gives what is nobody's back to the device.
    fn trim(&self) -> Result<(), Failure>;
}

/// A job of any device.
pub(crate) trait Tenant: Send + Sync {
    fn begin(&self) -> Result<(), Failure>;
    fn end(&self) -> Result<(), Failure>;
    fn mark(&self);
    fn alloc(&self, bytes: Bytes, stream: RawStream, wait: bool) -> Result<Block, Failure>;
    fn free(&self, block: Block) -> Result<(), Failure>;
    fn record_use(&self, block: Block, stream: RawStream) -> Result<(), Failure>;
    fn stats(&self) -> (Stats, Counts);
    /// Goes to the host with all it has but for some blocks, how much that is; an iteration that
    /// runs ends.
    fn suspend(&self, choices: &Choices) -> Result<Bytes, Failure>;
    /// Comes back, as soon as there is room.
    fn resume(&self) -> Result<(), Failure>;
    /// Counts the most that was allocated and so on anew.
    fn reset_peaks(&self);
    /// Gives what is nobody's back to the device.
    fn trim(&self) -> Result<(), Failure>;
    /// Whether the processor reaches its blocks, and what a forked child has to copy to have one.
    fn backing(&self, block: Block) -> Vec<Backing>;
    /// Has what it does recorded from now on; not if that is so already.
    fn record(&self, recorder: Arc<Recorder>) -> bool;
    fn recorder(&self) -> Option<&Recorder>;
    /// Leaves; the number and the bytes of the blocks that were live.
    fn leave(&self) -> (usize, Bytes);
}

/// What a job has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    /// The most blocks that were live.
    pub(crate) blocks_peak: u64,
    pub(crate) iterations: u64,
    /// Allocations that were refused for good.
    pub(crate) refusals: u64,
    /// Nanoseconds for which its threads have waited to begin an iteration.
    pub(crate) waited_to_begin: u64,
    /// Nanoseconds for which its threads have waited for memory.
    pub(crate) waited_for_memory: u64,
}

/// Whether an iteration runs.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// None does, and none begins by itself: model and optimizer are being made.
    Outside,
    /// One begins with the next allocation.
    Due,
    /// One runs.
    Inside,
}

/// Opens a pool.
pub(crate) fn open<D: Adopt>(device: D, budget: Bytes) -> Result<Arc<dyn Opened>, Failure> {
    Ok(opened(Pool::new(device, PoolConfig::new(budget).fewest_calls(true))?))
}

/// A pool that is open.
pub(crate) fn opened<D: Adopt>(pool: Pool<D>) -> Arc<dyn Opened> {
    Arc::new(pool)
}

impl<D: Adopt> Opened for Pool<D> {
    fn join(&self, config: JobConfig, stream: RawStream) -> Result<Arc<dyn Tenant>, Failure> {
        let adopted = self.device().adopt(stream);
        let own = adopted.map_err(|error| Failure::from(zico_core::JoinError::Device(error)))?;
        let job = Pool::join(self, config, own)?;
        let (phase, turn, tally) =
            (AtomicU8::new(Phase::Outside as u8), Mutex::default(), Tally::default());
        Ok(Arc::new(Seat {
            pool: self.clone(),
            id: job.id(),
            job,
            own,
            stream,
            phase,
            turn,
            tally,
            peaks: Peaks::default(),
            recorder: OnceLock::new(),
        }))
    }

    fn set_budget(&self, budget: Bytes) -> Result<(), Failure> {
        Ok(Pool::set_budget(self, budget).map(drop)?)
    }

    fn stats(&self) -> BudgetStatus {
        self.budget_status()
    }

    fn trim(&self) -> Result<(), Failure> {
        let trimmed = Pool::trim(self, Bytes::ZERO);
        trimmed.map(drop).map_err(|error| AllocError::Device(error).into())
    }
}

/// One job, with where it is in its iterations.
struct Seat<D: Adopt> {
    pool: Pool<D>,
    job: Job<D>,
    id: JobId,
    /// The job's stream, by both of its names.
    own: D::Stream,
    stream: RawStream,
    phase: AtomicU8,
    /// Held by who changes the phase; also while an iteration waits to begin.
    turn: Mutex<()>,
    tally: Tally,
    peaks: Peaks,
    recorder: OnceLock<Arc<Recorder>>,
}

#[derive(Default)]
struct Tally {
    allocations: AtomicU64,
    frees: AtomicU64,
    iterations: AtomicU64,
    refusals: AtomicU64,
    waited_to_begin: AtomicU64,
    waited_for_memory: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Runs something that waits, and adds the time that it takes.
fn timed<T>(total: &AtomicU64, wait: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = wait();
    count(total, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    done
}

impl<D: Adopt> Seat<D> {
    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The iteration that runs is over, if any does: the next one is due. The turn is held.
    fn leave_iteration(&self) {
        if !self.is(Phase::Inside) {
            return;
        }
        // It fails only if none runs.
        let _ = self.job.end_with_next();
        if let Some(recorder) = self.recorder() {
            recorder.end();
        }
        self.enter(Phase::Due);
    }

    /// Begins an iteration; the turn is held.
    fn start(&self, wait: bool) -> Result<(), Failure> {
        let started = match self.job.begin(None)? {
            zico_core::Begin::Started => Ok(()),
            zico_core::Begin::Wait(_) if wait => {
                timed(&self.tally.waited_to_begin, || self.job.begin_blocking(None, LOOK))
                    .map_err(Failure::from)
            }
            zico_core::Begin::Wait(_) => {
                Err(Failure::new(Status::ZicoBusy, "the iteration may not begin yet"))
            }
        };
        started?;
        count(&self.tally.iterations, 1);
        if let Some(recorder) = self.recorder() {
            recorder.begin();
        }
        self.enter(Phase::Inside);
        Ok(())
    }

    /// The next iteration begins, if it is due.
    #[cold]
    fn start_if_due(&self, wait: bool) -> Result<(), Failure> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have begun it meanwhile.
        if self.is(Phase::Due) { self.start(wait) } else { Ok(()) }
    }

    /// Makes a block of the job safe to use on another stream: that comes after all that the job's
    /// own stream has to do with its memory, and its memory is used again only after that.
    #[cold]
    fn lend(&self, block: Block, stream: RawStream) -> Result<(), Failure> {
        let device = self.pool.device();
        let lent = device.adopt(stream).and_then(|other| {
            if other != self.own {
                device.order_after(other, &device.record(self.own)?)?;
            }
            Ok(other)
        });
        let other = lent.map_err(|error| Failure::from(AllocError::Device(error)))?;
        Ok(self.job.record_use(block, other)?)
    }
}

impl<D: Adopt> Tenant for Seat<D> {
    fn begin(&self) -> Result<(), Failure> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.start(true)
    }

    fn end(&self) -> Result<(), Failure> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.job.end()?;
        if let Some(recorder) = self.recorder() {
            recorder.end();
        }
        self.enter(Phase::Outside);
        Ok(())
    }

    fn mark(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.leave_iteration();
        self.enter(Phase::Due);
    }

    fn suspend(&self, choices: &Choices) -> Result<Bytes, Failure> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.leave_iteration();
        let until = Instant::now() + PATIENCE;
        let gone = loop {
            match self.job.suspend_with(|block| choices.of(block)) {
                Err(SuspendError::Busy) if Instant::now() < until => std::thread::sleep(LOOK),
                done => break done?,
            }
        };
        // Others have the room when the device has made the copies.
        while self.pool.poll().is_ok() && !self.job.held().draining.is_zero() {
            std::thread::sleep(LOOK);
        }
        Ok(gone)
    }

    fn resume(&self) -> Result<(), Failure> {
        Ok(self.job.resume_blocking(LOOK)?)
    }

    fn alloc(&self, bytes: Bytes, stream: RawStream, wait: bool) -> Result<Block, Failure> {
        let recorder = self.recorder().map(|recorder| (recorder, Instant::now()));
        if self.is(Phase::Due) {
            self.start_if_due(wait).inspect_err(|_| count(&self.tally.refusals, 1))?;
        }
        let request = Request::learned(bytes);
        let made = match self.job.alloc(request) {
            Err(AllocError::Busy(_)) if wait => {
                timed(&self.tally.waited_for_memory, || self.job.alloc_blocking(request, LOOK))
            }
            done => done,
        };
        let block = made.inspect_err(|_| count(&self.tally.refusals, 1))?;
        if stream != self.stream
            && let Err(failure) = self.lend(block, stream)
        {
            // It is live, and nobody knows it.
            let _ = self.job.free(block);
            return Err(failure);
        }
        count(&self.tally.allocations, 1);
        self.peaks.add(bytes.value());
        if let Some((recorder, called)) = recorder {
            recorder.alloc(called, block.address().value(), bytes);
            if stream != self.stream {
                recorder.lend(block.address().value(), stream);
            }
        }
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), Failure> {
        if let Some(recorder) = self.recorder() {
            recorder.free(block.address().value());
        }
        self.job.free(block)?;
        count(&self.tally.frees, 1);
        self.peaks.sub(block.bytes().value());
        Ok(())
    }

    fn record_use(&self, block: Block, stream: RawStream) -> Result<(), Failure> {
        let other = self.pool.device().adopt(stream);
        let other = other.map_err(|error| Failure::from(AllocError::Device(error)))?;
        self.job.record_use(block, other)?;
        if let Some(recorder) = self.recorder().filter(|_| stream != self.stream) {
            recorder.lend(block.address().value(), stream);
        }
        Ok(())
    }

    fn stats(&self) -> (Stats, Counts) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Tally { allocations, frees, iterations, refusals, waited_to_begin, waited_for_memory } =
            &self.tally;
        let counts = Counts {
            allocations: read(allocations),
            frees: read(frees),
            blocks_peak: self.peaks.blocks(),
            iterations: read(iterations),
            refusals: read(refusals),
            waited_to_begin: read(waited_to_begin),
            waited_for_memory: read(waited_for_memory),
        };
        let mut stats = self.job.snapshot().stats;
        stats.requested.peak = Bytes::new(self.peaks.requested());
        stats.allocated.peak = Bytes::new(self.peaks.allocated());
        let Counter { current, peak, .. } = stats.reserved;
        stats.reserved.peak = Bytes::new(self.peaks.reserved(current.value(), peak.value()));
        (stats, counts)
    }

    fn reset_peaks(&self) {
        self.peaks.reset(self.job.held().peak.value());
    }

    fn trim(&self) -> Result<(), Failure> {
        Opened::trim(&self.pool)
    }

    fn backing(&self, block: Block) -> Vec<Backing> {
        self.pool.device().backing(block.address(), block.bytes())
    }

    fn record(&self, recorder: Arc<Recorder>) -> bool {
        self.recorder.set(recorder).is_ok()
    }

    fn recorder(&self) -> Option<&Recorder> {
        self.recorder.get().map(Arc::as_ref)
    }

    fn leave(&self) -> (usize, Bytes) {
        let live = self.pool.evict(self.id);
        live.map_or((0, Bytes::ZERO), |live| (live.blocks.len(), live.total()))
    }
}
