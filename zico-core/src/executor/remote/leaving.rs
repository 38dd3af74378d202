//! Jobs that have left, and memory that the broker wants to go.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Remote;
use crate::broker::Request;
use crate::ledger::Place;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::sync::Ordering;
use crate::types::zone::Zone;

impl<D: Device> Remote<D> {
    /// A job leaves. Whether it had not left before.
    pub(in crate::executor) fn leave(&self, job: JobKey) -> bool {
        let leaves = self.change(job, |seat| {
            seat.ahead.clear();
            self.tell_given(job, seat);
            // All of it is fenced once more.
            seat.give_all();
            seat.given += 1;
            seat.is_running = false;
            !core::mem::replace(&mut seat.has_left, true)
        });
        if leaves == Some(true) {
            self.note(job, Request::Leave);
        }
        leaves == Some(true)
    }

    /// The jobs that have left and whose batches are all fenced.
    pub(in crate::executor) fn leaving(&self) -> Vec<JobKey> {
        let seats = self.jobs.lock();
        let leaving = seats.iter().filter(|(_, seat)| seat.has_left && !seat.is_open());
        leaving.map(|(&job, _)| job).collect()
    }

    /// Whether this thread is to clear up after a job that has left, and no other does.
    pub(in crate::executor) fn clears_up(&self, job: JobKey) -> bool {
        self.change(job, |seat| !core::mem::replace(&mut seat.is_cleared_up, true)) == Some(true)
    }

    /// It could not be done now.
    pub(in crate::executor) fn clear_up_later(&self, job: JobKey) {
        self.change(job, |seat| seat.is_cleared_up = false);
    }

    /// What a job has mapped, by arena and page.
    pub(in crate::executor) fn mapped(&self, job: JobKey) -> Vec<(Place, usize)> {
        let seats = self.jobs.lock();
        let mapped = seats.get(&job).map(|seat| &seat.mapped).into_iter().flatten();
        let place = |(&(zone, page), &region): (&(Zone, u64), &u32)| {
            (Place { job, zone, page }, region as usize)
        };
        mapped.map(place).collect()
    }

    /// Where a region is mapped, in all jobs.
    pub(in crate::executor) fn places_of(&self, region: u32) -> Vec<(Place, usize)> {
        let jobs = self.jobs();
        let all = jobs.into_iter().flat_map(|job| self.mapped(job));
        all.filter(|&(_, mapped)| mapped == region as usize).collect()
    }

    /// These are mapped no more.
    pub(in crate::executor) fn unmapped(&self, gone: &[(Place, usize)]) {
        for (place, _) in gone {
            self.change(place.job, |seat| seat.mapped.remove(&(place.zone, place.page)));
        }
    }

    /// A job that has left has nothing mapped any more.
    pub(in crate::executor) fn departed(&self, job: JobKey) {
        self.jobs.lock().remove(&job);
        self.note(job, Request::Departed);
    }

    /// The broker wants the memory of a region to go.
    pub(in crate::executor) fn note_release(&self, region: u32) {
        self.release.lock().insert(region);
    }

    /// Whether this thread is the one that gives up regions, until it [ends](Self::ends_release):
    /// another one would unmap what is unmapped already, or a region that has come back under the
    /// same number. Nor is there another connection meanwhile.
    pub(in crate::executor) fn begins_release(&self) -> bool {
        self.is_releasing.swap(1, Ordering::AcqRel) == 0
    }

    pub(in crate::executor) fn ends_release(&self) {
        self.is_releasing.store(0, Ordering::Release);
    }

    /// The regions whose memory is to go, for the caller to give up.
    pub(in crate::executor) fn take_releases(&self) -> BTreeSet<u32> {
        core::mem::take(&mut *self.release.lock())
    }

    /// The memory of a region has gone from this process.
    pub(in crate::executor) fn released(&self, region: u32) {
        self.link.tell(None, Request::Released(region));
        self.flush();
    }
}
