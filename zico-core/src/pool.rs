//! The pool: all memory under one budget on one device.
//!
//! Every change goes the same way: the ledger is changed under its lock, the lock is let go, the
//! device does its part, and how that went is booked. So no lock is ever held across a device call,
//! and a failed call leaves the books as they were.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::account::{Fence, Pulse};
use crate::device::{Device, Features, Passed};
use crate::error::{AllocError, PoolError};
use crate::job::Job;
use crate::lease::{Denied, Grant, Want};
use crate::ledger::Ledger;
use crate::lifetime::Lifetime;
use crate::policy::{Policy, TimeShift};
use crate::region::JobKey;
use crate::snapshot::Snapshot;
use crate::sync::{Arc, AtomicU32, Mutex, Ordering};
use crate::units::{Bytes, Ticks};

/// About how many regions a budget is divided into where the size of a region is not given.
const REGIONS: u64 = 2048;
/// The largest region that is chosen by itself.
const LARGEST_REGION: Bytes = Bytes::mib(64);

/// How a pool is to be.
pub struct PoolConfig {
    budget: Bytes,
    region: Option<Bytes>,
    policy: Box<dyn Policy>,
}

impl PoolConfig {
    /// A pool that never holds more than `budget` bytes of the device, with time shift as its
    /// policy and regions of a size that suits the budget.
    #[must_use]
    pub fn new(budget: Bytes) -> Self {
        Self { budget, region: None, policy: Box::new(TimeShift) }
    }

    /// The size of a region: a power of two, at least the device's granularity. Smaller ones follow
    /// the jobs' waves more closely, larger ones are fewer device calls.
    #[must_use]
    pub fn region_size(mut self, region: Bytes) -> Self {
        self.region = Some(region);
        self
    }

    /// Who decides when an iteration starts.
    #[must_use]
    pub fn policy(mut self, policy: Box<dyn Policy>) -> Self {
        self.policy = policy;
        self
    }

    /// The size of a region on a device of this granularity: as given, else about a 2048th of the
    /// budget, within the granularity and 64 MiB.
    #[must_use]
    pub fn region_for(&self, granularity: Bytes) -> Bytes {
        let fair = (self.budget.value() / REGIONS).max(1);
        let power = Bytes::new(1 << fair.ilog2());
        self.region.unwrap_or(power.min(LARGEST_REGION).at_least(granularity))
    }
}

/// All memory under one budget. Clones are handles to the same pool.
///
/// See the [crate's documentation](crate) for an example.
pub struct Pool<D: Device> {
    shared: Arc<Shared<D>>,
}

impl<D: Device> Clone for Pool<D> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<D: Device> Pool<D> {
    /// Makes a pool on a device: reserves addresses, creates no memory yet. The budget is rounded
    /// down to whole regions.
    ///
    /// # Errors
    /// If the budget or the region size cannot be, or the device refuses.
    pub fn new(device: D, config: PoolConfig) -> Result<Self, PoolError<D::Error>> {
        let caps = device.caps();
        let region = config.region_for(caps.granularity);
        if !region.value().is_power_of_two() || region < caps.granularity {
            return Err(PoolError::RegionSize { region, granularity: caps.granularity });
        }
        if config.budget > caps.capacity {
            return Err(PoolError::BudgetBeyondDevice {
                budget: config.budget,
                capacity: caps.capacity,
            });
        }
        let count =
            u32::try_from(config.budget.value() / region.value()).unwrap_or(u32::MAX) as usize;
        if count == 0 {
            return Err(PoolError::BudgetTooSmall { budget: config.budget, region });
        }
        let len = Bytes::new(region.value() * count as u64);
        let range = device.reserve(len, region).map_err(PoolError::Device)?;
        let home = device.base(&range).value() / region.value();
        let shared = Shared {
            device,
            region,
            aliases: caps.features.contains(Features::ALIASES),
            hands_over: config.policy.hands_over(),
            range: Some(range),
            generation: AtomicU32::new(0),
            ledger: Mutex::new(Ledger::new(region.value(), home, count, config.policy)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Lets a job in. Its device work is enqueued on `stream`.
    #[must_use]
    pub fn join(&self, name: impl Into<String>, stream: D::Stream) -> Job<D> {
        let pulse = Arc::new(Pulse::new());
        let (key, side) = self.shared.ledger.lock().join(name.into(), stream, pulse.clone());
        Job::new(self.shared.clone(), key, side, pulse)
    }

    /// Looks at what the device has passed, frees what it is done with and admits iterations that
    /// may start now. To be called by whoever waits, and at leisure.
    ///
    /// # Errors
    /// If the device refuses. What could be done has been; the call can be repeated.
    pub fn poll(&self) -> Result<(), D::Error> {
        let result = self.shared.reclaim();
        self.shared.admit();
        result
    }

    /// Changes whenever something has happened that a waiting job may have waited for. Wraps.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// The budget: whole regions.
    #[must_use]
    pub fn budget(&self) -> Bytes {
        Bytes::new(u64::from(self.shared.ledger.lock().budget()) * self.shared.region.value())
    }

    /// The size of a region.
    #[must_use]
    pub fn region_size(&self) -> Bytes {
        self.shared.region
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.shared.device
    }

    /// The books as they stand. O(jobs).
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.shared.ledger.lock())
    }
}

/// What a pool's handles and its jobs share.
pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    pub(crate) region: Bytes,
    aliases: bool,
    /// Whether jobs hand memory over to each other.
    pub(crate) hands_over: bool,
    /// The home range; taken only when the pool ends.
    range: Option<D::Range>,
    generation: AtomicU32,
    pub(crate) ledger: Mutex<Ledger<D>>,
}

