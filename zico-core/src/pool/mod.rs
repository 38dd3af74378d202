//! The pool: all memory under one budget on one device.
//!
//! Every change goes the same way: the ledger is changed under its lock, the lock is let go, the
//! device does its part, and how that went is booked. So no lock is ever held across a device call,
//! and after a call that fails the books say what the device has.

mod config;

use alloc::boxed::Box;
use alloc::sync::Weak;
use alloc::vec::Vec;

use crate::broker::{Link, Notice};
use crate::executor::{JobHandles, Remote, Shared};
use crate::heap::JobHeap;
use crate::job::{Changed, Job};
use crate::types::JobId;
use crate::types::config::{JobConfig, Terms};
use crate::types::device::Device;
use crate::types::error::{BudgetError, JoinError, PoolError};
use crate::types::pace::Pace;
use crate::types::report::{Activity, BudgetStatus, Snapshot};
use crate::types::stats::LiveBlocks;
use crate::types::sync::{Arc, Mutex, Ordering};
use crate::types::units::{Bytes, Ticks};
use crate::types::waits::Waiting;
use crate::types::zone::Zone;
use config::{check_region, range_of};

pub use config::PoolConfig;

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

/// A handle of a [`Pool`] that does not keep it.
pub struct WeakPool<D: Device> {
    shared: Weak<Shared<D>>,
}

impl<D: Device> WeakPool<D> {
    /// The pool, if it is still there.
    #[must_use]
    pub fn upgrade(&self) -> Option<Pool<D>> {
        self.shared.upgrade().map(|shared| Pool { shared })
    }
}

impl<D: Device> Pool<D> {
    /// Makes a pool on a device: creates nothing on it yet. The budget is rounded down to
    /// whole regions.
    ///
    /// # Errors
    /// If the budget or the region size cannot be, or the device refuses.
    pub fn new(device: D, config: PoolConfig) -> Result<Self, PoolError<D::Error>> {
        let host_spare = config.spare();
        let (region, ledger) = config.ledger(device.caps())?;
        Ok(Self { shared: Arc::new(Shared::new(device, region, ledger, host_spare)) })
    }

    /// A pool whose books are at a broker, in another process. Its jobs share one budget with those
    /// of all other clients of that broker. Nothing else is different for them, but that the broker
    /// may be out of reach ([`BrokerError`]).
    ///
    /// What the broker says unasked has to be [passed on](Self::notice).
    ///
    /// # Errors
    /// If a region is not a multiple of the device's granularity, or the device refuses.
    ///
    /// [`BrokerError`]: crate::BrokerError
    pub fn connect(device: D, link: Box<dyn Link<D>>) -> Result<Self, PoolError<D::Error>> {
        check_region(link.region_size(), device.caps())?;
        Ok(Self { shared: Arc::new(Shared::connect(device, link)) })
    }

    /// Passes on what the broker of a [connected](Self::connect) pool says unasked. Nothing happens
    /// in a pool that has its own books.
    pub fn notice(&self, notice: Notice) {
        self.shared.notice(notice);
    }

    /// Connects a pool anew whose broker has gone, as soon as another one is there, and tells it
    /// what the pool's jobs hold: they go on. Whether there is a connection; how long this waits
    /// for one is its [link](Link::reconnect)'s to say. Not in a pool that has its own books.
    pub fn reconnect(&self) -> bool {
        self.shared.reconnect()
    }

    /// A handle that does not keep the pool: for a thread that serves it.
    #[must_use]
    pub fn downgrade(&self) -> WeakPool<D> {
        WeakPool { shared: Arc::downgrade(&self.shared) }
    }

    /// Lets a job in. Its device work is enqueued on `stream`. Reserves addresses for its
    /// arenas: twice the device's memory for each lifetime, so that none ever has to move a block.
    ///
    /// A name is enough; [`JobConfig`] has what else can be said of a job.
    ///
    /// # Errors
    /// If its floor cannot be kept, if the device has not that many addresses, does not know the
    /// stream, or refuses.
    pub fn join(
        &self,
        job: impl Into<JobConfig>,
        stream: D::Stream,
    ) -> Result<Job<D>, JoinError<D::Error>> {
        let (shared, config) = (&self.shared, job.into());
        let terms = Terms::new(&config, shared.region)?;
        let (preemptible, interruptible) = (config.slice.is_some(), config.interruptible);
        if (preemptible || interruptible) && shared.device.host().is_none() {
            return Err(JoinError::NotPreemptible);
        }
        // A stream that takes no event would hold up what the job gives up for ever.
        shared.device.record(stream).map_err(JoinError::Device)?;
        let capacity = shared.remote().map(Remote::capacity);
        let len = range_of(capacity.unwrap_or(shared.device.caps().capacity), shared.region);
        let ranges = self.reserve(len).map_err(JoinError::Device)?;
        let base = |zone: Zone| shared.device.base(&ranges[zone.index()]);
        let bases = Zone::ALL.map(base);
        let (key, pulse) = match shared.enter(&config) {
            Ok(entered) => entered,
            Err(error) => {
                shared.handles.lock().put_unused(ranges);
                // A failure leaves them for the next poll.
                let _ = shared.release_unused();
                return Err(error);
            }
        };
        let mut heap = JobHeap::new(bases, shared.region, len, !config.unplanned, pulse.clone());
        heap.is_cooperative = config.cooperative;
        let heap = Arc::new(Mutex::new(heap));
        shared.handles.lock().join(key, JobHandles::new(stream, ranges, heap.clone()));
        if let Err(error) = shared.join(key, &pulse, config, terms) {
            shared.handles.lock().turn_away(key);
            // A failure leaves the ranges for the next poll.
            let _ = shared.release_unused();
            return Err(error);
        }
        Ok(Job { shared: shared.clone(), key, stream, pulse, heap, preemptible, interruptible })
    }

