//! Gives back what arenas have emptied, fences it, and finds out what the device has completed.

use alloc::vec::Vec;
use core::ops::DerefMut;

use super::remote::Remote;
use super::{Books, Shared};
use crate::heap::JobHeap;
use crate::ledger::AT_A_TIME;
use crate::types::JobKey;
use crate::types::device::{Class, Device, DeviceError, Passed};
use crate::types::zone::Zone;

impl<D: Device> Shared<D> {
    /// Gives back pages that an arena has emptied: in the books before the heap's lock is let go,
    /// so that no other thread of the job can ask for these very pages before they are. Of very
    /// many some at a time, so that other jobs do not wait for all of them.
    #[inline]
    pub(crate) fn give_back(
        &self,
        job: JobKey,
        heap: impl DerefMut<Target = JobHeap<D>>,
        zone: Zone,
        pages: impl IntoIterator<Item = u64>,
    ) {
        let mut pages = pages.into_iter().peekable();
        if pages.peek().is_none() {
            return;
        }
        let is_full = match &self.books {
            Books::Own(ledger) => {
                while pages.peek().is_some() {
                    ledger.lock().give_back(job, zone, pages.by_ref().take(AT_A_TIME));
                }
                drop(heap);
                let now = self.device.now();
                self.ledger(|ledger| ledger.note_given(job, zone, now)) == Some(true)
            }
            Books::Remote(remote) => {
                let given = remote.give_back(job, zone, pages, self.region);
                drop(heap);
                if given.is_told {
                    remote.flush();
                }
                given.is_full
            }
        };
        if is_full {
            // A failure leaves them in the open batch, which the next poll fences.
            let _ = self.fence(job);
        }
    }

    /// Fences a job's open batch.
    pub(crate) fn fence(&self, job: JobKey) -> Result<(), D::Error> {
        self.fence_by(job, None)
    }

    /// The same by an event that has been recorded after all work that uses what is in it; else one
    /// is recorded.
    pub(super) fn fence_by(&self, job: JobKey, event: Option<D::Event>) -> Result<(), D::Error> {
        if let Some(remote) = self.remote() {
            return self.fence_remote(job, remote, event);
        }
        let closed = self.quietly(|ledger| ledger.close_batch(job)).flatten();
        let Some(batch) = closed else { return Ok(()) };
        match self.recorded(job, event) {
            Ok(event) => {
                if let Some(event) = event {
                    self.handles.lock().put_event(job, batch.number, event);
                }
                self.ledger(|ledger| ledger.fenced(job, batch));
                Ok(())
            }
            Err(error) => {
                self.ledger(|ledger| ledger.reopen(job, batch));
                Err(error)
            }
        }
    }

    /// The same where the broker counts the batches: it knows of this one before the event is
    /// recorded.
    fn fence_remote(
        &self,
        job: JobKey,
        remote: &Remote<D>,
        event: Option<D::Event>,
    ) -> Result<(), D::Error> {
        let Some(batch) = remote.close(job) else { return Ok(()) };
        match self.recorded(job, event) {
            Ok(Some(event)) => self.handles.lock().put_event(job, batch, event),
            Ok(None) => {}
            Err(error) => {
                remote.owe(job);
                return Err(error);
            }
        }
        Ok(())
    }

    /// An event after all work that uses what a job has given up so far: this one, if there is one.
    fn recorded(&self, job: JobKey, event: Option<D::Event>) -> Result<Option<D::Event>, D::Error> {
        if event.is_some() {
            return Ok(event);
        }
        let streams = self.handles.lock().streams(job);
        let Some((stream, joins)) = streams else { return Ok(None) };
        for other in joins {
            let event = self.device.record(other)?;
            self.device.order_after(stream, &event)?;
        }
        self.device.record(stream).map(Some)
    }

    /// Fences the open batches that are due, frees all that the device has completed, and clears up
    /// after the jobs that have left. All is tried. What the device refuses of one job is no matter
    /// of the others, and is tried again the next time: the error is the first that is of `own`, of
    /// what is nobody's, or of a device that is lost.
    pub(crate) fn reclaim(&self, own: Option<JobKey>) -> Result<(), D::Error> {
        let mut result = Ok(());
        let mut first = |job: Option<JobKey>, done: Result<(), D::Error>| {
            let matters =
                |error: &D::Error| job.is_none() || job == own || error.class() == Class::Lost;
            if result.is_ok() && done.as_ref().is_err_and(matters) {
                result = done;
            }
        };
        self.end_overdue();
        self.unpark_at_rest();
        self.due().into_iter().for_each(|job| first(Some(job), self.fence(job)));
        self.jobs().into_iter().for_each(|job| first(Some(job), self.reap(job)));
        first(None, self.free_used_host());
        if let Some(remote) = self.remote() {
            first(None, self.clear_up_left(remote));
            self.preempt(own);
            return result;
        }
        first(None, self.clear_up());
        let now = self.device.now();
        let shrinking = self.ledger(|ledger| {
            ledger.look(now);
            ledger.is_shrinking()
        });
        if shrinking == Some(true) {
            first(None, self.shrink());
        }
        self.preempt(own);
        result
    }

    /// The jobs whose open batch is to be fenced now.
    fn due(&self) -> Vec<JobKey> {
        match &self.books {
            Books::Own(ledger) => ledger.lock().due(),
            Books::Remote(remote) => remote.due(self.region),
        }
    }

    /// The jobs that are there, those included that have left and whose memory drains.
    fn jobs(&self) -> Vec<JobKey> {
        match &self.books {
            Books::Own(ledger) => ledger.lock().jobs(),
            Books::Remote(remote) => remote.jobs(),
        }
    }

    /// Frees what a job has given up and the device has completed. Without the ledger's lock as
    /// long as there is nothing new.
    pub(super) fn reap(&self, job: JobKey) -> Result<(), D::Error> {
        loop {
            let oldest = self.handles.lock().oldest_event(job);
            let Some((batch, event)) = oldest else { return Ok(()) };
            if self.device.query(&event)? == Passed::NotYet {
                return Ok(());
            }
            let now = self.device.now();
            let completed = match &self.books {
                Books::Own(_) => self.ledger(|ledger| ledger.completed(job, batch, now)).flatten(),
                Books::Remote(remote) => remote.completed(job, batch),
            };
            match completed {
                // The event goes after the locks have been let go: it is the device's.
                Some(true) => {
                    let event = self.handles.lock().take_event(job, batch);
                    drop(event);
                }
                Some(false) => {}
                // Another thread was faster, or has yet to book the fence.
                None => return Ok(()),
            }
        }
    }
}