impl<D: Device> Shared<D> {
    /// Tells those who wait that something has changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn admit(&self) {
        if self.ledger.lock().admit() {
            self.changed();
        }
    }

    /// Pages for an arena that has no room.
    ///
    /// If they cannot be had now, everything that has been given up is fenced, what the device has
    /// passed is freed, and they are asked for once more.
    pub(crate) fn lease(
        &self,
        job: JobKey,
        want: &Want,
    ) -> Result<Range<u64>, AllocError<D::Error>> {
        self.reap(job).map_err(AllocError::Device)?;
        let mut first = true;
        let grant = loop {
            let now = self.device.now();
            let mut ledger = self.ledger.lock();
            match ledger.lease(job, want, self.aliases, now) {
                Ok(grant) => break grant,
                Err(Denied::Never(shortage)) => return Err(AllocError::OutOfMemory(shortage)),
                Err(Denied::Busy(shortage)) if !first => {
                    let stuck = ledger.is_stuck();
                    drop(ledger);
                    if stuck {
                        self.changed();
                    }
                    return Err(AllocError::Busy(shortage));
                }
                Err(Denied::Busy(_)) => first = false,
            }
            drop(ledger);
            self.reclaim().map_err(AllocError::Device)?;
        };
        self.furnish(job, want.lifetime, &grant).map_err(AllocError::Device)
    }

    /// Does what the device has to do for a grant, or takes the grant back.
    fn furnish(
        &self,
        job: JobKey,
        lifetime: Lifetime,
        grant: &Grant,
    ) -> Result<Range<u64>, D::Error> {
        let done = grant.create.iter().try_for_each(|&slot| self.create(slot));
        let page = done.and_then(|()| grant.page.map_or_else(|| self.stitch(&grant.slots), Ok));
        page.map(|page| page..page + grant.slots.len() as u64).inspect_err(|_| {
            let now = self.device.now();
            self.ledger.lock().revoke(job, lifetime, grant, now);
            self.changed();
        })
    }

    /// Creates the region of a slot and maps it at home. Memory that cannot be mapped is kept for the
    /// next region that is created, so that it stays within the budget's count.
    fn create(&self, slot: usize) -> Result<(), D::Error> {
        let Some(range) = &self.range else { return Ok(()) };
        let spare = self.ledger.lock().spare.pop();
        let memory = spare.map_or_else(|| self.device.create(self.region), Ok)?;
        let at = Bytes::new(slot as u64 * self.region.value());
        let mapped = self.device.map(range, at, &memory);
        let mut ledger = self.ledger.lock();
        match mapped {
            Ok(()) => ledger.memory[slot] = Some(Arc::new(memory)),
            Err(_) => ledger.spare.push(memory),
        }
        mapped
    }

    /// Maps regions side by side at a new address. Returns the first page.
    ///
    /// If the device gives up half-way, what is mapped so far stays as a shorter range.
    fn stitch(&self, slots: &[usize]) -> Result<u64, D::Error> {
        self.make_room_for_a_range();
        let len = Bytes::new(slots.len() as u64 * self.region.value());
        let range = self.device.reserve(len, self.region)?;
        let memory: Vec<Arc<D::Memory>> = {
            let ledger = self.ledger.lock();
            slots.iter().filter_map(|&slot| ledger.memory[slot].clone()).collect()
        };
        let mut mapped = 0;
        let result = memory.iter().try_for_each(|memory| {
            let at = Bytes::new(mapped as u64 * self.region.value());
            self.device.map(&range, at, memory).inspect(|()| mapped += 1)
        });
        let first = self.device.base(&range).value() / self.region.value();
        let mut ledger = self.ledger.lock();
        ledger.aliases.add(first, slots[..mapped].to_vec(), range);
        result.map(|()| {
            (first..first + slots.len() as u64).for_each(|page| ledger.aliases.leased(page));
            first
        })
    }

    /// Gives back a stitched range that nobody uses if there are too many. One that the device does
    /// not take back stays, and is tried again when the next one is made.
    fn make_room_for_a_range(&self) {
        let evicted = self.ledger.lock().aliases.evict();
        if let Some((first, slots, range)) = evicted
            && let Err((mapped, range)) = self.unstitch(&slots, range)
        {
            self.ledger.lock().aliases.add(first, mapped, range);
        }
    }

    /// Takes the mappings out of a range and gives it back. What the device refuses is returned: the
    /// slots that are still mapped, and the range.
    fn unstitch(&self, slots: &[usize], range: D::Range) -> Result<(), (Vec<usize>, D::Range)> {
        let len = Bytes::new(slots.len() as u64 * self.region.value());
        if !slots.is_empty() && self.device.unmap(&range, Bytes::ZERO, len).is_err() {
            return Err((slots.to_vec(), range));
        }
        self.device.release(range).map_err(|refused| (Vec::new(), refused.resource))
    }

    /// Takes back pages that an arena has emptied.
    pub(crate) fn give_back(&self, job: JobKey, lifetime: Lifetime, pages: Range<u64>) {
        let now = self.device.now();
        let full = self.ledger.lock().give_back(job, lifetime, pages, now);
        if full {
            // A failure leaves the pages in the open batch, which the next poll fences.
            let _ = self.fence(job);
        }
    }

    /// Fences a job's open batch.
    pub(crate) fn fence(&self, job: JobKey) -> Result<(), D::Error> {
        let closed = self.ledger.lock().close_batch(job);
        let Some((stream, batch, pages)) = closed else { return Ok(()) };
        match self.device.record(stream) {
            Ok(event) => {
                self.ledger.lock().fenced(job, Fence { batch, pages, event });
                Ok(())
            }
            Err(error) => {
                self.ledger.lock().reopen(job, batch, pages);
                Err(error)
            }
        }
    }

    /// Fences the open batches that are due, and frees all that the device has passed.
    fn reclaim(&self) -> Result<(), D::Error> {
        let due = self.ledger.lock().due();
        due.into_iter().try_for_each(|job| self.fence(job))?;
        let jobs: Vec<JobKey> = self.ledger.lock().accounts.keys().copied().collect();
        jobs.into_iter().try_for_each(|job| self.reap(job))
    }

    /// Frees what a job has given up and the device has passed.
    fn reap(&self, job: JobKey) -> Result<(), D::Error> {
        loop {
            let oldest = self.ledger.lock().oldest_fence(job);
            let Some(fence) = oldest else { return Ok(()) };
            match self.device.query(&fence.event) {
                Ok(Passed::Yes) => {
                    let now = self.device.now();
                    self.ledger.lock().passed(job, &fence, now);
                    self.changed();
                }
                Ok(Passed::NotYet) => {
                    self.ledger.lock().not_passed(job, fence);
                    return Ok(());
                }
                Err(error) => {
                    self.ledger.lock().not_passed(job, fence);
                    return Err(error);
                }
            }
        }
    }

    /// The job is gone: all it had drains.
    pub(crate) fn leave(&self, job: JobKey) {
        let now: Ticks = self.device.now();
        self.ledger.lock().leave(job, now);
        let _ = self.fence(job);
        self.admit();
        self.changed();
    }
}

impl<D: Device> Drop for Shared<D> {
    /// Gives everything back that the device has passed. What it has not passed yet stays with the
    /// device until that ends: nothing may be unmapped under running work.
    fn drop(&mut self) {
        let _ = self.reclaim();
        if !self.ledger.get_mut().accounts.is_empty() {
            return;
        }
        let aliases: Vec<_> = self.ledger.get_mut().aliases.drain().collect();
        for (slots, range) in aliases {
            let _ = self.unstitch(&slots, range);
        }
        let Some(range) = self.range.take() else { return };
        let spare = core::mem::take(&mut self.ledger.get_mut().spare);
        let memory = core::mem::take(&mut self.ledger.get_mut().memory);
        let mapped = memory.into_iter().enumerate().filter_map(|(slot, memory)| {
            let at = Bytes::new(slot as u64 * self.region.value());
            let memory = memory.and_then(Arc::into_inner)?;
            self.device.unmap(&range, at, self.region).is_ok().then_some(memory)
        });
        for memory in mapped.chain(spare) {
            let _ = self.device.destroy(memory);
        }
        let _ = self.device.release(range);
    }
}
