//! Iterations of a job that does not mark them: an adapter around [`Job`].
//!
//! Until a period is known, all that the job does is one iteration, which begins when its setup is
//! over: with the first allocation that is not said to persist, or, where lifetimes are learned,
//! with the first one after something has been freed. From then on an iteration ends and the next
//! one asks to begin before the allocation with which one is seen to begin. Where it may not begin
//! yet, that allocation is refused as busy. What the job holds meanwhile others cannot have, so
//! that should be little: an iteration has not ended while more than a little of its memory is
//! held.
//!
//! When the sequence stops repeating, the iteration that runs goes on until a period is known
//! again, and it may need whatever there is, as far as those of other jobs can still finish. Where
//! it stops at the end of a period, that is still the end of an iteration: another kind of
//! iteration follows.

use super::wait::Place;
use super::{Changed, Job};
use crate::heap::GRANULE;
use crate::learn::detector::Detector;
use crate::types::block::{Block, Request};
use crate::types::device::Device;
use crate::types::error::{AllocError, BeginError, FreeError};
use crate::types::lifetime::Lifetime;
use crate::types::report::{Begin, Detected};
use crate::types::sync::{Mutex, Ordering};
use crate::types::units::Bytes;

/// A job whose iterations are found from the order of its allocations, instead of being marked.
///
/// [`detected`](Self::detected) says how sure it is where they begin. Until that is known, and
/// whenever the order stops repeating, what the job does counts as one iteration; with nothing
/// [declared](crate::JobConfig::declare) the first one runs alone. An allocation with which an
/// iteration begins is [`Busy`](AllocError::Busy) for as long as that may not start.
///
/// It takes three quarters of a mebibyte of the host's memory. The order has to be the same each
/// time: a job whose threads allocate as they like has none.
///
/// ```
/// use zico_core::{AllocError, AutoJob, Bytes, Device, Job, Lifetime, Request};
///
/// /// A runtime that knows nothing of iterations.
/// fn train<D: Device>(job: Job<D>) -> Result<(), AllocError<D::Error>> {
///     let job = AutoJob::new(job);
///     for _ in 0..100 {
///         let activations = job.alloc(Request::new(Bytes::mib(8), Lifetime::Iteration))?;
///         // ... launches that use them ...
///         let _ = job.free(activations);
///     }
///     Ok(())
/// }
/// ```
pub struct AutoJob<D: Device> {
    job: Job<D>,
    marker: Mutex<Marker>,
}

impl<D: Device> AutoJob<D> {
    /// Marks the iterations of this job from now on, which must run none.
    #[must_use]
    pub fn new(job: Job<D>) -> Self {
        Self { job, marker: Mutex::new(Marker::default()) }
    }

    /// The job, to look at it. Iterations are not to be marked by hand beside.
    #[must_use]
    pub const fn job(&self) -> &Job<D> {
        &self.job
    }

    /// The job, which marks its iterations itself from now on. The one that runs ends.
    #[must_use]
    pub fn into_job(self) -> Job<D> {
        if self.marker.lock().inside {
            // Another thread may have ended it.
            let _ = self.job.end();
        }
        self.job
    }

    /// How sure it is where the job's iterations begin. None while that is unknown.
    #[must_use]
    pub fn detected(&self) -> Option<Detected> {
        self.marker.lock().detector.detected()
    }

    /// Allocates device memory, as [`Job::alloc`], and begins an iteration first if it is time.
    ///
    /// # Errors
    /// As [`Job::alloc`]. [`Busy`](AllocError::Busy) also where an iteration may not begin yet.
    pub fn alloc(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        let size = placed(request);
        self.mark(request, size)?;
        let live = self.job.allocated();
        let block = self.job.alloc(request)?;
        self.marker.lock().detector.push(size, live);
        Ok(block)
    }

    /// Allocates as soon as the memory can be had, as [`Job::alloc_async`].
    ///
    /// # Errors
    /// As [`Self::alloc`], but never [`Busy`](AllocError::Busy).
    pub async fn alloc_async(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        // It may be an iteration that this waits for.
        let _place = Place(&self.job);
        loop {
            let seen = self.job.shared.generation.load(Ordering::Acquire);
            match self.alloc(request) {
                Err(AllocError::Busy(_)) => Changed::new(&self.job.shared, seen).await,
                done => return done,
            }
        }
    }

