//! Takes a job's memory to the host and brings it back, region by region.
//!
//! Suspending gives up pages, with copies enqueued before the fences; resuming leases them again,
//! with copies after. Both go some MiB at a time: one job comes while another goes. The heap is
//! left as it is meanwhile: nothing is placed in it. The thread that moves a job counts as one that
//! leases: if another one makes the job leave meanwhile, the mover does the rest.

use alloc::vec::Vec;

use super::Shared;
use super::books::refusal;
use super::handles::HostCopy;
use super::remote::Remote;
use crate::heap::JobHeap;
use crate::heap::away::Choices;
use crate::types::JobKey;
use crate::types::device::{Class, Device, DeviceError, Host};
use crate::types::error::{AllocError, BrokerError, ResumeError, SuspendError};
use crate::types::report::{OnSuspend, Resume};
use crate::types::sync::Mutex;
use crate::types::tuning::COPIED_AT_A_TIME;
use crate::types::units::Bytes;
use crate::types::zone::Zone;

/// What a job takes to the host.
struct Going<S> {
    /// In the order of their places.
    pages: Vec<(Zone, u64)>,
    /// Other streams that use them.
    streams: Vec<S>,
}

/// What becomes of an iteration that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Iteration {
    /// It goes on, and its job stays.
    GoesOn,
    /// It is interrupted, if the books say so.
    MayBeInterrupted,
}

/// Copies to the host that are enqueued.
struct Copies<D: Device> {
    made: Vec<HostCopy>,
    /// Events after so many of them.
    events: Vec<(usize, D::Event)>,
}

impl<D: Device> Shared<D> {
    /// Takes what a job has to the host, but for what is to stay. How much that is.
    pub(crate) fn suspend(
        &self,
        job: JobKey,
        stream: D::Stream,
        heap: &Mutex<JobHeap<D>>,
        choices: &Choices,
        iteration: Iteration,
    ) -> Result<Bytes, SuspendError<D::Error>> {
        let tier = self.device.host().ok_or(SuspendError::Unsupported)?;
        let Going { pages, streams } = self.set_off(job, heap, iteration)?;
        let becomes = heap.lock().on_suspend(&pages, choices);
        let mut going: Vec<_> = pages.into_iter().zip(becomes).collect();
        going.retain(|&(_, becomes)| becomes != OnSuspend::Keep);
        let mut copies = Copies { made: Vec::new(), events: Vec::new() };
        let mut result = Ok(());
        if !going.is_empty() {
            result = self.order_after(stream, streams);
            result = result.and_then(|()| self.copy_out(job, stream, tier, &going, &mut copies));
        }
        let is_gone = result.is_ok() && !going.is_empty();
        if is_gone {
            self.send_copied(job, copies);
        } else {
            self.stay(job);
            self.host_is_used(stream, copies.made);
        }
        if !self.moved(job, heap, !is_gone) {
            return Err(SuspendError::Left);
        }
        result.map_err(SuspendError::Device)?;
        Ok(self.length(going.len()))
    }

    /// All copies are enqueued: the pages drain, a batch for each event, so that others have the
    /// first of them while the last are still copied.
    fn send_copied(&self, job: JobKey, copies: Copies<D>) {
        let Copies { mut made, events } = copies;
        let mut sent = 0;
        for (until, event) in events {
            self.send_some(job, made.drain(..until - sent).collect());
            // No event has to be recorded, so nothing fails.
            let _ = self.fence_by(job, Some(event));
            sent = until;
        }
        self.send_some(job, made);
        self.gone(job);
        // A failure leaves the batch open, which the next poll fences.
        let _ = self.fence(job);
    }

    fn send_some(&self, job: JobKey, copies: Vec<HostCopy>) {
        for copy in &copies {
            let pages: Vec<u64> = copy.pages.clone().collect();
            self.send(job, copy.zone, &pages);
        }
        self.handles.lock().put_copies(job, copies);
    }

    /// Takes those to the host that are to give way. One that cannot go is not tried again for a
    /// while, and others wait for it no longer; one that another thread is at is looked at again.
    /// `by` is the job that makes the call, if one does: one that is cooperative goes in its own only.
    pub(crate) fn preempt(&self, by: Option<JobKey>) {
        for job in self.called() {
            let heap = self.handles.lock().heap(job);
            let Some((stream, heap)) = heap else {
                self.has_given_way(job);
                continue;
            };
            if by != Some(job) && heap.lock().is_cooperative {
                continue;
            }
            self.take_out(job, stream, &heap, Iteration::GoesOn);
        }
    }

