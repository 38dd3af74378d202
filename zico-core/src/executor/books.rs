//! The books of a pool: its own, behind a lock, or a broker's.
//!
//! What a handle asks of the books goes through here, so that above the executor hardly anything
//! knows which of the two it is.

use alloc::format;
use alloc::vec::Vec;

use super::Shared;
use super::remote::{Refused, Remote};
use crate::broker::{Reply, Request};
use crate::learn::predictor::Peak;
use crate::learn::profile::Profile;
use crate::learn::signature::{Mark, Signature};
use crate::ledger::account::Account;
use crate::ledger::{Denied, Done, Ledger, WorkOrder};
use crate::types::JobKey;
use crate::types::config::{JobConfig, Terms};
use crate::types::device::Device;
use crate::types::error::{AllocError, BrokerError, BudgetError, JoinError, NotRunning};
use crate::types::pace::Pace;
use crate::types::pulse::{Pulse, SharedPulse};
use crate::types::report::{BudgetStatus, Held, JobSnapshot, Snapshot};
use crate::types::sync::{Arc, Mutex};
use crate::types::units::{Bytes, Ticks};
use crate::types::waits::Waiting;
use crate::types::want::{Demand, Want};
use crate::types::zone::Zone;

/// Where the books are.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Books<D: Device> {
    /// In this process. There is one of them in a pool: its size does not matter.
    Own(Mutex<Ledger>),
    /// At a broker.
    Remote(Remote<D>),
}

impl<D: Device> Shared<D> {
    /// The broker's, if the books are there.
    pub(crate) const fn remote(&self) -> Option<&Remote<D>> {
        match &self.books {
            Books::Own(_) => None,
            Books::Remote(remote) => Some(remote),
        }
    }

    /// Changes the ledger under its lock, and wakes those who wait if that is called for. Nothing,
    /// if the books are elsewhere.
    #[inline]
    pub(crate) fn ledger<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> Option<T> {
        let Books::Own(ledger) = &self.books else { return None };
        let mut ledger = ledger.lock();
        let result = change(&mut ledger);
        let wake = ledger.take_wake();
        drop(ledger);
        if wake {
            self.changed();
        }
        Some(result)
    }

    /// Looks at the ledger, or changes it where nobody is to be woken yet. Nothing, if the books
    /// are elsewhere.
    #[inline]
    pub(crate) fn quietly<T>(&self, look: impl FnOnce(&mut Ledger) -> T) -> Option<T> {
        match &self.books {
            Books::Own(ledger) => Some(look(&mut ledger.lock())),
            Books::Remote(_) => None,
        }
    }

    /// Tells the books something that needs no answer.
    fn note(&self, job: JobKey, change: impl FnOnce(&mut Ledger), request: Request) {
        match &self.books {
            Books::Own(_) => drop(self.ledger(change)),
            Books::Remote(remote) => remote.note(job, request),
        }
    }

    /// A job is to join: by which number, and with which pulse.
    pub(crate) fn enter(
        &self,
        config: &JobConfig,
    ) -> Result<(JobKey, SharedPulse), JoinError<D::Error>> {
        match &self.books {
            Books::Own(ledger) => {
                let key = ledger.lock().new_key();
                Ok((key, SharedPulse::Own(Arc::new(Pulse::new()))))
            }
            Books::Remote(remote) => remote.join(config),
        }
    }

    /// It joins.
    pub(crate) fn join(
        &self,
        key: JobKey,
        pulse: &SharedPulse,
        config: JobConfig,
        terms: Terms,
    ) -> Result<(), JoinError<D::Error>> {
        // Whoever has a broker has joined there.
        let SharedPulse::Own(pulse) = pulse else { return Ok(()) };
        let name = if config.name.is_empty() { format!("job {key}") } else { config.name };
        let account = Account::new(name.into(), pulse.clone(), terms);
        if self.ledger(|ledger| ledger.join(key, account)) == Some(true) {
            return Ok(());
        }
        let budget = self.budget_status().target;
        Err(JoinError::FloorNotFree { floor: config.floor, budget })
    }