    /// Allocates as soon as the memory can be had, and blocks the thread until then, as
    /// [`Job::alloc_blocking`].
    ///
    /// # Errors
    /// As [`Job::alloc_blocking`].
    #[cfg(feature = "std")]
    pub fn alloc_blocking(
        &self,
        request: Request,
        look: core::time::Duration,
    ) -> Result<Block, AllocError<D::Error>> {
        let failed = |error| Some(Err(AllocError::Device(error)));
        self.job.block_on(self.alloc_async(request), look, failed)
    }

    /// Frees a block, as [`Job::free`].
    ///
    /// # Errors
    /// As [`Job::free`].
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        self.job.free(block)?;
        self.marker.lock().freed = true;
        Ok(())
    }

    /// Begins an iteration before this allocation is made, if it is time.
    fn mark(&self, request: Request, size: Bytes) -> Result<(), AllocError<D::Error>> {
        let job = &self.job;
        let due = self.marker.lock().due(size, request.lifetime());
        match due {
            Due::Nothing => return Ok(()),
            Due::Lost => {
                self.goes_on();
                return Ok(());
            }
            Due::Turn if !job.shared.may_turn(job.key) => {
                self.goes_on();
                return Ok(());
            }
            // Another thread may have ended it.
            Due::Turn => drop(job.end()),
            Due::Begin => {}
        }
        let refused = match job.begin(None) {
            Ok(Begin::Started) | Err(BeginError::AlreadyRunning) => {
                self.goes_on();
                return Ok(());
            }
            Ok(Begin::Wait(_)) => None,
            Err(error) => Some(error),
        };
        let asked = request.bytes;
        Err(match refused {
            None => job.shared.busy(job.key, asked),
            Some(BeginError::BeyondCap { cap, .. }) => job.shared.beyond_cap(job.key, asked, cap),
            Some(BeginError::Left) => AllocError::Left,
            Some(BeginError::Broker(error)) => AllocError::Broker(error),
            Some(_) => job.shared.out_of_memory(job.key, asked),
        })
    }

    /// An iteration runs now.
    fn goes_on(&self) {
        let lost = {
            let mut marker = self.marker.lock();
            marker.begun();
            core::mem::take(&mut marker.lost)
        };
        if lost {
            self.job.shared.lose(self.job.key);
        }
    }
}

/// The bytes that a block takes.
fn placed(request: Request) -> Bytes {
    let granule = Bytes::new(GRANULE);
    request.bytes.at_least(granule).round_up(granule).unwrap_or(request.bytes)
}

/// What has to happen before an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    /// An iteration begins.
    Begin,
    /// One ends, and the next one begins.
    Turn,
    /// The running one may go on for ever.
    Lost,
}

/// Where the job is.
#[derive(Default)]
struct Marker {
    detector: Detector,
    /// An iteration runs.
    inside: bool,
    /// One has to begin before the next allocation is made.
    due: bool,
    /// The number of the allocation with which the running one began.
    began: u64,
    /// The order has ceased to repeat, and the pool has not been told.
    lost: bool,
    /// The job has freed something.
    freed: bool,
}

impl Marker {
    /// What has to happen before this allocation.
    fn due(&mut self, size: Bytes, lifetime: Option<Lifetime>) -> Due {
        if self.due {
            return Due::Begin;
        }
        self.lost |= !self.detector.expects(size.value());
        let is_new = self.began != self.detector.count();
        let is_turn = self.inside && is_new && self.detector.is_boundary();
        let is_setup = lifetime.map_or(!self.freed, |lifetime| lifetime == Lifetime::Persistent);
        self.due = is_turn || !self.inside && !is_setup;
        match (self.due, is_turn) {
            (_, true) => {
                self.inside = false;
                Due::Turn
            }
            (true, _) => Due::Begin,
            _ if self.lost => Due::Lost,
            _ => Due::Nothing,
        }
    }

    fn begun(&mut self) {
        (self.inside, self.due, self.began) = (true, false, self.detector.count());
    }
}
