//! Ends iterations.

use super::{Books, Shared};
use crate::heap::JobHeap;
use crate::heap::ending::Ending;
use crate::heap::planned::{Layout, PlanTask};
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::error::NotRunning;
use crate::types::lifetime::Lifetime;
use crate::types::sync::Mutex;
use crate::types::tuning::PATIENCE;
use crate::types::units::Ticks;
use crate::types::zone::Zone;

impl<D: Device> Shared<D> {
    /// Ends a job's iteration: gives back what only that has used, and plans those that come. The
    /// next one may be about to begin.
    pub(crate) fn end_iteration(
        &self,
        job: JobKey,
        stream: D::Stream,
        heap: &Mutex<JobHeap<D>>,
        is_followed: bool,
    ) -> Result<(), NotRunning> {
        self.unpark(job, stream, heap, true);
        // A failure leaves the batch open; the next poll fences it.
        let _ = self.fence(job);
        let signature = heap.lock().signature;
        let ended = self.end(job, signature, is_followed);
        let mut locked = heap.lock();
        locked.ending = Ending::No;
        if ended.is_err() {
            drop(locked);
            // A thread that would begin the next one may wait for this.
            self.changed();
            return ended;
        }
        let (task, spare) = (locked.end(), locked.give_up_spare(Lifetime::Iteration));
        self.give_back(job, locked, Zone::Iteration, spare);
        // What another thread has freed meanwhile is not left parked between iterations.
        self.unpark(job, stream, heap, true);
        self.changed();
        if let Some(task) = task {
            self.plan(job, heap, task);
        }
        Ok(())
    }

    /// Plans the iterations that are like one that has ended.
    fn plan(&self, job: JobKey, heap: &Mutex<JobHeap<D>>, task: PlanTask) {
        // What cannot be planned is placed as before.
        let Ok(mut layout) = task.plan(self.region.value()) else { return };
        let may_be = |layout: &Layout, shared| self.replan(job, &layout.most(shared));
        let is_accepted = may_be(&layout, 0) || may_be(&layout, 1) || {
            layout.leave_alone();
            may_be(&layout, 0)
        };
        if is_accepted {
            heap.lock().install(layout);
        }
    }

    /// Ends the iteration that is over when the next one begins, if there is one, since that is
    /// about to begin or for another reason. Not while another thread is at it.
    pub(crate) fn end_if_over(
        &self,
        job: JobKey,
        stream: D::Stream,
        heap: &Mutex<JobHeap<D>>,
        is_followed: bool,
    ) -> bool {
        let ending = heap.lock().ending.take();
        if matches!(ending, Ending::WithNext { .. }) {
            // It fails only if the job has left.
            let _ = self.end_iteration(job, stream, heap, is_followed);
        }
        ending != Ending::Now
    }

    /// A job is about to begin: its last iteration ends, if that is over, and what the device has
    /// passed of it is free. Not while another thread is at it.
    pub(crate) fn comes_to_begin(
        &self,
        job: JobKey,
        stream: D::Stream,
        heap: &Mutex<JobHeap<D>>,
    ) -> bool {
        let has_ended = self.end_if_over(job, stream, heap, true);
        // What cannot be looked at now is free later.
        let _ = self.reap(job);
        has_ended
    }

    /// Ends those that are over of jobs that have done nothing for as long as others have patience.
    pub(super) fn end_overdue(&self) {
        let heaps = self.handles.lock().heaps();
        let (now, patience) = (self.device.now(), self.patience());
        for (job, stream, heap) in heaps {
            if heap.lock().is_overdue(now, patience) {
                self.end_if_over(job, stream, &heap, false);
            }
        }
    }

    fn patience(&self) -> Ticks {
        match &self.books {
            Books::Own(ledger) => ledger.lock().patience(),
            Books::Remote(_) => PATIENCE,
        }
    }
}
