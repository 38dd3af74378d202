//! A job: the handle through which one tenant allocates, frees and runs its iterations.

use core::fmt;
use core::ops::{DerefMut, Range};

use crate::account::Pulse;
use crate::admission::Begin;
use crate::arena::GRANULE;
use crate::device::Device;
use crate::error::{AllocError, BeginError, FreeError, NotRunning};
use crate::lease::Want;
use crate::lifetime::Lifetime;
use crate::memory::{Block, Freed, Memory, Request};
use crate::profile::Profile;
use crate::region::JobKey;
use crate::shared::Shared;
use crate::snapshot::Held;
use crate::stats::{LiveBlocks, Stats};
use crate::sync::{Arc, Mutex};
use crate::units::Progress;

/// One tenant of a pool.
///
/// Allocating and freeing takes the job's own lock only, as long as its arenas have room. Dropping
/// a job gives up all it has: other jobs get it once the device has passed what the job enqueued.
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
    /// waited longer. A job is passed over no more than 16 times by jobs that asked later; then it
    /// goes before them.
    ///
    /// # Errors
    /// If it can never start, or has started already.
    pub fn begin(&self) -> Result<Begin, BeginError> {
        let now = self.shared.device.now();
        let (begin, admitted) = self.shared.ledger.lock().begin(self.key, now)?;
        if begin == Begin::Started {
            self.memory.lock().habits.begin();
        }
        if admitted {
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
    /// # Errors
    /// If no iteration has begun.
    pub fn end(&self) -> Result<(), NotRunning> {
        self.unpark(true);
        // A failure leaves the batch open; the next poll fences it.
        let _ = self.shared.fence(self.key);
        let now = self.shared.device.now();
        self.shared.ledger.lock().end(self.key, now)?;
        self.memory.lock().habits.end();
        self.shared.changed();
        Ok(())
    }

    /// Allocates device memory.
    ///
    /// O(1) while the job's arenas have room (O(log) of the free pieces of one size, amortised); else a
    /// lease from the pool, which may have to create regions on the device.
    ///
    /// # Errors
    /// [`Busy`](AllocError::Busy) if it cannot be had now, the other kinds as they say. Nothing has
    /// changed then, and the call can be repeated.
    #[inline]
    pub fn alloc(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        let align = request.align.value().max(GRANULE);
        let size = request.bytes.value().max(1).checked_next_multiple_of(GRANULE);
        let (Some(size), true) =
            (size, align.is_power_of_two() && align <= self.shared.region.value())
        else {
            return Err(self.invalid(request));
        };
        let placed = self.memory.lock().place(request, size, align);
        let Some(block) = placed else {
            return self.grow_and_place(request, size, align);
        };
        self.tick();
        Ok(block)
    }

    #[cold]
    fn invalid(&self, request: Request) -> AllocError<D::Error> {
        let Request { bytes, align, .. } = request;
        AllocError::Invalid { bytes, align, region: self.shared.region }
    }

    /// Counts an allocation or a free, and looks at the job that waits for this one, if any.
    #[inline]
    fn tick(&self) {
        if self.pulse.tick() {
            self.shared.admit();
        }
    }

    /// Leases the pages that the block needs and places it there. The job's lock is not held
    /// meanwhile: another thread may place blocks where there is room, and if that takes the place
    /// away, it goes round once more.
    #[cold]
    fn grow_and_place(
        &self,
        request: Request,
        size: u64,
        align: u64,
    ) -> Result<Block, AllocError<D::Error>> {
        let mut last = false;
        loop {
            let want = self.plan(request, size, align)?;
            let leased = self.shared.lease(self.key, &want);
            let mut memory = self.memory.lock();
            let awaited = core::mem::take(&mut memory.awaited);
            memory.growing = false;
            let mut block = None;
            if leased.is_ok() {
                memory.back(want.lifetime, &want.pages);
                block = memory.place(request, size, align);
            }
            let parked = !memory.parked.is_empty();
            drop(memory);
            if awaited {
                self.shared.changed();
            }
            match leased {
                Err(AllocError::Busy(_) | AllocError::OutOfMemory(_)) if parked && !last => {
                    last = true;
                    self.unpark(true);
                    block = self.memory.lock().place(request, size, align);
                }
                Err(AllocError::OutOfMemory(mut why)) => {
                    let memory = self.memory.lock();
                    why.largest_free = memory.arena(want.lifetime).largest_free();
                    return Err(AllocError::OutOfMemory(why));
                }
                done => done?,
            }
            if let Some(block) = block {
                self.tick();
                return Ok(block);
            }
        }
    }

    fn plan(&self, request: Request, size: u64, align: u64) -> Result<Want, AllocError<D::Error>> {
        let mut memory = self.memory.lock();
        if !memory.parked.is_empty() {
            drop(memory);
            self.unpark(false);
            memory = self.memory.lock();
        }
        if memory.growing {
            memory.awaited = true;
            drop(memory);
            let shortage = self.shared.ledger.lock().shortage(self.key, request.bytes, 0);
            return Err(AllocError::Busy(shortage));
        }
        let lifetime = memory.lifetime(request, size);
        let arena = memory.arena(lifetime);
        let Some(pages) = arena.plan(size, align) else {
            return Err(AllocError::OutOfAddresses { bytes: request.bytes, range: arena.len() });
        };
        memory.growing = true;
        Ok(Want { lifetime, pages, asked: request.bytes })
    }

    /// Frees a block in program order. Its memory is the job's own to use again at once; it reaches
    /// other jobs when the device has passed all that is enqueued now.
    ///
    /// # Errors
    /// If the block is not live in this job.
    #[inline]
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut memory = self.memory.lock();
        match memory.free(block)? {
            Freed::Pages(lifetime, pages) => self.give_back(memory, lifetime, pages),
            Freed::Parked(parked) => {
                drop(memory);
                self.park(parked);
            }
        }
        self.tick();
        Ok(())
    }

    /// Gives back pages that an arena has emptied: in the books before the arena's lock is let go, so
    /// that no other thread of the job can ask for these very pages before they are.
    #[inline]
    pub(crate) fn give_back(
        &self,
        memory: impl DerefMut<Target = Memory<D>>,
        lifetime: Lifetime,
        pages: Range<u64>,
    ) {
        if !pages.is_empty() {
            self.shared.ledger.lock().give_back(self.key, lifetime, pages);
            drop(memory);
            self.shared.given_back(self.key, lifetime);
        }
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
        let blocks = self.memory.lock().stats;
        let ledger = self.shared.ledger.lock();
        let account = ledger.accounts.get(&self.key);
        account.map_or(blocks, |account| account.stats(blocks, self.shared.region))
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
    /// job enqueued.
    pub fn leave(self) -> LiveBlocks {
        self.live_blocks()
    }

    /// What its iterations take, once one has ended.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.shared.ledger.lock().accounts.get(&self.key)?.profile.as_deref().cloned()
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
        let streams = self.memory.lock().streams();
        self.shared.leave(self.key, streams);
    }
}
