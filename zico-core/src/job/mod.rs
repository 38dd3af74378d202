//! A job: the handle through which one tenant allocates, frees and runs its iterations.

mod auto;
mod grow;
mod streams;
mod suspend;
mod wait;

use core::fmt;
use core::ops::{DerefMut, Range};

use crate::executor::{Remote, Shared};
use crate::heap::{GRANULE, JobHeap};
use crate::learn::profile::Profile;
use crate::learn::signature::Mark;
use crate::types::block::{Block, Request};
use crate::types::device::Device;
use crate::types::error::{AllocError, BeginError, FreeError, NotRunning, ResumeError};
use crate::types::pulse::SharedPulse;
use crate::types::report::{Begin, Held, JobSnapshot, Resume};
use crate::types::stats::LiveBlocks;
use crate::types::sync::{Arc, Mutex};
use crate::types::units::Bytes;
use crate::types::zone::Zone;
use crate::types::{JobId, JobKey};

pub use auto::AutoJob;
pub use wait::Changed;

/// One tenant of a pool.
///
/// Allocating and freeing takes the job's own lock only, as long as its arenas have room. Dropping
/// a job gives up all it has: other jobs get it once the device has passed what the job enqueued.
/// That takes O(blocks log blocks + pages), and the pool's lock for at most 1024 pages at a time.
pub struct Job<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) key: JobKey,
    pub(crate) stream: D::Stream,
    pub(crate) pulse: SharedPulse,
    pub(crate) heap: Arc<Mutex<JobHeap<D>>>,
    /// The pool may take it to the host between its iterations, and within them.
    pub(crate) preemptible: bool,
    pub(crate) interruptible: bool,
}

impl<D: Device> Job<D> {
    /// Asks to start an iteration. If the answer is to wait, ask again whenever
    /// [`Pool::generation`](crate::Pool::generation) has changed; the place in the queue is kept.
    ///
    /// Those with a higher priority are asked first, then whom the policy puts first, then who has
    /// waited longer. A job is put behind others that asked later no more than 16 times; then it is
    /// the first of them. Iterations that fit in gaps, without making it wait longer, may still
    /// begin before it, any number of them; so may all others while what it needs is kept by a job
    /// that does not run.
    ///
    /// What a job holds when it begins is its own to free or to keep. While it waits others cannot
    /// have it.
    ///
    /// The shape says which earlier iterations this one is like: those for which the job has said
    /// the same. The length of a sequence will do, rounded if there are many, or whether it is a
    /// training step or a validation; the eight that were seen last are remembered. Most jobs have
    /// nothing to say: `None`. Their iterations are understood by what they allocate, which shows
    /// only after they have begun.
    ///
    /// # Errors
    /// If it can never start, or has started already.
    ///
    /// ```
    /// # use zico_core::{Begin, BeginError, Device, Job};
    /// fn step<D: Device>(job: &Job<D>) -> Result<Begin, BeginError> {
    ///     job.begin(None)
    /// }
    ///
    /// fn step_of<D: Device>(job: &Job<D>, tokens: u64) -> Result<Begin, BeginError> {
    ///     job.begin(tokens.next_multiple_of(64))
    /// }
    /// ```
    pub fn begin(&self, shape: impl Into<Option<u64>>) -> Result<Begin, BeginError> {
        self.ask(shape.into())
    }

    fn ask(&self, shape: Option<u64>) -> Result<Begin, BeginError> {
        if !self.shared.comes_to_begin(self.key, self.stream, &self.heap) {
            // Another thread ends the last one: those who wait are told when it has.
            return Ok(Begin::Wait(None));
        }
        let asked = self.try_to_begin(shape);
        match asked {
            Ok(Begin::Wait(_)) if self.comes_back() => self.shared.preempt(Some(self.key)),
            Err(BeginError::Suspended) if self.comes_back() => {
                return match self.resume() {
                    Ok(Resume::Done) => self.try_to_begin(shape),
                    Ok(Resume::Wait) => Ok(Begin::Wait(None)),
                    Err(ResumeError::Left) => Err(BeginError::Left),
                    Err(ResumeError::Broker(error)) => Err(BeginError::Broker(error)),
                    Err(ResumeError::Device(_)) => Err(BeginError::Suspended),
                };
            }
            _ => {}
        }
        asked
    }

    fn try_to_begin(&self, shape: Option<u64>) -> Result<Begin, BeginError> {
        if let Some(remote) = self.shared.remote() {
            return self.ask_broker(remote, shape);
        }
        let now = self.shared.device.now();
        // No allocation is counted while the count begins anew.
        let mut heap = self.heap.lock();
        let asked =
            self.shared.quietly(|ledger| (ledger.begin(self.key, shape, now), ledger.take_wake()));
        let (asked, wake) = asked.unwrap_or((Err(BeginError::Left), false));
        if asked == Ok(Begin::Started) {
            heap.begin(shape);
        }
        drop(heap);
        if wake {
            self.shared.changed();
        }
        asked
    }

