//! The books at a broker: what this process has to know of its own jobs, and how it asks and tells.

mod away;
mod fences;
mod lease;
mod leaving;
mod questions;
mod recovery;
mod seat;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::broker::{Fetch, Link, Refusal, Reply, Request, Seen};
use crate::learn::predictor::Peak;
use crate::learn::signature::Signature;
use crate::ledger::Denied;
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::config::JobConfig;
use crate::types::device::Device;
use crate::types::error::{BeginError, BrokerError, BudgetError, JoinError, NotRunning};
use crate::types::pulse::SharedPulse;
use crate::types::report::{Begin, BudgetStatus};
use crate::types::sync::{AtomicU32, Mutex, Ordering};
use crate::types::tuning::TOLD_AT_ONCE;
use crate::types::units::Bytes;
use seat::Seat;

/// The books of a pool's jobs, which are at a broker.
pub(crate) struct Remote<D: Device> {
    pub(in crate::executor) link: Box<dyn Link<D>>,
    jobs: Mutex<BTreeMap<JobKey, Seat>>,
    /// Counts the connections: changes before a new broker is told what is here.
    connection: AtomicU32,
    /// Regions whose memory is to go.
    release: Mutex<BTreeSet<u32>>,
    /// Not zero while a thread gives some of them up.
    is_releasing: AtomicU32,
    /// Not zero while somebody waits, in whatever process.
    pressure: AtomicU32,
    /// How often something has been told that may wait, since what was told went.
    unsent: AtomicU32,
    /// Jobs that are to give way.
    called: Mutex<BTreeSet<JobKey>>,
}

/// Why a lease was not granted.
pub(crate) enum Refused {
    Denied(Denied),
    Left,
    Broker(BrokerError),
}

impl<D: Device> Remote<D> {
    pub(in crate::executor) fn new(link: Box<dyn Link<D>>) -> Self {
        Self {
            link,
            jobs: Mutex::new(BTreeMap::new()),
            connection: AtomicU32::new(0),
            release: Mutex::new(BTreeSet::new()),
            is_releasing: AtomicU32::new(0),
            pressure: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            called: Mutex::new(BTreeSet::new()),
        }
    }

    /// Counts the connections.
    pub(in crate::executor) fn connection(&self) -> u32 {
        self.connection.load(Ordering::Acquire)
    }

    pub(in crate::executor) fn set_pressure(&self, pressure: bool) {
        self.pressure.store(u32::from(pressure), Ordering::Relaxed);
    }

    fn ask(&self, job: JobKey, request: Request) -> Result<Reply, BrokerError> {
        self.ask_in_order(job, request, &mut |_| {})
    }

    fn ask_in_order(
        &self,
        job: JobKey,
        request: Request,
        heard: &mut dyn FnMut(&Reply),
    ) -> Result<Reply, BrokerError> {
        // What has been told goes with it.
        self.unsent.store(0, Ordering::Relaxed);
        self.link.ask_in_order(Some(JobId(job)), request, heard)
    }

    /// Takes a message: it goes with the next [`flush`](Self::flush) or question.
    fn tell(&self, job: JobKey, request: Request) {
        self.link.tell(Some(JobId(job)), request);
    }

    /// Sends what has been told. The caller has no lock: who is woken by a message may run at once,
    /// in this thread's place, and another thread would spin for the lock meanwhile.
    pub(in crate::executor) fn flush(&self) {
        self.unsent.store(0, Ordering::Relaxed);
        self.link.flush();
    }

    /// The same of what has been told of a job. While that runs an iteration and nobody waits, it
    /// goes with the next question, or with more of its kind: each message that goes by itself
    /// wakes the broker.
    ///
    /// Whoever comes to wait has it soon. This looks after it has been queued, and the notice that
    /// somebody waits sends what is queued.
    fn flush_for(&self, job: JobKey) {
        let unsent = self.unsent.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let is_waited_for = self.pressure.load(Ordering::Relaxed) != 0;
        if !self.is_running(job) || is_waited_for || unsent >= TOLD_AT_ONCE {
            self.flush();
        }
    }