    pub(crate) fn set_budget(&self, budget: Bytes, capacity: Bytes) -> Result<(), BudgetError> {
        match &self.books {
            Books::Own(ledger) => {
                self.ledger(|ledger| ledger.set_target(budget, capacity)).unwrap_or(Ok(()))?;
                while ledger.lock().open_up() {}
                Ok(())
            }
            Books::Remote(remote) => remote.set_budget(budget),
        }
    }

    pub(crate) fn budget_status(&self) -> BudgetStatus {
        match &self.books {
            Books::Own(ledger) => ledger.lock().budget_status(),
            Books::Remote(remote) => remote.budget_status(),
        }
    }

    pub(crate) fn withdraw(&self, job: JobKey) {
        self.note(job, |ledger| ledger.withdraw(job), Request::Withdraw);
    }

    pub(crate) fn recognise(&self, job: JobKey, mark: Mark) {
        let Mark { power, hash } = mark;
        let request = Request::Recognise { power, hash };
        self.note(job, |ledger| ledger.recognise(job, mark), request);
    }

    pub(crate) fn lose(&self, job: JobKey) {
        self.note(job, |ledger| ledger.lose(job), Request::Lose);
    }

    /// A job has come as far as somebody waits for.
    pub(crate) fn reached(&self, job: JobKey) {
        self.note(job, Ledger::admit, Request::Reached);
    }

    /// A job has freed what its own threads may wait for.
    pub(crate) fn freed(&self, job: JobKey) {
        self.note(job, Ledger::notify, Request::Freed);
        if self.remote().is_some() {
            self.changed();
        }
    }

    /// An iteration ends. Those who wait are woken when all that it leaves has been given back.
    pub(crate) fn end(
        &self,
        job: JobKey,
        signature: Signature,
        is_followed: bool,
    ) -> Result<(), NotRunning> {
        let now = self.device.now();
        match &self.books {
            Books::Own(ledger) => {
                let mut ledger = ledger.lock();
                ledger.end(job, now, signature, is_followed)?;
                ledger.take_wake();
                Ok(())
            }
            Books::Remote(remote) => remote.end(job, signature, is_followed),
        }
    }

    pub(crate) fn replan(&self, job: JobKey, peak: &Peak) -> bool {
        match &self.books {
            Books::Own(ledger) => ledger.lock().replan(job, peak),
            Books::Remote(remote) => remote.replan(job, peak),
        }
    }

    /// Gives a job a pace, or none. Whether the job is there.
    pub(crate) fn set_pace(&self, job: JobKey, pace: Option<Pace>) -> bool {
        match &self.books {
            Books::Own(_) => {
                let now = self.device.now();
                self.ledger(|ledger| ledger.set_pace(job, pace, now)) == Some(true)
            }
            Books::Remote(remote) => remote.set_pace(job, pace),
        }
    }

    /// When the next of those that rest may go on. A broker sees to that itself.
    pub(crate) fn poll_at(&self) -> Option<Ticks> {
        let next = |ledger: &mut Ledger| [ledger.rests_until(), ledger.turns_at()];
        self.quietly(next).into_iter().flatten().flatten().min()
    }

    pub(super) fn ask_for(
        &self,
        job: JobKey,
        want: &Want,
        last: bool,
    ) -> Result<WorkOrder, Refused> {
        match &self.books {
            Books::Own(_) => {
                let now = self.device.now();
                let order = self.ledger(|ledger| ledger.lease(job, want, last, now));
                order.map_or(Err(Refused::Left), |order| order.map_err(Refused::Denied))
            }
            Books::Remote(remote) => remote.lease(job, want, last),
        }
    }

    /// Books how far the device has come with a work order. Whether the order was one of the books
    /// that there are.
    pub(super) fn settle(&self, job: JobKey, zone: Zone, order: &WorkOrder, done: &Done) -> bool {
        match &self.books {
            Books::Own(_) => {
                let now = self.device.now();
                self.ledger(|ledger| ledger.settle(job, zone, order, done, now)).is_some()
            }
            Books::Remote(remote) => remote.settle(job, zone, order, done),
        }
    }