    /// Reserves a range for each of a job's arenas.
    fn reserve(&self, len: Bytes) -> Result<Vec<D::Range>, D::Error> {
        let shared = &self.shared;
        let mut ranges = Vec::with_capacity(Zone::COUNT);
        for _ in Zone::ALL {
            match shared.device.reserve(len, shared.region) {
                Ok(range) => ranges.push(range),
                Err(error) => {
                    shared.handles.lock().put_unused(ranges);
                    // A failure leaves them for the next poll.
                    let _ = shared.clear_up();
                    return Err(error);
                }
            }
        }
        Ok(ranges)
    }

    /// Looks at what the device has passed and frees what it is done with. To be called by whoever
    /// waits for memory, and at leisure.
    ///
    /// O(jobs log jobs) for each fence that it has passed, and O(regions) for those that become
    /// free or leave the addresses of a job that has left: the pool's lock is held for at most 1024
    /// of them at a time.
    ///
    /// What the device refuses of one job's stream (a stream that is being captured takes no event)
    /// is tried again by the next poll, and is no error here: others have nothing to do with it.
    ///
    /// # Errors
    /// If the device is [lost](crate::Class::Lost), or refuses to take back what is nobody's. What
    /// could be done has been; the call can be repeated.
    pub fn poll(&self) -> Result<(), D::Error> {
        self.shared.reclaim(None)
    }

    /// Gives memory that is nobody's back to the device until the pool holds no more than `target`
    /// bytes, and says how much it holds then. Memory that jobs have, or that the device has yet to
    /// pass, stays. What has been given back is created anew when it is needed. So goes memory of the
    /// host that is [kept](PoolConfig::host_spare) for copies. O(regions log
    /// regions), and some device calls for each region that goes; the pool's lock is held for at
    /// most 1024 of them at a time.
    ///
    /// # Errors
    /// If the device refuses. What had gone by then is gone, nothing is lost, and the call can be
    /// repeated.
    pub fn trim(&self, target: Bytes) -> Result<Bytes, D::Error> {
        let region = self.region_size();
        let target = usize::try_from(target.value() / region.value()).unwrap_or(usize::MAX);
        self.shared.trim(target)?;
        Ok(self.shared.snapshot().map_or(Bytes::ZERO, |snapshot| snapshot.held))
    }

    /// Makes a job leave, whoever has its handle: a thread that has died in the middle of an
    /// iteration, say. As with dropping the handle, other jobs get all that it held once the device
    /// has passed what it enqueued. Its handle is of no use any more: its calls are refused
    /// ([`AllocError::Left`], [`BeginError::Left`], [`FreeError::NotLive`], [`NotRunning`]).
    /// Nothing that uses its blocks may be enqueued from now on.
    ///
    /// What was live, or nothing if there is no such job. One that is in the middle of a lease
    /// leaves when that has come back from the device. O(blocks log blocks + pages), and the pool's
    /// lock for at most 1024 pages at a time.
    ///
    /// [`AllocError::Left`]: crate::AllocError::Left
    /// [`BeginError::Left`]: crate::BeginError::Left
    /// [`FreeError::NotLive`]: crate::FreeError::NotLive
    /// [`NotRunning`]: crate::NotRunning
    ///
    /// ```
    /// # use zico_core::{Device, Pool};
    /// /// Ends the job of a worker that has died, if others wait for it.
    /// fn end_dead<D: Device>(pool: &Pool<D>, worker: &str) {
    ///     let waits = pool.waits();
    ///     let mut blockers = waits.iter().flat_map(|waiting| &waiting.blockers);
    ///     if let Some(dead) = blockers.find(|blocker| &*blocker.job == worker) {
    ///         pool.evict(dead.id);
    ///     }
    /// }
    /// ```
    pub fn evict(&self, job: JobId) -> Option<LiveBlocks> {
        let shared = &self.shared;
        let there = shared.job(job.0).filter(|there| there.activity != Activity::Left)?;
        let (stream, heap) = shared.handles.lock().heap(job.0)?;
        shared.unpark(job.0, stream, &heap, true);
        Some(LiveBlocks { job: there.name, blocks: shared.leave(job.0, &heap) })
    }

