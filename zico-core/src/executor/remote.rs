//! The books at a broker: what this process has to know of its own jobs, and how it asks and tells.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::broker::{
    Fetch, Lease, Link, Offered, Offers, Order, Refusal, Reply, Request, Seen, Usage,
};
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
    /// Counts the connections: changes when a new broker has been told what is here.
    connection: AtomicU32,
    /// Regions whose memory is to go.
    release: Mutex<BTreeSet<u32>>,
    /// Not zero while somebody waits, in whatever process.
    pressure: AtomicU32,
}

/// What this process knows of one of its jobs in the books.
#[derive(Default)]
struct Seat {
    config: JobConfig,
    /// The connection over which a lease was granted that is not settled, and its pages.
    granted: Option<(u32, Vec<u64>)>,
    /// The pages that are leased.
    leased: BTreeSet<(Zone, u64)>,
    /// Regions that it has given back, the page they were at, and the batch whose completion they wait for.
    draining: Vec<(u64, (Zone, u64), u32)>,
    /// The pages given back since the last batch was closed.
    given: usize,
    /// The number of the last batch that was closed.
    batch: u64,
    /// No event could be recorded for it yet.
    is_owed: bool,
    is_running: bool,
    /// What its iteration is expected to take, in regions, if that was known when it asked to start.
    claim: Option<u32>,
    has_left: bool,
    /// A thread takes away what it has mapped, after it has left.
    is_cleared_up: bool,
    /// What is mapped at each page.
    mapped: BTreeMap<(Zone, u64), u32>,
}

impl Seat {
    fn is_open(&self) -> bool {
        self.given > 0 || self.is_owed
    }

    /// Pages are given back, to the batch that is open.
    fn give(&mut self, zone: Zone, pages: &[u64]) {
        self.given += pages.len();
        for &page in pages {
            let place = (zone, page);
            if self.leased.remove(&place)
                && let Some(&region) = self.mapped.get(&place)
            {
                self.draining.push((self.batch + 1, place, region));
            }
        }
    }