    /// A broker is asked while the heap's lock is not held: other threads go on freeing.
    fn ask_broker(&self, remote: &Remote<D>, shape: Option<u64>) -> Result<Begin, BeginError> {
        let asked = remote.begin(self.key, shape);
        if asked == Ok(Begin::Started) {
            let mut heap = self.heap.lock();
            self.pulse.restart();
            heap.begin(shape);
        }
        asked
    }

    /// No longer asks to start: gives up its place among those that wait. Nothing happens if the
    /// job does not wait.
    pub fn withdraw(&self) {
        self.shared.withdraw(self.key);
    }

    /// Ends the iteration: all its work has been enqueued. Memory that it has freed reaches others
    /// as the device passes it.
    ///
    /// An iteration of n allocations that has repeated is planned before this returns, once for
    /// each kind and again, a few times, when blocks live longer than foreseen. That takes O(n log
    /// n) steps for any lifetimes, of a few nanoseconds each, and no lock. The rest takes O(jobs)
    /// for each decision on those that wait, and holds the pool's lock for that and for at most
    /// 1024 pages at a time. Where there is no plan within these steps, the iteration is placed as
    /// before. [`JobConfig::without_plans`](crate::JobConfig::without_plans) does without.
    ///
    /// # Errors
    /// If no iteration has begun.
    pub fn end(&self) -> Result<(), NotRunning> {
        self.shared.end_iteration(self.key, self.stream, &self.heap, false)
    }

