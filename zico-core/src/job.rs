//! A job: the handle through which one tenant allocates, frees and runs its iterations.

use core::fmt;
use core::ops::{DerefMut, Range};

use crate::admission::Begin;
use crate::arena::GRANULE;
use crate::block::{Block, Request};
use crate::device::Device;
use crate::error::{AllocError, BeginError, FreeError, NotRunning};
use crate::lifetime::Lifetime;
use crate::memory::Memory;
use crate::planned::{Lesson, Planning};
use crate::profile::Profile;
use crate::region::JobKey;
use crate::run::Pulse;
use crate::shared::Shared;
use crate::signature::Mark;
use crate::snapshot::Held;
use crate::stats::{LiveBlocks, Stats};
use crate::sync::{Arc, Mutex};
use crate::units::Progress;
use crate::waits::JobId;
use crate::zone::Zone;

/// One tenant of a pool.
///
/// Allocating and freeing takes the job's own lock only, as long as its arenas have room. Dropping
/// a job gives up all it has: other jobs get it once the device has passed what the job enqueued. That takes
/// O(blocks log blocks + pages), and the pool's lock for at most 1024 pages at a time.
pub struct Job<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) key: JobKey,
    pub(crate) stream: D::Stream,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) memory: Arc<Mutex<Memory<D>>>,
}

impl<D: Device> Job<D> {
    /// Asks to start an iteration. If the answer is to wait, ask again whenever
    /// [`Pool::generation`](crate::Pool::generation) has changed; the place in the queue is kept.
    ///
    /// Those with a higher priority are asked first, then whom the policy puts first, then who has
    /// waited longer. A job is put behind others that asked later no more than 16 times; then it is the
    /// first of them. Iterations that fit in gaps, without making it wait longer, may still begin before it,
    /// any number of them; so may all others while what it needs is kept by a job that does not run.
    ///
    /// What a job holds when it begins is its own to free or to keep. While it waits others cannot have it.
    ///
    /// # Errors
    /// If it can never start, or has started already.
    pub fn begin(&self) -> Result<Begin, BeginError> {
        self.mark_by_hand();
        self.ask(None)
    }

    /// As [`begin`](Self::begin), for an iteration of a certain shape: one that takes what the last ones
    /// took for which the job has said the same. The length of a sequence will do, rounded if there
    /// are many, or whether it is a training step or a validation. A job that does not say is understood
    /// by what it allocates, which shows only after the iteration has begun.
    ///
    /// The eight shapes are remembered that were seen last.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    ///
    /// ```
    /// # use zico_core::{Begin, BeginError, Device, Job};
    /// fn step<D: Device>(job: &Job<D>, tokens: u64) -> Result<Begin, BeginError> {
    ///     job.begin_as(tokens.next_multiple_of(64))
    /// }
    /// ```
    pub fn begin_as(&self, shape: u64) -> Result<Begin, BeginError> {
        self.mark_by_hand();
        self.ask(Some(shape))
    }

    pub(crate) fn ask(&self, shape: Option<u64>) -> Result<Begin, BeginError> {
        let now = self.shared.device.now();
        // No allocation is counted while the count begins anew.
        let mut memory = self.memory.lock();
        let asked = self.shared.ledger.lock().begin(self.key, shape, now);
        if matches!(asked, Ok((Begin::Started, _))) {
            memory.begin(shape);
        }
        drop(memory);
        if asked.is_err() {
            // A job that no longer waits may make way for others.
            self.shared.changed();
        }
        let (begin, admitted) = asked?;
        // A job that waits cannot free what others wait for: one of them may have to be told.
        let stuck = begin != Begin::Started && self.shared.ledger.lock().is_news_that_stuck();
        if admitted || stuck {
            self.shared.changed();
        }
        Ok(begin)
    }

    /// No longer asks to start: gives up its place among those that wait. Nothing happens if the job
    /// does not wait.
    pub fn withdraw(&self) {
        if self.shared.ledger.lock().withdraw(self.key) {
            self.shared.changed();
        }
    }