    /// All regions that it has, for a new broker. Those that drain do so in the batch that is open from now
    /// on.
    fn offer(&mut self) -> Vec<Offered> {
        let leased: BTreeSet<u32> =
            self.leased.iter().filter_map(|place| self.mapped.get(place)).copied().collect();
        let next = self.batch + 1;
        // One that drains and has been leased again is in use.
        self.draining.retain(|(_, _, region)| !leased.contains(region));
        let mut draining: BTreeMap<u32, (Zone, u64)> = BTreeMap::new();
        for (batch, place, region) in &mut self.draining {
            *batch = next;
            draining.insert(*region, *place);
        }
        self.given = self.given.max(self.draining.len());
        let mut offered = Vec::new();
        for (&(zone, page), &region) in &self.mapped {
            let usage = match draining.get(&region) {
                _ if self.leased.contains(&(zone, page)) => Usage::Leased,
                Some(&place) if place == (zone, page) => {
                    draining.remove(&region);
                    Usage::Draining
                }
                _ => Usage::Idle,
            };
            offered.push(Offered { region, at: Some((zone.lifetime(), page)), usage });
        }
        // Those whose page has another region by now.
        let unmapped = draining.into_keys();
        offered.extend(unmapped.map(|region| Offered { region, at: None, usage: Usage::Draining }));
        offered
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
            connection: AtomicU32::new(0),
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
        let seat = Seat { config: config.clone(), ..Seat::default() };
        self.jobs.lock().insert(job.0, seat);
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
            Ok(Reply::Begun(begun, claim)) => {
                self.change(job, |seat| seat.claim = claim);
                begun
            }
            Ok(_) => Err(BeginError::Broker(BrokerError::Confused)),
            Err(error) => Err(BeginError::Broker(error)),
        };
        if begun == Ok(Begin::Started) {
            self.change(job, |seat| seat.is_running = true);
        }
        begun
    }

    /// An iteration ends. It does so here whatever the broker says: one that has come in the place of another
    /// may have been told that none runs, while this was on its way.
    pub(crate) fn end(&self, job: JobKey, signature: Signature) -> Result<(), NotRunning> {
        let was_running = self.change(job, |seat| core::mem::take(&mut seat.is_running));
        let ended = self.ask(job, Request::End(seen(signature)));
        if was_running == Some(true) || ended == Ok(Reply::Ended(Ok(()))) {
            Ok(())
        } else {
            Err(NotRunning)
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
        loop {
            let connection = self.connection.load(Ordering::Acquire);
            let order = match self.ask(job, Request::Lease(Lease::new(want, last))) {
                Ok(Reply::Granted(order)) => order,
                Ok(Reply::Refused(refusal)) => return Err(refused(refusal)),
                Ok(_) => return Err(Refused::Broker(BrokerError::Confused)),
                Err(error) => return Err(Refused::Broker(error)),
            };
            if self.is_granted(job, want, &order, connection) {
                return Ok(self.order(job, order));
            }
            // Another broker has been told meanwhile what the job has, and this is not of it. Whichever of
            // the two has granted it takes it back.
            if order.map.is_empty() {
                self.change(job, |seat| seat.given += want.pages.len());
                self.tell(job, Request::GiveBack(want.zone.lifetime(), want.pages.clone()));
            } else {
                self.decline(job);
            }
        }
    }

    /// A lease has been granted. If the device has nothing to do for it, that is all. Whether the connection
    /// is still the one over which it was asked for.
    fn is_granted(&self, job: JobKey, want: &Want, order: &Order, connection: u32) -> bool {
        let is_granted = self.change(job, |seat| {
            if connection != self.connection.load(Ordering::Acquire) {
                return false;
            }
            if order.map.is_empty() {
                seat.leased.extend(want.pages.iter().map(|&page| (want.zone, page)));
            } else {
                seat.granted = Some((connection, want.pages.clone()));
            }
            true
        });
        is_granted == Some(true)
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

    /// Whether what the broker has granted is the job's: not if there is another broker since, which has not
    /// been told of it.
    pub(super) fn settle(&self, job: JobKey, zone: Zone, order: &WorkOrder, done: &Done) -> bool {
        let is_known = self.change(job, |seat| {
            let now = self.connection.load(Ordering::Acquire);
            let granted = seat.granted.take().filter(|(connection, _)| *connection == now);
            let Some((_, pages)) = granted else { return false };
            for (place, _) in &order.unmap[..done.unmapped] {
                seat.mapped.remove(&(place.zone, place.page));
            }
            for &(page, region) in &order.map[..done.mapped] {
                seat.mapped.insert((zone, page), number(region));
            }
            if done.mapped == order.map.len() {
                seat.leased.extend(pages.into_iter().map(|page| (zone, page)));
            }
            true
        });
        if is_known != Some(true) {
            return false;
        }
        let [unmapped, mapped] = [done.unmapped, done.mapped].map(number);
        self.tell(job, Request::Settle { unmapped, mapped });
        true
    }

    /// An order that may be of a broker that is no more has not been carried out: if it is this one's,
    /// it takes the lease back.
    pub(super) fn decline(&self, job: JobKey) {
        self.tell(job, Request::Settle { unmapped: 0, mapped: 0 });
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
            seat.give(zone, &pages);
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
        self.change(job, |seat| seat.draining.retain(|&(of, _, _)| of > batch));
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

    pub(super) fn is_running(&self, job: JobKey) -> bool {
        self.change(job, |seat| seat.is_running) == Some(true)
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
            for zone in Zone::ALL {
                let of = seat.leased.iter().filter(|(other, _)| *other == zone);
                let pages: Vec<u64> = of.map(|&(_, page)| page).collect();
                seat.give(zone, &pages);
            }
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

    /// Whether this thread is to clear up after a job that has left, and no other does.
    pub(super) fn clears_up(&self, job: JobKey) -> bool {
        self.change(job, |seat| !core::mem::replace(&mut seat.is_cleared_up, true)) == Some(true)
    }

    /// It could not be done now.
    pub(super) fn clear_up_later(&self, job: JobKey) {
        self.change(job, |seat| seat.is_cleared_up = false);
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

    /// The regions whose memory is to go, for the caller to give up: no other thread gets them, which
    /// would unmap what is unmapped already, or a region that has come back under the same number.
    pub(super) fn take_releases(&self) -> BTreeSet<u32> {
        core::mem::take(&mut *self.release.lock())
    }

    /// The memory of a region has gone from this process.
    pub(super) fn released(&self, region: u32) {
        self.link.tell(None, Request::Released(region));
    }

    /// Tells a new broker of all jobs, whose memory has been handed in. From here on it is this one that
    /// grants.
    pub(super) fn offer_jobs(&self, offers: &mut dyn Offers<D>) -> Result<(), BrokerError> {
        let jobs = {
            let mut seats = self.jobs.lock();
            self.connection.fetch_add(1, Ordering::AcqRel);
            let offer = |(&job, seat): (&JobKey, &mut Seat)| {
                (
                    job,
                    seat.config.clone(),
                    seat.offer(),
                    (seat.is_running, seat.claim),
                    seat.has_left,
                )
            };
            seats.iter_mut().map(offer).collect::<Vec<_>>()
        };
        for (job, config, offered, (runs, claim), has_left) in jobs {
            let id = JobId(job);
            // What is reserved for it was so before: the new broker has room for it, or not even that.
            match offers.ask(None, Request::Rejoin(id, config))? {
                Reply::Joined(_) => {}
                _ => return Err(BrokerError::Confused),
            }
            for some in offered.chunks(AT_A_TIME) {
                match offers.ask(Some(id), Request::Offer(some.to_vec()))? {
                    Reply::Whether(true) => {}
                    _ => return Err(BrokerError::Confused),
                }
            }
            offers.tell(Some(id), Request::Resume { runs, claim });
            if has_left {
                offers.tell(Some(id), Request::Leave);
            }
        }
        Ok(())
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
