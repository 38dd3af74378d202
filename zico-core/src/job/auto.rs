//! Iterations of a job that does not mark them: an adapter around [`Job`].
//!
//! **Without any mark** ([`AutoJob::new`]). Until a period is known, all that the job does is one
//! iteration, which begins when its setup is over: with the first allocation that is not said to
//! persist, or, where lifetimes are learned, with the first one after something has been freed.
//! From then on an iteration ends and the next one asks to begin before the allocation with which
//! one is seen to begin. Where it may not begin yet, that allocation is refused as busy. What the
//! job holds meanwhile others cannot have, so that should be little: an iteration has not ended
//! while more than a little of its memory is held.
//!
//! When the sequence stops repeating, the iteration that runs goes on until a period is known
//! again, and it may need whatever there is, as far as those of other jobs can still finish. Where
//! it stops at the end of a period, that is still the end of an iteration: another kind of
//! iteration follows.
//!
//! An iteration whose end is not found, or that never comes down to so little, would keep others
//! waiting for ever. So it ends after a thousand allocations or more, where about the least is live
//! of what was lately, and asks to begin again as all do.
//!
//! **With marks of phases** ([`AutoJob::with_phases`]). An iteration ends with a mark, if it is one
//! with which a cycle of phases ends ([`learn::phases`](crate::learn::phases)); the next one begins
//! before the allocation that follows. What is freed between the two is freed within the one that
//! ends ([`Job::end_with_next`]).

