//! A job: the handle through which one tenant allocates, frees and runs its iterations.

use alloc::vec::Vec;
use core::fmt;

use hashbrown::HashMap;

use crate::account::Pulse;
use crate::admission::Begin;
use crate::arena::{Arena, GRANULE};
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
    serial: u64,
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

/// A job's arenas and live blocks.
struct Memory {
    arenas: [Arena; 3],
    /// Where their ranges begin.
    bases: Vec<Addr>,
    /// A thread is leasing pages; what it gets decides what the next one needs.
    growing: bool,
    /// Another thread has been told to wait for that.
    awaited: bool,
    live: HashMap<u64, Live>,
    serial: u64,
}

struct Live {
    at: u64,
    size: u64,
    lifetime: Lifetime,
    serial: u64,
}

impl<D: Device> Job<D> {
    pub(crate) fn new(
        shared: Arc<Shared<D>>,
        key: JobKey,
        bases: Vec<Addr>,
        len: Bytes,
        pulse: Arc<Pulse>,
    ) -> Self {
        let page_bytes = shared.region.value();
        let arenas = Lifetime::ALL.map(|_| Arena::new(page_bytes, len.value()));
        let memory = Memory {
            arenas,
            bases,
            growing: false,
            awaited: false,
            live: HashMap::new(),
            serial: 0,
        };
        Self { shared, key, pulse, memory: Mutex::new(memory) }
    }

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
    /// O(log live blocks) while the job's arenas have room; else a lease from the pool, which may
    /// have to create regions on the device.
    ///
    /// # Errors
    /// [`Busy`](AllocError::Busy) if it cannot be had now, the other kinds as they say. Nothing has
    /// changed then, and the call can be repeated.
    pub fn alloc(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        let align = request.align.value().max(GRANULE);
        let size = request.bytes.value().max(1).checked_next_multiple_of(GRANULE);
        let (Some(size), true) =
            (size, align.is_power_of_two() && align <= self.shared.region.value())
        else {
            return Err(AllocError::Invalid {
                bytes: request.bytes,
                align: request.align,
                region: self.shared.region,
            });
        };
        let placed = self.memory.lock().place(request, size, align);
        let block = match placed {
            Some(block) => block,
            None => self.grow_and_place(request, size, align)?,
        };
        if self.pulse.tick() {
            self.shared.admit();
        }
        Ok(block)
    }

    /// Leases the pages that the block needs and places it there. The job's lock is not held
    /// meanwhile: another thread may place blocks where there is room, and if that takes the place
    /// away, it goes round once more.
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
                return Ok(block);
            }
        }
    }

    fn plan(&self, request: Request, size: u64, align: u64) -> Result<Want, AllocError<D::Error>> {
        let mut memory = self.memory.lock();
        if memory.growing {
            memory.awaited = true;
            drop(memory);
            let shortage = self.shared.ledger.lock().shortage(self.key, request.bytes);
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
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        let (lifetime, pages) = self.memory.lock().free(block)?;
        if !pages.is_empty() {
            self.shared.give_back(self.key, lifetime, pages);
        }
        if self.pulse.tick() {
            self.shared.admit();
        }
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
        self.shared.leave(self.key);
    }
}

impl Memory {
    fn place(&mut self, request: Request, size: u64, align: u64) -> Option<Block> {
        let arena = request.lifetime.index();
        let at = self.arenas[arena].place(size, align)?;
        // A range lies within the address space, and `at` within the range.
        let address = self.bases[arena].checked_add(Bytes::new(at))?;
        self.serial += 1;
        let live = Live { at, size, lifetime: request.lifetime, serial: self.serial };
        self.live.insert(address.value(), live);
        Some(Block { address, bytes: request.bytes, serial: self.serial })
    }

    fn free(&mut self, block: Block) -> Result<(Lifetime, core::ops::Range<u64>), FreeError> {
        let address = block.address.value();
        match self.live.get(&address) {
            None => Err(FreeError::NotLive(block.address)),
            Some(live) if live.serial != block.serial => Err(FreeError::Stale(block.address)),
            Some(&Live { at, size, lifetime, .. }) => {
                self.live.remove(&address);
                let pages = self.arenas[lifetime.index()].free(at, size);
                Ok((lifetime, pages))
            }
        }
    }
}
