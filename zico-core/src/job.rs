//! A job: the handle through which one tenant allocates, frees and runs its iterations.

use alloc::vec::Vec;
use core::fmt;

use crate::account::Pulse;
use crate::admission::Begin;
use crate::arena::{Arena, GRANULE, Slot};
use crate::device::Device;
use crate::error::{AllocError, BeginError, FreeError, NotRunning};
use crate::lease::Want;
use crate::lifetime::Lifetime;
use crate::profile::Profile;
use crate::region::JobKey;
use crate::shared::Shared;
use crate::snapshot::Held;
use crate::sync::{Arc, Mutex};
use crate::units::{Addr, Bytes, Progress};

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    bytes: Bytes,
    align: Bytes,
    lifetime: Lifetime,
}

impl Request {
    /// `bytes` of memory that lives as long as `lifetime` says, aligned to 512 bytes. Zero bytes
    /// are a block of their own, with an address that no other live block has.
    #[must_use]
    pub const fn new(bytes: Bytes, lifetime: Lifetime) -> Self {
        Self { bytes, align: Bytes::new(GRANULE), lifetime }
    }

    /// Aligned to at least `align`: a power of two, up to the size of a region.
    #[must_use]
    pub const fn aligned(mut self, align: Bytes) -> Self {
        self.align = align;
        self
    }
}

/// A live allocation: where it is and how large. A plain handle; freeing it twice is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    address: Addr,
    bytes: Bytes,
    /// Which of all the job's blocks it is.
    serial: u64,
    job: JobKey,
    home: Home,
}

/// Which arena has a block, and in which slot. One word: handles are copied at once after they have
/// been made, and a word that was written in parts stalls whoever reads it whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Home(u64);

impl Home {
    const fn new(lifetime: Lifetime, slot: Slot) -> Self {
        Self((slot as u64) << 2 | lifetime.index() as u64)
    }

    const fn lifetime(self) -> Lifetime {
        match self.0 & 3 {
            0 => Lifetime::Persistent,
            1 => Lifetime::Iteration,
            _ => Lifetime::Transient,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "it was a slot when it was put in")]
    const fn slot(self) -> Slot {
        (self.0 >> 2) as Slot
    }
}

impl Block {
    /// The first address.
    #[must_use]
    pub const fn address(&self) -> Addr {
        self.address
    }

    /// The bytes asked for.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }
}

/// One tenant of a pool.
///
/// Allocating and freeing takes the job's own lock only, as long as its arenas have room. Dropping
/// a job gives up all it has: other jobs get it once the device has passed what the job enqueued.
pub struct Job<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    key: JobKey,
    pulse: Arc<Pulse>,
    memory: Mutex<Memory>,
}

/// A job's arenas.
struct Memory {
    job: JobKey,
    arenas: [Arena; 3],
    /// Where their ranges begin.
    bases: [Addr; 3],
    /// A thread is leasing pages; what it gets decides what the next one needs.
    growing: bool,
    /// Another thread has been told to wait for that.
    awaited: bool,
    serial: u64,
}

impl<D: Device> Job<D> {
    #[expect(clippy::needless_pass_by_value, reason = "the caller is done with the bases")]
    pub(crate) fn new(
        shared: Arc<Shared<D>>,
        key: JobKey,
        bases: Vec<Addr>,
        len: Bytes,
        pulse: Arc<Pulse>,
    ) -> Self {
        let page_bytes = shared.region.value();
        let arenas = Lifetime::ALL.map(|_| Arena::new(page_bytes, len.value()));
        // One for each lifetime.
        let bases = Lifetime::ALL.map(|lifetime| bases[lifetime.index()]);
        let memory = Memory { job: key, arenas, bases, growing: false, awaited: false, serial: 0 };
        Self { shared, key, pulse, memory: Mutex::new(memory) }
    }