    /// Takes a job to the host whose iteration is to be interrupted, within a call of its own.
    pub(crate) fn give_way(&self, job: JobKey, stream: D::Stream, heap: &Mutex<JobHeap<D>>) {
        if self.is_called(job) {
            self.take_out(job, stream, heap, Iteration::MayBeInterrupted);
        }
    }

    fn take_out(
        &self,
        job: JobKey,
        stream: D::Stream,
        heap: &Mutex<JobHeap<D>>,
        iteration: Iteration,
    ) {
        self.unpark(job, stream, heap, true);
        match self.suspend(job, stream, heap, &Choices::default(), iteration) {
            Ok(_) | Err(SuspendError::Suspended) => self.has_given_way(job),
            // It is tried again. Another thread may be about to leave an iteration that has ended in
            // the books.
            Err(SuspendError::Busy | SuspendError::InIteration | SuspendError::Broker(_)) => {}
            Err(SuspendError::Device(error)) if error.class() == Class::Transient => {}
            Err(_) => self.spare(job),
        }
    }

    /// From here on nothing is placed in the job's heap. Its pages, and the other streams that use
    /// them.
    fn set_off(
        &self,
        job: JobKey,
        heap: &Mutex<JobHeap<D>>,
        iteration: Iteration,
    ) -> Result<Going<D::Stream>, SuspendError<D::Error>> {
        let mut locked = heap.lock();
        match () {
            () if locked.closed => return Err(SuspendError::Left),
            () if locked.is_away() => return Err(SuspendError::Suspended),
            () if locked.is_inside() && iteration == Iteration::GoesOn => {
                return Err(SuspendError::InIteration);
            }
            () if locked.growing => {
                locked.awaited = true;
                return Err(SuspendError::Busy);
            }
            () => {}
        }
        locked.go_away();
        locked.growing = true;
        let streams = locked.streams();
        // A broker is asked while the lock is not held: other threads go on freeing.
        let locked = self.remote().is_none().then_some(locked);
        let pages = self.set_out(job);
        drop(locked);
        match pages {
            Ok(pages) => Ok(Going { pages, streams }),
            Err(_) if !self.moved(job, heap, true) => Err(SuspendError::Left),
            Err(why) => Err(why),
        }
    }

    /// What is enqueued on a stream from now on comes after what others have enqueued so far.
    fn order_after(&self, stream: D::Stream, others: Vec<D::Stream>) -> Result<(), D::Error> {
        others.into_iter().try_for_each(|other| {
            let event = self.device.record(other)?;
            self.device.order_after(stream, &event)
        })
    }

    /// Enqueues the copies of pages to the host, but for those of which nothing is needed.
    fn copy_out(
        &self,
        job: JobKey,
        stream: D::Stream,
        tier: Host<'_, D>,
        going: &[((Zone, u64), OnSuspend)],
        copies: &mut Copies<D>,
    ) -> Result<(), D::Error> {
        let most = usize::try_from(COPIED_AT_A_TIME.value() / self.region.value().max(1));
        let most = most.unwrap_or(usize::MAX).max(1);
        let runs =
            going.chunk_by(|&((zone, page), becomes), &next| next == ((zone, page + 1), becomes));
        let mut since_event = 0;
        for run in runs.flat_map(|run| run.chunks(most)) {
            let ((zone, first), becomes) = run[0];
            let pages = first..first + run.len() as u64;
            let mut memory = None;
            if becomes != OnSuspend::Discard {
                let Some(range) = self.handles.lock().range(job, zone) else { continue };
                let new = self.host_memory(tier, self.length(run.len()))?;
                let copied = tier.copy_out(stream, &range, self.offset(first), &new);
                memory = Some(new);
                if let Err(error) = copied {
                    copies.made.push(HostCopy { zone, pages, memory });
                    return Err(error);
                }
            }
            copies.made.push(HostCopy { zone, pages, memory });
            since_event += run.len();
            if since_event >= most {
                // Without one they drain with those after them.
                let event = self.device.record(stream).ok();
                copies.events.extend(event.map(|event| (copies.made.len(), event)));
                since_event = 0;
            }
        }
        Ok(())
    }