    fn change<T>(&self, job: JobKey, change: impl FnOnce(&mut Seat) -> T) -> Option<T> {
        self.jobs.lock().get_mut(&job).map(change)
    }

    /// The same for a change that the broker is told of.
    fn change_and_tell<T>(&self, job: JobKey, change: impl FnOnce(&mut Seat) -> T) -> Option<T> {
        let changed = self.change(job, change);
        self.flush();
        changed
    }

    /// The memory of the broker's device.
    pub(crate) fn capacity(&self) -> Bytes {
        self.link.capacity()
    }

    pub(in crate::executor) fn join(
        &self,
        config: &JobConfig,
    ) -> Result<(JobKey, SharedPulse), JoinError<D::Error>> {
        // A broker that comes next hears of it, however soon.
        let mut heard = |reply: &Reply| {
            if let Reply::Joined(job) = reply {
                let seat = Seat { config: config.clone(), ..Seat::default() };
                self.jobs.lock().insert(job.0, seat);
            }
        };
        let request = Request::Join(config.clone());
        let job = match self.link.ask_in_order(None, request, &mut heard) {
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
        Ok((job.0, SharedPulse::Page(self.link.pulse(job))))
    }

    /// A budget that the broker is not there to change stays.
    pub(in crate::executor) fn set_budget(&self, budget: Bytes) -> Result<(), BudgetError> {
        match self.link.ask(None, Request::SetBudget(budget)) {
            Ok(Reply::NoBudget(error)) => Err(error),
            _ => Ok(()),
        }
    }

    pub(in crate::executor) fn budget_status(&self) -> BudgetStatus {
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

    /// An iteration ends. It does so here whatever the broker says: one that has come in the place
    /// of another may have been told that none runs, while this was on its way.
    pub(crate) fn end(
        &self,
        job: JobKey,
        signature: Signature,
        is_followed: bool,
    ) -> Result<(), NotRunning> {
        let was_running = self.change(job, |seat| {
            seat.give_ahead();
            self.tell_given(job, seat);
            core::mem::take(&mut seat.is_running)
        });
        let request = Request::End { seen: seen(signature), is_followed };
        let ended = self.ask(job, request);
        if was_running == Some(true) || ended == Ok(Reply::Ended(Ok(()))) {
            Ok(())
        } else {
            Err(NotRunning)
        }
    }

    pub(in crate::executor) fn replan(&self, job: JobKey, peak: &Peak) -> bool {
        let Peak { kind, pages: regions, within, ref starts } = *peak;
        let (shape, seen) = (kind.told, seen(kind.signature));
        let request = Request::Replan { shape, seen, regions, within, starts: starts.clone() };
        matches!(self.ask(job, request), Ok(Reply::Whether(true)))
    }

    /// A handle of the memory of a region that has been leased.
    pub(in crate::executor) fn memory(&self, region: usize) -> Result<D::Memory, Fetch<D::Error>> {
        self.link.memory(number(region))
    }

    /// Tells what needs no answer.
    pub(in crate::executor) fn note(&self, job: JobKey, request: Request) {
        self.tell(job, request);
        self.flush();
    }

    pub(in crate::executor) fn jobs(&self) -> Vec<JobKey> {
        self.jobs.lock().keys().copied().collect()
    }

    pub(in crate::executor) fn is_running(&self, job: JobKey) -> bool {
        self.change(job, |seat| seat.is_running) == Some(true)
    }

    /// Those that run no iteration.
    pub(in crate::executor) fn at_rest(&self) -> Vec<JobKey> {
        let seats = self.jobs.lock();
        let at_rest = seats.iter().filter(|(_, seat)| !seat.is_running && !seat.has_left);
        at_rest.map(|(&job, _)| job).collect()
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