    /// Why so much can never be had, if so.
    pub(crate) fn is_beyond_all(&self, job: JobKey, demand: Demand) -> Option<Denied> {
        match &self.books {
            Books::Own(ledger) => ledger.lock().is_beyond_all(job, demand),
            Books::Remote(remote) => remote.is_beyond_all(job, demand),
        }
    }

    /// Who has what, for a request that cannot be met now.
    pub(crate) fn busy(&self, job: JobKey, asked: Bytes) -> AllocError<D::Error> {
        let shortage = match &self.books {
            Books::Own(ledger) => Some(ledger.lock().shortage(job, asked, 0)),
            Books::Remote(remote) => remote.shortage(job, asked),
        };
        shortage.map_or_else(unreachable, AllocError::Busy)
    }

    /// The same, for one beyond the job's cap.
    pub(crate) fn beyond_cap(&self, job: JobKey, asked: Bytes, cap: Bytes) -> AllocError<D::Error> {
        match self.busy(job, asked) {
            AllocError::Busy(shortage) => AllocError::BeyondCap { cap, shortage },
            other => other,
        }
    }

    /// The same in full, for one that will never be met.
    pub(crate) fn out_of_memory(&self, job: JobKey, asked: Bytes) -> AllocError<D::Error> {
        let why = match &self.books {
            Books::Own(ledger) => Some(ledger.lock().out_of_memory(job, asked, 0, 0)),
            Books::Remote(remote) => remote.out_of_memory(job, asked),
        };
        why.map_or_else(unreachable, AllocError::OutOfMemory)
    }

    pub(crate) fn may_turn(&self, job: JobKey) -> bool {
        match &self.books {
            Books::Own(ledger) => ledger.lock().may_turn(job),
            Books::Remote(remote) => remote.may_turn(job),
        }
    }

    /// A job in the books, without what only its heap knows.
    pub(crate) fn job(&self, job: JobKey) -> Option<JobSnapshot> {
        match &self.books {
            Books::Own(ledger) => ledger.lock().job(job),
            Books::Remote(remote) => remote.job(job),
        }
    }

    pub(crate) fn held(&self, job: JobKey) -> Held {
        self.job(job).map(|job| job.held).unwrap_or_default()
    }

    /// A job's name; none for one that has gone.
    pub(crate) fn name(&self, job: JobKey) -> Arc<str> {
        self.job(job).map_or_else(|| "".into(), |job| job.name)
    }

    pub(crate) fn profile(&self, job: JobKey) -> Option<Profile> {
        match &self.books {
            Books::Own(ledger) => ledger.lock().profile(job).map(|profile| (*profile).clone()),
            Books::Remote(remote) => remote.profile(job),
        }
    }

    /// The whole of the books.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        match &self.books {
            Books::Own(ledger) => Some(ledger.lock().snapshot()),
            Books::Remote(remote) => match remote.link.ask(None, Request::Pool) {
                Ok(Reply::Pool(snapshot)) => Some(snapshot),
                _ => None,
            },
        }
    }

    pub(crate) fn waits(&self) -> Vec<Waiting> {
        match &self.books {
            Books::Own(ledger) => ledger.lock().waits(),
            Books::Remote(remote) => match remote.link.ask(None, Request::Waits) {
                Ok(Reply::Waits(waits)) => waits,
                _ => Vec::new(),
            },
        }
    }
}

/// Nobody can be asked who has what.
fn unreachable<E>() -> AllocError<E> {
    AllocError::Broker(BrokerError::Unreachable)
}

/// The reason of a refused lease, for the caller.
pub(super) fn refusal<E>(refused: Refused) -> AllocError<E> {
    match refused {
        Refused::Denied(Denied::Never(why)) => AllocError::OutOfMemory(why),
        Refused::Denied(Denied::BeyondCap(shortage, cap)) => {
            AllocError::BeyondCap { cap, shortage }
        }
        Refused::Denied(Denied::Busy(shortage)) => AllocError::Busy(shortage),
        Refused::Left => AllocError::Left,
        Refused::Broker(error) => AllocError::Broker(error),
    }
}