    /// Holds a job's progress to a rate, or no longer. Whether the job is there.
    ///
    /// The job has to wait for the next token of its [`Pace`] where it asks to start an iteration
    /// ([`Begin::Wait`]) and where an allocation needs a lease ([`AllocError::Busy`], with
    /// [`Shortage::rest`]). All other allocations are as fast as ever: so a job may be ahead of its
    /// pace by what it does between two leases, or after the last one of an iteration. It pays for
    /// that before it goes on, and over a long time the rate is kept to.
    ///
    /// Others never wait for a job because of its pace. While one of them waits, to start or for
    /// memory, or a lowered budget has not been reached, an iteration that runs goes on at full
    /// speed, and so may one begin of a job that holds what it may free. What it does meanwhile it
    /// pays for later.
    ///
    /// The pool has no timer. Whoever waits for a token asks again at that time; those who wait for
    /// the pool's generation are told by the first [`poll`](Self::poll) after it
    /// ([`poll_at`](Self::poll_at)). Another pace counts at once, and what was saved up or is owed
    /// stays so many operations. At a broker that has been restarted the job has none.
    ///
    /// ```
    /// # use zico_core::{Device, Job, Pace, Pool, Ticks};
    /// /// The job makes no more than 1000 allocations and frees in a second.
    /// fn slow_down<D: Device>(pool: &Pool<D>, job: &Job<D>) {
    ///     pool.set_pace(job.id(), Some(Pace::new(1000, Ticks::millis(1000))));
    /// }
    /// ```
    ///
    /// [`Begin::Wait`]: crate::Begin::Wait
    /// [`AllocError::Busy`]: crate::AllocError::Busy
    /// [`Shortage::rest`]: crate::Shortage::rest
    pub fn set_pace(&self, job: JobId, pace: Option<Pace>) -> bool {
        self.shared.set_pace(job.0, pace)
    }

    /// When to [`poll`](Self::poll) next by the device's clock even if nothing else happens: a job
    /// that its [pace](Self::set_pace) holds up may go on then. None if there is no such job, or if
    /// the pool's books are at a broker, which sees to that itself.
    #[must_use]
    pub fn poll_at(&self) -> Option<Ticks> {
        self.shared.poll_at()
    }

    /// The jobs that wait, to start an iteration or for memory, and for whom: what to look at where
    /// nothing seems to go on. O(jobs^2 log jobs), under the pool's lock.
    #[must_use]
    pub fn waits(&self) -> Vec<Waiting> {
        self.shared.waits()
    }

    /// Changes whenever something has happened that a waiting job may have waited for. Wraps.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Resolves when the generation is no longer `seen`. Read the generation first, then ask the
    /// pool, then await: so no change is missed.
    pub fn changed(&self, seen: u32) -> Changed<'_, D> {
        Changed::new(&self.shared, seen)
    }

    /// Changes the budget, rounded down to whole regions, and says how far that is done.
    ///
    /// A higher budget counts at once. A lower one gates new iterations at once; those that run may
    /// finish, and memory goes back to the device as it becomes free: what is free now, the rest in
    /// [`poll`](Self::poll), until [`budget_status`](Self::budget_status) has nothing pending. That
    /// takes at most one iteration of each running job. Until then the pool holds at most the
    /// target and what is pending. The budget may be changed again at any time.
    ///
    /// O(regions that are added), or O(regions log regions) and some device calls for each region
    /// that goes; the pool's lock is held for at most 1024 of them at a time.
    ///
    /// # Errors
    /// If the budget cannot be; nothing has changed then. A device that refuses to take memory back
    /// now is asked again by the next poll.
    pub fn set_budget(&self, budget: Bytes) -> Result<BudgetStatus, BudgetError> {
        let capacity = self.shared.device.caps().capacity;
        self.shared.set_budget(budget, capacity)?;
        let _ = self.shared.reclaim(None);
        Ok(self.budget_status())
    }

    /// How far the budget is from what it is to be.
    #[must_use]
    pub fn budget_status(&self) -> BudgetStatus {
        self.shared.budget_status()
    }

    /// The budget: whole regions.
    #[must_use]
    pub fn budget(&self) -> Bytes {
        self.budget_status().target
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

    /// The books as they stand. O(jobs) under the pool's lock, and O(blocks) under each job's own.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.shared.snapshot().unwrap_or_default();
        // A job that goes on meanwhile may be a step further there than in the books.
        for job in snapshot.jobs.iter_mut().filter(|job| job.activity != Activity::Left) {
            let heap = self.shared.handles.lock().heap(job.id.0);
            let Some((_, heap)) = heap else { continue };
            heap.lock().report(job);
        }
        snapshot
    }
}