    /// Ends the iteration: all its work has been enqueued. Memory that it has freed reaches others
    /// as the device passes it.
    ///
    /// An iteration of n allocations that has repeated is planned before this returns, once for each kind
    /// and again, a few times, when blocks live longer than foreseen. That takes O(n log n) steps for any
    /// lifetimes, of a few nanoseconds each, and no lock. The rest takes O(jobs) for each decision on those
    /// that wait, and holds the pool's lock for that and for at most 1024 pages at a time. Where there is no plan within these steps, the
    /// iteration is placed as before. [`JobConfig::without_plans`](crate::JobConfig::without_plans) does
    /// without.
    ///
    /// # Errors
    /// If no iteration has begun.
    pub fn end(&self) -> Result<(), NotRunning> {
        self.mark_by_hand();
        self.close()
    }

    pub(crate) fn close(&self) -> Result<(), NotRunning> {
        self.unpark(true);
        // A failure leaves the batch open; the next poll fences it.
        let _ = self.shared.fence(self.key);
        let now = self.shared.device.now();
        let signature = self.memory.lock().signature;
        self.shared.ledger.lock().end(self.key, now, signature)?;
        let mut memory = self.memory.lock();
        let (lesson, spare) = (memory.end(), memory.give_up_spare(Lifetime::Iteration));
        self.shared.give_back(self.key, memory, Zone::Iteration, spare);
        // What another thread has freed meanwhile is not left parked between iterations.
        self.unpark(true);
        self.shared.changed();
        if let Some(lesson) = lesson {
            self.plan(lesson);
        }
        Ok(())
    }

    /// Plans the iterations that are like one that has ended.
    fn plan(&self, lesson: Lesson) {
        // What cannot be planned is placed as before.
        let Ok(layout) = lesson.plan(self.shared.region.value()) else { return };
        if self.shared.ledger.lock().replan(self.key, &layout.most()) {
            self.memory.lock().install(layout);
        }
    }

    /// Allocates device memory.
    ///
    /// O(1) while the job's arenas have room (O(log) of the free pieces of one size, amortised); else a
    /// lease from the pool, which may have to create regions on the device. A lease of n pages takes
    /// O(n + jobs log jobs) where they are mapped, else O((n + 64) log n) for each of at most 64 sorts of
    /// pages that are in use at different times. It holds the pool's lock for all pages that it asks for.
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
        let mut memory = self.memory.lock();
        if memory.is_due() {
            drop(memory);
            self.prepare(request, size)?;
            memory = self.memory.lock();
        }
        let Some(block) = memory.alloc(request, size, align, None) else {
            drop(memory);
            return self.grow_and_place(request, size, align);
        };
        let mark = memory.mark();
        let watched = self.pulse.tick();
        drop(memory);
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

    /// Before an allocation that may begin an iteration, or is the first of one.
    #[cold]
    fn prepare(&self, request: Request, size: u64) -> Result<(), AllocError<D::Error>> {
        if self.memory.lock().marker.is_some() {
            self.mark(request, size)?;
        }
        let mark = self.memory.lock().first_mark(size);
        if let Some(mark) = mark {
            // While the iteration has nothing yet its claim may rise as high as it has to.
            self.show(mark);
        }
        Ok(())
    }

    /// An allocation has been made, maybe one that shows what the iteration is like, or that somebody
    /// waited for.
    #[inline]
    pub(crate) fn made(&self, mark: Option<Mark>, watched: bool) {
        if let Some(mark) = mark {
            self.show(mark);
        }
        if watched {
            self.shared.admit();
        }
    }

    #[cold]
    fn show(&self, mark: Mark) {
        if self.shared.ledger.lock().recognise(self.key, mark) {
            self.shared.changed();
        }
    }