    /// The iteration is over when the next one [begins](Self::begin): what is freed until then is
    /// freed within it.
    ///
    /// For runtimes that are told of an iteration's end before the job frees what it has used only
    /// for that: PyTorch's optimizers make a step before gradients are freed. What a job holds between
    /// iterations others cannot count on; what one that runs will free they can.
    ///
    /// The next one goes before those of jobs that wait, if each has had more time by one of its
    /// iterations; while it has had less than four fifths of that, none starts in its next one's room.
    ///
    /// A job that then does nothing has ended it when the pool's patience is over, or after a second
    /// if it has no block of the iteration left: whoever [looks](crate::Pool::poll) does so. So do
    /// [`end`](Self::end) and [`suspend`](Self::suspend). O(1), and a fence.
    ///
    /// # Errors
    /// If no iteration has begun.
    ///
    /// ```
    /// use zico_core::{Bytes, Lifetime, Pool, PoolConfig, Request};
    /// use zico_mock::{MockConfig, MockDevice};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = MockDevice::new(MockConfig::new(Bytes::gib(1)))?;
    /// let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::mib(64)))?;
    /// let job = pool.join("training", device.add_stream())?;
    /// job.begin(None)?;
    /// let gradients = job.alloc(Request::new(Bytes::mib(40), Lifetime::Iteration))?;
    /// job.end_with_next()?; // the optimizer has made its step
    /// job.free(gradients)?;
    /// job.begin(None)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn end_with_next(&self) -> Result<(), NotRunning> {
        let now = self.shared.device.now();
        if !self.heap.lock().ends_with_next(now) {
            return Err(NotRunning);
        }
        // A failure leaves the batch open; the next poll fences it.
        let _ = self.shared.fence(self.key);
        Ok(())
    }

    /// Allocates device memory.
    ///
    /// O(1) while the job's arenas have room (O(log) of the free pieces of one size, amortised);
    /// else a lease from the pool, which may have to create regions on the device. A lease of n
    /// pages takes O(n + jobs log jobs) where they are mapped, else O((n + 64) log n) for each of
    /// at most 64 sorts of pages that are in use at different times. It holds the pool's lock for
    /// all pages that it asks for.
    ///
    /// # Errors
    /// [`Busy`](AllocError::Busy) if it cannot be had now, the other kinds as they say. Nothing has
    /// changed then, and the call can be repeated.
    #[inline]
    pub fn alloc(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        let size = request.bytes.value().max(1).checked_next_multiple_of(GRANULE);
        let (Some(size), Some(align)) = (size, self.alignment(request)) else {
            return Err(self.invalid(request));
        };
        let mut heap = self.heap.lock();
        if heap.is_due() {
            drop(heap);
            self.prepare(size);
            heap = self.heap.lock();
        }
        let Some(block) = heap.alloc(request, size, align, None) else {
            drop(heap);
            return self.grow_and_place(request, size, align);
        };
        let mark = heap.mark();
        let watched = self.pulse.tick();
        drop(heap);
        self.made(mark, watched);
        Ok(block)
    }

    /// The alignment that a request gets, if it may ask for that.
    #[inline]
    fn alignment(&self, request: Request) -> Option<u64> {
        let align = request.align.value();
        let valid = align.is_power_of_two() && align <= self.shared.region.value();
        // Most ask for none.
        (align == GRANULE || valid).then_some(align.max(GRANULE))
    }

    /// Before the first allocation of an iteration.
    #[cold]
    fn prepare(&self, size: u64) {
        let mark = self.heap.lock().first_mark(size);
        if let Some(mark) = mark {
            // While the iteration has nothing yet its claim may rise as high as it has to.
            self.show(mark);
        }
    }

    /// An allocation has been made, maybe one that shows what the iteration is like, or that
    /// somebody waited for.
    #[inline]
    pub(crate) fn made(&self, mark: Option<Mark>, watched: bool) {
        if let Some(mark) = mark {
            self.show(mark);
        }
        if watched {
            self.shared.reached(self.key);
        }
    }

    #[cold]
    fn show(&self, mark: Mark) {
        self.shared.recognise(self.key, mark);
    }

    #[cold]
    fn invalid(&self, request: Request) -> AllocError<D::Error> {
        let Request { bytes, align, .. } = request;
        AllocError::Invalid { bytes, align, region: self.shared.region }
    }

    /// Frees a block in program order. Its memory is the job's own to use again at once; it reaches
    /// other jobs when the device has passed all that is enqueued now.
    ///
    /// O(1), and O(pages) for whole pages that it leaves empty, O(streams) for other streams that
    /// use the block. It holds the pool's lock for at most 1024 pages at a time, and not at all
    /// where none is left empty.
    ///
    /// # Errors
    /// If the block is not live in this job.
    #[inline]
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut heap = self.heap.lock();
        if heap.has_notes() {
            drop(heap);
            return self.free_noted(block);
        }
        let (zone, pages) = heap.free(block)?;
        self.freed(heap, zone, pages);
        Ok(())
    }

    /// Frees a block that may have a name or other streams that use it.
    #[cold]
    fn free_noted(&self, block: Block) -> Result<(), FreeError> {
        let mut heap = self.heap.lock();
        let Some(parked) = heap.forget(block)? else {
            let (zone, pages) = heap.free(block)?;
            self.freed(heap, zone, pages);
            return Ok(());
        };
        let has_waiters = core::mem::take(&mut heap.has_waiters);
        let watched = self.pulse.tick();
        drop(heap);
        self.park(parked);
        self.tell(has_waiters, watched);
        Ok(())
    }

    /// A block has been freed, and these pages are empty.
    #[inline]
    fn freed(&self, mut heap: impl DerefMut<Target = JobHeap<D>>, zone: Zone, pages: Range<u64>) {
        let has_waiters = core::mem::take(&mut heap.has_waiters);
        let watched = self.pulse.tick();
        self.shared.give_back(self.key, heap, zone, pages);
        self.tell(has_waiters, watched);
    }

    /// Tells those who have waited for a free of this job, or for it to have come this far.
    #[inline]
    fn tell(&self, has_waiters: bool, watched: bool) {
        if has_waiters {
            self.shared.freed(self.key);
        }
        if watched {
            self.shared.reached(self.key);
        }
    }

    /// Which of the pool's jobs it is.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId(self.key)
    }

    /// What is charged to the job now. O(log jobs), under the pool's lock: for whoever looks often.
    #[must_use]
    pub fn held(&self) -> Held {
        self.shared.held(self.key)
    }

    /// All figures of the job as they stand: what it does and holds, its blocks, plans and
    /// progress. [`Held`] alone is cheaper to [have](Self::held). The pool's books come first: a
    /// thread that goes on meanwhile may be a step further in the job's own. O(blocks), under the
    /// job's lock; O(log jobs) under the pool's.
    #[must_use]
    pub fn snapshot(&self) -> JobSnapshot {
        // A broker may be asked for it: not with the job's lock.
        let snapshot = self.shared.job(self.key);
        let mut snapshot = snapshot.unwrap_or_else(|| JobSnapshot::gone(self.id()));
        self.heap.lock().report(&mut snapshot);
        snapshot
    }

    /// The bytes of its live blocks, as they are placed.
    pub(crate) fn allocated(&self) -> Bytes {
        self.heap.lock().tally.allocated()
    }

    /// The blocks that are live. O(blocks).
    #[must_use]
    pub fn live_blocks(&self) -> LiveBlocks {
        let blocks = self.heap.lock().live_blocks();
        LiveBlocks { job: self.shared.name(self.key), blocks }
    }

    /// Leaves the pool, and says what was still live: what a program that frees all it has should
    /// find empty. As with dropping it, other jobs get all of it once the device has passed what
    /// the job enqueued. O(blocks log blocks + pages), the pool's lock for at most 1024 pages at a
    /// time.
    pub fn leave(self) -> LiveBlocks {
        self.live_blocks()
    }

    /// What its running or next iteration is expected to take, once one has ended.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.shared.profile(self.key)
    }
}

impl<D: Device> fmt::Debug for Job<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("key", &self.key)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

impl<D: Device> Drop for Job<D> {
    fn drop(&mut self) {
        self.unpark(true);
        self.shared.leave(self.key, &self.heap);
    }
}
