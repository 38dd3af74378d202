//! The books at a broker: what this process has to know of its own jobs, and how it asks and tells.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::broker::{Fetch, Lease, Link, Order, Refusal, Reply, Request, Seen};
use crate::learn::predictor::Peak;
use crate::learn::profile::Profile;
use crate::learn::signature::Signature;
use crate::ledger::{AT_A_TIME, Denied, Done, Place, WorkOrder, is_full};
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::config::JobConfig;
use crate::types::device::Device;
use crate::types::error::{
    BeginError, BrokerError, BudgetError, JoinError, NotRunning, OutOfMemory, Shortage,
};
use crate::types::pulse::SharedPulse;
use crate::types::report::{Begin, BudgetStatus, JobSnapshot};
use crate::types::sync::{AtomicU32, Mutex, Ordering};
use crate::types::units::Bytes;
use crate::types::want::{Demand, Want};
use crate::types::zone::Zone;

/// The books of a pool's jobs, which are at a broker.
pub(crate) struct Remote<D: Device> {
    pub(super) link: Box<dyn Link<D>>,
    jobs: Mutex<BTreeMap<JobKey, Seat>>,
    /// Regions whose memory is to go.
    release: Mutex<BTreeSet<u32>>,
    /// Not zero while somebody waits, in whatever process.
    pressure: AtomicU32,
}

/// What this process knows of one of its jobs in the books.
#[derive(Default)]
struct Seat {
    /// The pages given back since the last batch was closed.
    given: usize,
    /// The number of the last batch that was closed.
    batch: u64,
    /// No event could be recorded for it yet.
    is_owed: bool,
    is_running: bool,
    has_left: bool,
    /// What is mapped at each page.
    mapped: BTreeMap<(Zone, u64), u32>,
}

impl Seat {
    fn is_open(&self) -> bool {
        self.given > 0 || self.is_owed
    }
}

/// Why a lease was not granted.
pub(crate) enum Refused {
    Denied(Denied),
    Left,
    Broker(BrokerError),
}

impl<D: Device> Remote<D> {
    pub(super) fn new(link: Box<dyn Link<D>>) -> Self {
        Self {
            link,
            jobs: Mutex::new(BTreeMap::new()),
            release: Mutex::new(BTreeSet::new()),
            pressure: AtomicU32::new(0),
        }
    }

    pub(super) fn set_pressure(&self, pressure: bool) {
        self.pressure.store(u32::from(pressure), Ordering::Relaxed);
    }

    fn ask(&self, job: JobKey, request: Request) -> Result<Reply, BrokerError> {
        self.link.ask(Some(JobId(job)), request)
    }

    fn tell(&self, job: JobKey, request: Request) {
        self.link.tell(Some(JobId(job)), request);
    }

    fn change<T>(&self, job: JobKey, change: impl FnOnce(&mut Seat) -> T) -> Option<T> {
        self.jobs.lock().get_mut(&job).map(change)
    }

    /// The memory of the broker's device.
    pub(crate) fn capacity(&self) -> Bytes {
        self.link.capacity()
    }

    pub(super) fn join(
        &self,
        config: &JobConfig,
    ) -> Result<(JobKey, SharedPulse), JoinError<D::Error>> {
        let job = match self.link.ask(None, Request::Join(config.clone())) {
            Ok(Reply::Joined(job)) => job,
            Ok(Reply::FloorNotFree { floor, budget }) => {
                return Err(JoinError::FloorNotFree { floor, budget });
            }
            Ok(Reply::TooManyJobs(most)) => {
                return Err(JoinError::Broker(BrokerError::TooManyJobs { most }));
            }
            Ok(_) => return Err(JoinError::Broker(BrokerError::Confused)),
            Err(error) => return Err(JoinError::Broker(error)),
        };
        self.jobs.lock().insert(job.0, Seat::default());
        Ok((job.0, SharedPulse::Page(self.link.pulse(job))))
    }