    /// Brings all back that a job has on the host, as soon as there is room for it.
    pub(crate) fn resume(
        &self,
        job: JobKey,
        stream: D::Stream,
        heap: &Mutex<JobHeap<D>>,
    ) -> Result<Resume, ResumeError<D::Error>> {
        {
            let mut locked = heap.lock();
            match () {
                () if locked.closed => return Err(ResumeError::Left),
                () if !locked.is_away() => return Ok(Resume::Done),
                () if locked.growing => {
                    locked.awaited = true;
                    return Ok(Resume::Wait);
                }
                () => locked.growing = true,
            }
        }
        let mut used = Vec::new();
        let result = self.bring_back(job, stream, &mut used);
        self.host_is_used(stream, used);
        if !self.moved(job, heap, matches!(result, Ok(Resume::Done))) {
            return Err(ResumeError::Left);
        }
        if matches!(result, Ok(Resume::Wait)) {
            self.preempt(Some(job));
        }
        result
    }

    fn bring_back(
        &self,
        job: JobKey,
        stream: D::Stream,
        used: &mut Vec<HostCopy>,
    ) -> Result<Resume, ResumeError<D::Error>> {
        if !self.ask_to_return(job).map_err(ResumeError::Broker)? {
            return Ok(Resume::Wait);
        }
        self.reap(job).map_err(ResumeError::Device)?;
        let mut tried = false;
        while let Some(copy) = { self.handles.lock().take_copy(job) } {
            let back = self.copy_in(job, stream, &copy);
            if matches!(back, Ok(true)) {
                used.push(copy);
                continue;
            }
            self.handles.lock().put_copies(job, [copy]);
            if back? || tried {
                return Ok(Resume::Wait);
            }
            // What others have given up may be free by now.
            tried = true;
            let _ = self.reclaim(Some(job));
        }
        self.is_back(job);
        Ok(Resume::Done)
    }

    /// Leases the pages of a copy again and enqueues the copy to them. Not if there are no regions
    /// for them yet.
    fn copy_in(
        &self,
        job: JobKey,
        stream: D::Stream,
        copy: &HostCopy,
    ) -> Result<bool, ResumeError<D::Error>> {
        let HostCopy { zone, ref pages, ref memory } = *copy;
        let pages: Vec<u64> = pages.clone().collect();
        let order = self.lease_back(job, zone, &pages).map_err(|why| stays(refusal(why)))?;
        let (Some(order), Some(tier)) = (order, self.device.host()) else { return Ok(false) };
        if !order.is_empty() && !self.carry_out(job, zone, &order).map_err(stays)? {
            return Ok(false);
        }
        let range = self.handles.lock().range(job, zone);
        let copied = match (range, memory) {
            (Some(range), Some(memory)) => {
                tier.copy_in(stream, &range, self.offset(copy.pages.start), memory)
            }
            _ => Ok(()),
        };
        if copied.is_err() {
            self.send(job, zone, &pages);
        }
        copied.map(|()| true).map_err(ResumeError::Device)
    }

    /// A move of a job is over, and it is `here` again or not. Whether it has not been made to
    /// leave meanwhile.
    fn moved(&self, job: JobKey, heap: &Mutex<JobHeap<D>>, here: bool) -> bool {
        let mut locked = heap.lock();
        locked.growing = false;
        let awaited = core::mem::take(&mut locked.awaited);
        let closed = locked.closed;
        let emptied = if here && !closed { locked.return_from_away() } else { Vec::new() };
        // Before another thread of the job can ask for these very pages.
        for (zone, pages) in &emptied {
            self.give_back_emptied(job, *zone, pages.clone());
        }
        drop(locked);
        self.remote().into_iter().for_each(Remote::flush);
        for (zone, _) in emptied {
            let now = self.device.now();
            self.ledger(|ledger| ledger.note_given(job, zone, now));
        }
        if closed {
            self.finish_leaving(job, heap);
        }
        if awaited {
            self.changed();
        }
        !closed
    }
}

/// Why pages of a job on the host have not been backed.
fn stays<E>(why: AllocError<E>) -> ResumeError<E> {
    match why {
        AllocError::Device(error) => ResumeError::Device(error),
        AllocError::Broker(error) => ResumeError::Broker(error),
        AllocError::Left => ResumeError::Left,
        // Nothing else can be the matter with pages that have been granted.
        _ => ResumeError::Broker(BrokerError::Confused),
    }
}