use super::wait::Place;
use super::{Changed, Job};
use crate::heap::GRANULE;
use crate::learn::detector::Detector;
use crate::learn::phases::Phases;
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
/// whenever the order stops repeating, what the job does counts as one iteration, which ends after
/// a thousand allocations or more, where little is live; with nothing
/// [declared](crate::JobConfig::declare) the first one runs alone. An allocation with which an
/// iteration begins is [`Busy`](AllocError::Busy) for as long as that may not start.
///
/// It takes three quarters of a mebibyte of the host's memory. The order has to be the same each
/// time: a job whose threads allocate as they like has none. Where the caller can mark at least
/// parts of iterations, [`with_phases`](Self::with_phases) needs neither.
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
        Self::found_by(job, Source::Sizes(Detector::new()))
    }

    /// The same where the caller knows what ends a part of an iteration, as a step of an optimizer
    /// does, and says so with [`end_phase`](Self::end_phase). How many of these phases are an
    /// iteration is found from what they allocate: one in most jobs, three where two of a
    /// discriminator and one of a generator take turns. A mark that is missing once, or one too
    /// many, changes one iteration and not what is expected of the next ones.
    ///
    /// It takes less than a kibibyte of the host's memory, and the threads of a job may allocate in
    /// any order within a phase.
    ///
    /// ```
    /// use zico_core::{AllocError, AutoJob, Bytes, Device, Job, Lifetime, Request};
    ///
    /// /// Calls `end_phase` where the framework says that an optimizer has made a step.
    /// fn train<D: Device>(job: Job<D>) -> Result<(), AllocError<D::Error>> {
    ///     let job = AutoJob::with_phases(job);
    ///     for _ in 0..100 {
    ///         let activations = job.alloc(Request::new(Bytes::mib(8), Lifetime::Iteration))?;
    ///         // ... launches that use them ...
    ///         let _ = job.free(activations);
    ///         job.end_phase();
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn with_phases(job: Job<D>) -> Self {
        Self::found_by(job, Source::Phases(Phases::default()))
    }

    fn found_by(job: Job<D>, source: Source) -> Self {
        Self { job, marker: Mutex::new(Marker::new(source)) }
    }

    /// A phase has ended: all its work has been enqueued. The iteration is over with it if it is the
    /// last one of a cycle, as [`Job::end_with_next`]. Whether it is. Nothing happens if the job is
    /// not one [with phases](Self::with_phases), or nothing has been allocated since the last mark.
    ///
    /// The next iteration begins with the next allocation: what only the phases have used is freed
    /// best before that.
    pub fn end_phase(&self) -> bool {
        let live = self.job.allocated();
        if !self.marker.lock().end_phase(live) {
            return false;
        }
        // Another thread may have ended it.
        let ended = self.job.end_with_next().is_ok();
        // Last: what another thread allocates meanwhile is part of what ends, or of nothing.
        self.marker.lock().inside = false;
        ended
    }

    /// The job, to look at it. Iterations are not to be marked by hand beside.
    #[must_use]
    pub const fn job(&self) -> &Job<D> {
        &self.job
    }

    /// The job, which marks its iterations itself from now on. The one that runs ends.
    #[must_use]
    pub fn into_job(self) -> Job<D> {
        // It fails only if none runs.
        let _ = self.job.end();
        self.job
    }

    /// How sure it is where the job's iterations begin. None while that is unknown. Where the
    /// caller marks phases, the period is counted in them.
    #[must_use]
    pub fn detected(&self) -> Option<Detected> {
        match &self.marker.lock().source {
            Source::Sizes(detector) => detector.detected(),
            Source::Phases(phases) => phases.detected(),
        }
    }

    /// Allocates device memory, as [`Job::alloc`], and begins an iteration first if it is time.
    ///
    /// # Errors
    /// As [`Job::alloc`]. [`Busy`](AllocError::Busy) also where an iteration may not begin yet.
    pub fn alloc(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        let size = placed(request);
        let live = self.job.allocated();
        self.mark(request, size, live)?;
        let block = self.job.alloc(request)?;
        match &mut self.marker.lock().source {
            Source::Sizes(detector) => detector.push(size, live),
            Source::Phases(phases) => phases.push(size),
        }
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
    fn mark(&self, request: Request, size: Bytes, live: Bytes) -> Result<(), AllocError<D::Error>> {
        let job = &self.job;
        let due = self.marker.lock().due(size, request.lifetime(), live);
        match due {
            Due::Nothing => return Ok(()),
            Due::Lost => {
                self.goes_on(false);
                return Ok(());
            }
            Due::Turn if !job.shared.may_turn(job.key) => {
                self.goes_on(false);
                return Ok(());
            }
            // Another thread may have ended it.
            Due::Turn | Due::Overdue => drop(job.end()),
            Due::Begin => {}
        }
        let refused = match job.begin(None) {
            Ok(Begin::Started) | Err(BeginError::AlreadyRunning) => {
                self.goes_on(true);
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

    /// An iteration runs now, a new one or the same.
    fn goes_on(&self, is_new: bool) {
        let lost = {
            let mut marker = self.marker.lock();
            marker.goes_on(is_new);
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
    /// The same, whatever the job holds.
    Overdue,
    /// The running one may go on for ever.
    Lost,
}

/// Where iterations are found.
enum Source {
    /// In the order of the sizes that the job allocates.
    Sizes(Detector),
    /// In the phases that the caller marks.
    Phases(Phases),
}

/// Where the job is.
struct Marker {
    source: Source,
    /// An iteration runs.
    inside: bool,
    /// One has to begin before the next allocation is made.
    due: bool,
    /// The number of the allocation with which the running one began ...
    began: u64,
    /// ... or might have ended last.
    passed: u64,
    /// The order has ceased to repeat, and the pool has not been told.
    lost: bool,
    /// The job has freed something.
    freed: bool,
}

impl Marker {
    const fn new(source: Source) -> Self {
        Self { source, inside: false, due: false, began: 0, passed: 0, lost: false, freed: false }
    }

    /// What has to happen before this allocation.
    fn due(&mut self, size: Bytes, lifetime: Option<Lifetime>, live: Bytes) -> Due {
        if self.due {
            return Due::Begin;
        }
        if let Some(end) = self.ends(size, live) {
            (self.inside, self.due) = (false, true);
            return end;
        }
        let is_setup = lifetime.map_or(!self.freed, |lifetime| lifetime == Lifetime::Persistent);
        self.due = !self.inside && !is_setup;
        match () {
            () if self.due => Due::Begin,
            () if self.lost => Due::Lost,
            () => Due::Nothing,
        }
    }

    /// How the iteration that runs ends before this allocation, if it does.
    fn ends(&mut self, size: Bytes, live: Bytes) -> Option<Due> {
        let Source::Sizes(detector) = &mut self.source else { return None };
        self.lost |= !detector.expects(size.value());
        if !self.inside {
            return None;
        }
        let is_new = self.passed != detector.count();
        match () {
            () if detector.is_overdue(self.began, live) => Some(Due::Overdue),
            () if is_new && detector.is_boundary() => Some(Due::Turn),
            () => None,
        }
    }

    /// A phase has ended: whether the iteration that runs ends with it.
    fn end_phase(&mut self, live: Bytes) -> bool {
        let Source::Phases(phases) = &mut self.source else { return false };
        // What was there before the first mark was setup.
        self.freed = true;
        phases.end(live) && self.inside
    }

    fn goes_on(&mut self, is_new: bool) {
        if let Source::Sizes(detector) = &self.source {
            self.passed = detector.count();
            if is_new {
                self.began = self.passed;
            }
        }
        (self.inside, self.due) = (true, false);
    }
}