    /// A budget that the broker is not there to change stays.
    pub(super) fn set_budget(&self, budget: Bytes) -> Result<(), BudgetError> {
        match self.link.ask(None, Request::SetBudget(budget)) {
            Ok(Reply::NoBudget(error)) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn budget_status(&self) -> BudgetStatus {
        match self.link.ask(None, Request::Budget) {
            Ok(Reply::Budget(status)) => status,
            _ => BudgetStatus::default(),
        }
    }

    pub(crate) fn begin(&self, job: JobKey, shape: Option<u64>) -> Result<Begin, BeginError> {
        let begun = match self.ask(job, Request::Begin(shape)) {
            Ok(Reply::Begun(begun)) => begun,
            Ok(_) => Err(BeginError::Broker(BrokerError::Confused)),
            Err(error) => Err(BeginError::Broker(error)),
        };
        if begun == Ok(Begin::Started) {
            self.change(job, |seat| seat.is_running = true);
        }
        begun
    }

    /// An iteration ends here even if the broker cannot be told: it knows then that the job has
    /// gone.
    pub(crate) fn end(&self, job: JobKey, signature: Signature) -> Result<(), NotRunning> {
        let was_running = self.change(job, |seat| core::mem::take(&mut seat.is_running));
        match self.ask(job, Request::End(seen(signature))) {
            Ok(Reply::Ended(ended)) => ended,
            _ if was_running == Some(true) => Ok(()),
            _ => Err(NotRunning),
        }
    }

    pub(super) fn replan(&self, job: JobKey, peak: &Peak) -> bool {
        let Peak { kind, pages: regions, within } = *peak;
        let (shape, seen) = (kind.told, seen(kind.signature));
        let request = Request::Replan { shape, seen, regions, within };
        matches!(self.ask(job, request), Ok(Reply::Whether(true)))
    }

    /// A handle of the memory of a region that has been leased.
    pub(super) fn memory(&self, region: usize) -> Result<D::Memory, Fetch<D::Error>> {
        self.link.memory(number(region))
    }

    /// Tells what needs no answer.
    pub(super) fn note(&self, job: JobKey, request: Request) {
        self.tell(job, request);
    }

    pub(super) fn lease(&self, job: JobKey, want: &Want, last: bool) -> Result<WorkOrder, Refused> {
        match self.ask(job, Request::Lease(Lease::new(want, last))) {
            Ok(Reply::Granted(order)) => Ok(self.order(job, order)),
            Ok(Reply::Refused(refusal)) => Err(refused(refusal)),
            Ok(_) => Err(Refused::Broker(BrokerError::Confused)),
            Err(error) => Err(Refused::Broker(error)),
        }
    }

    /// A work order in the executor's words.
    fn order(&self, job: JobKey, order: Order) -> WorkOrder {
        let seats = self.jobs.lock();
        let mapped = seats.get(&job).map(|seat| &seat.mapped);
        let unmap = order.unmap.into_iter().filter_map(|(lifetime, page)| {
            let zone = Zone::from(lifetime);
            let region = *mapped?.get(&(zone, page))?;
            Some((Place { job, zone, page }, region as usize))
        });
        let map = order.map.into_iter().map(|(page, region)| (page, region as usize));
        WorkOrder::of_broker(unmap.collect(), map.collect())
    }

    pub(super) fn settle(&self, job: JobKey, zone: Zone, order: &WorkOrder, done: &Done) {
        self.change(job, |seat| {
            for (place, _) in &order.unmap[..done.unmapped] {
                seat.mapped.remove(&(place.zone, place.page));
            }
            for &(page, region) in &order.map[..done.mapped] {
                seat.mapped.insert((zone, page), number(region));
            }
        });
        let [unmapped, mapped] = [done.unmapped, done.mapped].map(number);
        self.tell(job, Request::Settle { unmapped, mapped });
    }

    /// Gives pages back. Whether it is time to fence them.
    pub(super) fn give_back(
        &self,
        job: JobKey,
        zone: Zone,
        pages: impl Iterator<Item = u64>,
        page_bytes: Bytes,
    ) -> bool {
        let pages: Vec<u64> = pages.collect();
        let given = self.change(job, |seat| {
            seat.given += pages.len();
            seat.given
        });
        for some in pages.chunks(AT_A_TIME) {
            self.tell(job, Request::GiveBack(zone.lifetime(), some.to_vec()));
        }
        is_full(given.unwrap_or(0), page_bytes.value())
    }

    /// Closes a job's open batch: its number, under which an event is to be recorded from now on.
    /// The broker is told before, so that what is given back later belongs to a later batch.
    pub(super) fn close(&self, job: JobKey) -> Option<u64> {
        let mut seats = self.jobs.lock();
        let seat = seats.get_mut(&job).filter(|seat| seat.is_open())?;
        if seat.given > 0 {
            seat.batch += 1;
            // Under the lock: numbers rise on their way.
            self.tell(job, Request::Fence(seat.batch));
        }
        (seat.given, seat.is_owed) = (0, false);
        Some(seat.batch)
    }

    /// No event could be recorded for the last batch: that is tried again.
    pub(super) fn owe(&self, job: JobKey) {
        self.change(job, |seat| seat.is_owed = true);
    }

    /// The device has completed a batch and all before it. That is the last of it, always.
    pub(super) fn completed(&self, job: JobKey, batch: u64) -> Option<bool> {
        self.tell(job, Request::Completed(batch));
        Some(true)
    }

    /// The jobs whose open batch is to be fenced now.
    pub(super) fn due(&self, page_bytes: Bytes) -> Vec<JobKey> {
        let pressure = self.pressure.load(Ordering::Relaxed) != 0;
        let is_due = |seat: &Seat| {
            let full = is_full(seat.given, page_bytes.value());
            seat.is_open() && (pressure || !seat.is_running || seat.is_owed || full)
        };
        let seats = self.jobs.lock();
        seats.iter().filter(|(_, seat)| is_due(seat)).map(|(&job, _)| job).collect()
    }

    pub(super) fn jobs(&self) -> Vec<JobKey> {
        self.jobs.lock().keys().copied().collect()
    }

    /// Those that run no iteration.
    pub(super) fn at_rest(&self) -> Vec<JobKey> {
        let seats = self.jobs.lock();
        let at_rest = seats.iter().filter(|(_, seat)| !seat.is_running && !seat.has_left);
        at_rest.map(|(&job, _)| job).collect()
    }

    /// A job leaves. Whether it had not left before.
    pub(super) fn leave(&self, job: JobKey) -> bool {
        let leaves = self.change(job, |seat| {
            // All of it is fenced once more.
            seat.given += 1;
            seat.is_running = false;
            !core::mem::replace(&mut seat.has_left, true)
        });
        if leaves == Some(true) {
            self.tell(job, Request::Leave);
        }
        leaves == Some(true)
    }

    /// The jobs that have left and whose batches are all fenced.
    pub(super) fn leaving(&self) -> Vec<JobKey> {
        let seats = self.jobs.lock();
        let leaving = seats.iter().filter(|(_, seat)| seat.has_left && !seat.is_open());
        leaving.map(|(&job, _)| job).collect()
    }

    /// What a job has mapped, by arena and page.
    pub(super) fn mapped(&self, job: JobKey) -> Vec<(Place, usize)> {
        let seats = self.jobs.lock();
        let mapped = seats.get(&job).map(|seat| &seat.mapped).into_iter().flatten();
        let place = |(&(zone, page), &region): (&(Zone, u64), &u32)| {
            (Place { job, zone, page }, region as usize)
        };
        mapped.map(place).collect()
    }

    /// Where a region is mapped, in all jobs.
    pub(super) fn places_of(&self, region: u32) -> Vec<(Place, usize)> {
        let jobs = self.jobs();
        let all = jobs.into_iter().flat_map(|job| self.mapped(job));
        all.filter(|&(_, mapped)| mapped == region as usize).collect()
    }

    /// These are mapped no more.
    pub(super) fn unmapped(&self, gone: &[(Place, usize)]) {
        for (place, _) in gone {
            self.change(place.job, |seat| seat.mapped.remove(&(place.zone, place.page)));
        }
    }

    /// A job that has left has nothing mapped any more.
    pub(super) fn departed(&self, job: JobKey) {
        self.jobs.lock().remove(&job);
        self.tell(job, Request::Departed);
    }

    /// The broker wants the memory of a region to go.
    pub(super) fn note_release(&self, region: u32) {
        self.release.lock().insert(region);
    }

    /// The regions whose memory is to go.
    pub(super) fn to_release(&self) -> Vec<u32> {
        self.release.lock().iter().copied().collect()
    }

    /// The memory of a region has gone from this process.
    pub(super) fn released(&self, region: u32) {
        if self.release.lock().remove(&region) {
            self.link.tell(None, Request::Released(region));
        }
    }

    /// Why so much can never be had.
    pub(super) fn is_beyond_all(&self, job: JobKey, demand: Demand) -> Option<Denied> {
        let Demand { asked, pages: regions, .. } = demand;
        match self.ask(job, Request::Fits { asked, regions }) {
            Ok(Reply::Refused(refusal)) => match refused(refusal) {
                Refused::Denied(denied) => Some(denied),
                Refused::Left | Refused::Broker(_) => None,
            },
            _ => None,
        }
    }

    pub(super) fn shortage(&self, job: JobKey, asked: Bytes) -> Option<Shortage> {
        match self.ask(job, Request::Shortage(asked)) {
            Ok(Reply::Short(shortage)) => Some(shortage),
            _ => None,
        }
    }

    pub(super) fn out_of_memory(&self, job: JobKey, asked: Bytes) -> Option<Box<OutOfMemory>> {
        match self.ask(job, Request::OutOfMemory(asked)) {
            Ok(Reply::Refused(Refusal::Never(why))) => Some(why),
            _ => None,
        }
    }

    pub(super) fn may_turn(&self, job: JobKey) -> bool {
        matches!(self.ask(job, Request::MayTurn), Ok(Reply::Whether(true)))
    }

    pub(super) fn job(&self, job: JobKey) -> Option<JobSnapshot> {
        match self.ask(job, Request::Job) {
            Ok(Reply::Job(job)) => job.map(|job| *job),
            _ => None,
        }
    }

    pub(super) fn profile(&self, job: JobKey) -> Option<Profile> {
        match self.ask(job, Request::Profile) {
            Ok(Reply::Profile(Some(outline))) => {
                Profile::from_parts(outline.steps, outline.operations, outline.length)
            }
            _ => None,
        }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

const fn seen(signature: Signature) -> Seen {
    let (allocations, hash) = signature.parts();
    Seen { allocations, hash }
}

fn refused(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Busy(shortage) => Refused::Denied(Denied::Busy(shortage)),
        Refusal::Never(why) => Refused::Denied(Denied::Never(why)),
        Refusal::BeyondCap(shortage, cap) => Refused::Denied(Denied::BeyondCap(shortage, cap)),
        Refusal::Device(why) => Refused::Broker(BrokerError::Device(why)),
        Refusal::Left => Refused::Left,
    }
}
