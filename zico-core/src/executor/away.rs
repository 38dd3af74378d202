//! The books of what is on the host: the pool's own, or a broker's.

use alloc::vec::Vec;

use super::remote::Refused;
use super::{Books, Shared};
use crate::broker::Request;
use crate::ledger::{AT_A_TIME, WorkOrder};
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::error::{BrokerError, SuspendError};
use crate::types::zone::Zone;

impl<D: Device> Shared<D> {
    /// A job begins to go to the host: its pages, in the order of their places, which it has until
    /// they are [sent](Self::send).
    pub(super) fn set_out(&self, job: JobKey) -> Result<Vec<(Zone, u64)>, SuspendError<D::Error>> {
        if let Some(remote) = self.remote() {
            return remote.set_out(job);
        }
        self.quietly(|ledger| ledger.suspend(job)).ok_or(SuspendError::Left)??;
        let (mut pages, mut from) = (Vec::new(), Some((0, 0)));
        while let Some(next) = from {
            from = self.quietly(|ledger| ledger.leased_pages(job, next, &mut pages)).flatten();
        }
        Ok(pages)
    }

    /// The contents of these pages are on the host, or the copies of them are enqueued: they drain.
    pub(super) fn send(&self, job: JobKey, zone: Zone, pages: &[u64]) {
        let now = self.device.now();
        match &self.books {
            Books::Own(_) => {
                for some in pages.chunks(AT_A_TIME) {
                    self.ledger(|ledger| ledger.send(job, zone, some.iter().copied(), now));
                }
            }
            Books::Remote(remote) => remote.send(job, zone, pages),
        }
    }

    /// All that goes has been sent.
    pub(super) fn gone(&self, job: JobKey) {
        let now = self.device.now();
        match &self.books {
            Books::Own(_) => drop(self.ledger(|ledger| ledger.gone(job, now))),
            Books::Remote(remote) => remote.gone(job, Request::Gone),
        }
    }

    /// Nothing goes.
    pub(super) fn stay(&self, job: JobKey) {
        match &self.books {
            Books::Own(_) => drop(self.ledger(|ledger| ledger.stay(job))),
            Books::Remote(remote) => remote.gone(job, Request::Back),
        }
    }

    /// A job on the host asks to come back, or asks again. Whether it may.
    pub(super) fn ask_to_return(&self, job: JobKey) -> Result<bool, BrokerError> {
        match &self.books {
            Books::Own(_) => {
                let may = self.ledger(|ledger| ledger.ask_to_return(job));
                Ok(matches!(may, Some(Ok(true))))
            }
            Books::Remote(remote) => remote.ask_to_return(job),
        }
    }

    /// Regions for pages of a job that may come back. None if they cannot be had yet.
    pub(super) fn lease_back(
        &self,
        job: JobKey,
        zone: Zone,
        pages: &[u64],
    ) -> Result<Option<WorkOrder>, Refused> {
        match &self.books {
            Books::Own(_) => {
                let now = self.device.now();
                Ok(self.ledger(|ledger| ledger.lease_back(job, zone, pages, now)).flatten())
            }
            Books::Remote(remote) => remote.lease_back(job, zone, pages),
        }
    }

    /// All of a job is on the device again.
    pub(super) fn is_back(&self, job: JobKey) {
        let now = self.device.now();
        match &self.books {
            Books::Own(_) => drop(self.ledger(|ledger| ledger.is_back(job, now))),
            Books::Remote(remote) => remote.note(job, Request::Back),
        }
    }

    /// Pages that have come to be empty while a job was away are given back, before another of its
    /// threads can ask for them: its heap is locked.
    pub(super) fn give_back_emptied(
        &self,
        job: JobKey,
        zone: Zone,
        pages: impl Iterator<Item = u64>,
    ) {
        let mut pages = pages.peekable();
        while pages.peek().is_some() {
            let some = pages.by_ref().take(AT_A_TIME);
            match &self.books {
                Books::Own(ledger) => ledger.lock().give_back(job, zone, some),
                Books::Remote(remote) => drop(remote.give_back(job, zone, some, self.region)),
            }
        }
    }

    /// The jobs that are to be taken to the host now.
    pub(super) fn called(&self) -> Vec<JobKey> {
        match &self.books {
            Books::Own(ledger) => ledger.lock().called(),
            Books::Remote(remote) => remote.called(),
        }
    }

    /// Whether a job is one of them.
    pub(super) fn is_called(&self, job: JobKey) -> bool {
        match &self.books {
            Books::Own(ledger) => ledger.lock().is_called(job),
            Books::Remote(remote) => remote.called().contains(&job),
        }
    }

    /// One of them has gone, or has been there already.
    pub(super) fn has_given_way(&self, job: JobKey) {
        if let Some(remote) = self.remote() {
            remote.note_called(job, false);
        }
    }

    /// One of them cannot go: it is not called upon again for a while.
    pub(super) fn spare(&self, job: JobKey) {
        match &self.books {
            Books::Own(_) => {
                let now = self.device.now();
                self.ledger(|ledger| ledger.spare(job, now));
            }
            Books::Remote(remote) => {
                remote.note_called(job, false);
                remote.note(job, Request::Spare);
            }
        }
    }
}