    /// Asks to start an iteration. If the answer is to wait, ask again whenever
    /// [`Pool::generation`](crate::Pool::generation) has changed; the place in the queue is kept.
    ///
    /// # Errors
    /// If it can never start, or has started already.
    pub fn begin(&self) -> Result<Begin, BeginError> {
        let now = self.shared.device.now();
        let (begin, admitted) = self.shared.ledger.lock().begin(self.key, now)?;
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
        // A failure leaves the batch open; the next poll fences it.
        let _ = self.shared.fence(self.key);
        let now = self.shared.device.now();
        self.shared.ledger.lock().end(self.key, now)?;
        self.shared.changed();
        Ok(())
    }

    /// Allocates device memory.
    ///
    /// O(1) while the job's arenas have room, O(log free pieces of one size) amortised; else a lease from the pool, which may
    /// have to create regions on the device.
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
        loop {
            let want = self.plan(request, size, align)?;
            let leased = self.shared.lease(self.key, &want);
            let mut memory = self.memory.lock();
            let awaited = core::mem::take(&mut memory.awaited);
            memory.growing = false;
            let block = leased.is_ok().then(|| {
                memory.arenas[request.lifetime.index()].back(&want.pages);
                memory.place(request, size, align)
            });
            drop(memory);
            if awaited {
                self.shared.changed();
            }
            leased?;
            if let Some(block) = block.flatten() {
                self.tick();
                return Ok(block);
            }
        }
    }

    fn plan(&self, request: Request, size: u64, align: u64) -> Result<Want, AllocError<D::Error>> {
        let mut memory = self.memory.lock();
        if memory.growing {
            memory.awaited = true;
            drop(memory);
            let shortage = self.shared.ledger.lock().shortage(self.key, request.bytes, 0);
            return Err(AllocError::Busy(shortage));
        }
        let arena = &memory.arenas[request.lifetime.index()];
        let Some(pages) = arena.plan(size, align) else {
            return Err(AllocError::OutOfAddresses { bytes: request.bytes, range: arena.len() });
        };
        memory.growing = true;
        Ok(Want { lifetime: request.lifetime, pages, asked: request.bytes })
    }

    /// Frees a block in program order. Its memory is the job's own to use again at once; it reaches
    /// other jobs when the device has passed all that is enqueued now.
    ///
    /// # Errors
    /// If the block is not live in this job.
    #[inline]
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        let pages = self.memory.lock().free(block)?;
        if !pages.is_empty() {
            self.shared.give_back(self.key, block.home.lifetime(), pages);
        }
        self.tick();
        Ok(())
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

    /// What its iterations take, once one has ended.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.shared.ledger.lock().accounts.get(&self.key)?.profile.clone()
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
        self.shared.leave(self.key);
    }
}

impl Memory {
    #[inline]
    fn place(&mut self, request: Request, size: u64, align: u64) -> Option<Block> {
        let Request { bytes, lifetime, .. } = request;
        let (arena, base) = (&mut self.arenas[lifetime.index()], self.bases[lifetime.index()]);
        let serial = self.serial + 1;
        let slot = arena.place(size, align, serial)?;
        self.serial = serial;
        // A range lies within the address space, and the block within the range.
        let address = base.checked_add(Bytes::new(arena.start(slot)))?;
        Some(Block { address, bytes, serial, job: self.job, home: Home::new(lifetime, slot) })
    }

    #[inline]
    fn free(&mut self, block: Block) -> Result<core::ops::Range<u64>, FreeError> {
        let Block { address, serial, home, .. } = block;
        let lifetime = home.lifetime().index();
        let (arena, base) = (&mut self.arenas[lifetime], self.bases[lifetime]);
        let at = address.offset_from(base).filter(|_| block.job == self.job);
        if at.is_some_and(|at| arena.holds(home.slot(), serial, at.value())) {
            Ok(arena.free(home.slot()))
        } else {
            Err(self.not_freed(address))
        }
    }

    /// Why a block that is not there cannot be freed.
    #[cold]
    fn not_freed(&self, address: Addr) -> FreeError {
        let is_live = |(arena, &base): (&Arena, &Addr)| {
            address.offset_from(base).is_some_and(|at| arena.is_live(at.value()))
        };
        if self.arenas.iter().zip(&self.bases).any(is_live) {
            FreeError::Stale(address)
        } else {
            FreeError::NotLive(address)
        }
    }
}