    #[cold]
    fn invalid(&self, request: Request) -> AllocError<D::Error> {
        let Request { bytes, align, .. } = request;
        AllocError::Invalid { bytes, align, region: self.shared.region }
    }

    /// Frees a block in program order. Its memory is the job's own to use again at once; it reaches
    /// other jobs when the device has passed all that is enqueued now.
    ///
    /// O(1), and O(pages) for whole pages that it leaves empty, O(streams) for other streams that use the
    /// block. It holds the pool's lock for at most 1024 pages at a time, and not at all where none is left
    /// empty.
    ///
    /// # Errors
    /// If the block is not live in this job.
    #[inline]
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut memory = self.memory.lock();
        if memory.has_notes() {
            drop(memory);
            return self.free_noted(block);
        }
        let (zone, pages) = memory.free(block)?;
        self.freed(memory, zone, pages);
        Ok(())
    }

    /// Frees a block that may have a name or other streams that use it.
    #[cold]
    fn free_noted(&self, block: Block) -> Result<(), FreeError> {
        let mut memory = self.memory.lock();
        let Some(parked) = memory.forget(block)? else {
            let (zone, pages) = memory.free(block)?;
            self.freed(memory, zone, pages);
            return Ok(());
        };
        let hungry = core::mem::take(&mut memory.hungry);
        let watched = self.pulse.tick();
        drop(memory);
        self.park(parked);
        self.tell(hungry, watched);
        Ok(())
    }

    /// A block has been freed, and these pages are empty.
    #[inline]
    fn freed(&self, mut memory: impl DerefMut<Target = Memory<D>>, zone: Zone, pages: Range<u64>) {
        let hungry = core::mem::take(&mut memory.hungry);
        let watched = self.pulse.tick();
        self.shared.give_back(self.key, memory, zone, pages);
        self.tell(hungry, watched);
    }

    /// Tells those who have waited for a free of this job, or for it to have come this far.
    #[inline]
    fn tell(&self, hungry: bool, watched: bool) {
        if hungry {
            self.shared.fed();
        }
        if watched {
            self.shared.admit();
        }
    }

    /// Which of the pool's jobs it is.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId(self.key)
    }

    /// The allocations and frees of the running iteration so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.pulse.progress()
    }

    /// What is charged to the job now.
    #[must_use]
    pub fn held(&self) -> Held {
        let ledger = self.shared.ledger.lock();
        ledger
            .accounts
            .get(&self.key)
            .map(|account| Held::of(account, self.shared.region))
            .unwrap_or_default()
    }

    /// Its blocks in figures.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let blocks = self.memory.lock().tally.stats();
        let ledger = self.shared.ledger.lock();
        let account = ledger.accounts.get(&self.key);
        account.map_or(blocks, |account| account.stats(blocks, self.shared.region))
    }

    /// How its iterations are planned.
    #[must_use]
    pub fn planning(&self) -> Planning {
        self.memory.lock().planning()
    }

    /// The blocks that are live. O(blocks).
    #[must_use]
    pub fn live_blocks(&self) -> LiveBlocks {
        let blocks = self.memory.lock().live_blocks();
        let ledger = self.shared.ledger.lock();
        let account = ledger.accounts.get(&self.key);
        LiveBlocks { job: account.map_or_else(|| "".into(), |a| a.name.clone()), blocks }
    }

    /// Leaves the pool, and says what was still live: what a program that frees all it has should
    /// find empty. As with dropping it, other jobs get all of it once the device has passed what the
    /// job enqueued. O(blocks log blocks + pages), the pool's lock for at most 1024 pages at a time.
    pub fn leave(self) -> LiveBlocks {
        self.live_blocks()
    }

    /// What its running or next iteration is expected to take, once one has ended.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.shared
            .ledger
            .lock()
            .accounts
            .get(&self.key)?
            .outlook
            .profile()
            .map(|profile| (**profile).clone())
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
        self.shared.leave(self.key, &self.memory);
    }
}
