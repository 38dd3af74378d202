//! Pages that are given back, and the batches that they are fenced in.

use alloc::vec::Vec;

use super::Remote;
use super::seat::Seat;
use crate::broker::Request;
use crate::ledger::{AT_A_TIME, is_full};
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::sync::Ordering;
use crate::types::units::Bytes;
use crate::types::zone::Zone;

/// Pages that have been given back.
#[derive(Clone, Copy, Default)]
pub(in crate::executor) struct Given {
    /// It is time to fence the batch.
    pub(in crate::executor) is_full: bool,
    /// Others may have them before that: the broker is to hear of them at once.
    pub(in crate::executor) is_told: bool,
}

impl<D: Device> Remote<D> {
    /// Gives pages back.
    pub(in crate::executor) fn give_back(
        &self,
        job: JobKey,
        zone: Zone,
        pages: impl Iterator<Item = u64>,
        page_bytes: Bytes,
    ) -> Given {
        let pages: Vec<u64> = pages.collect();
        let is_waited_for = self.pressure.load(Ordering::Relaxed) != 0;
        let given = self.change(job, |seat| {
            seat.give(zone, &pages);
            seat.untold[zone.index()].extend(pages);
            // Told with the fence: before it nobody else can have them, unless somebody starts for
            // them.
            let is_told = is_waited_for || zone == Zone::Persistent || !seat.is_running;
            if is_told {
                self.tell_given(job, seat);
            }
            Given { is_full: is_full(seat.given, page_bytes.value()), is_told }
        });
        given.unwrap_or_default()
    }

    /// The broker hears of all that has been given back. The jobs are locked: what one thread has
    /// given back another may be about to ask for.
    pub(super) fn tell_given(&self, job: JobKey, seat: &mut Seat) {
        for (zone, pages) in Zone::ALL.into_iter().zip(core::mem::take(&mut seat.untold)) {
            for some in pages.chunks(AT_A_TIME) {
                self.tell(job, Request::GiveBack(zone.lifetime(), some.to_vec()));
            }
        }
    }

    /// Gives back what a job has been leased and has not asked for. Whether there was something.
    pub(in crate::executor) fn give_ahead(&self, job: JobKey) -> bool {
        let given = self.change_and_tell(job, |seat| {
            let is_any = !seat.ahead.is_empty();
            seat.give_ahead();
            self.tell_given(job, seat);
            is_any
        });
        given == Some(true)
    }

    /// Closes a job's open batch: its number, under which an event is to be recorded from now on.
    /// The broker is told before, so that what is given back later belongs to a later batch.
    pub(in crate::executor) fn close(&self, job: JobKey) -> Option<u64> {
        let closed = self.change(job, |seat| {
            if !seat.is_open() {
                return None;
            }
            self.tell_given(job, seat);
            if seat.given > 0 {
                seat.batch += 1;
                // Under the lock: numbers rise on their way.
                self.tell(job, Request::Fence(seat.batch));
            }
            (seat.given, seat.is_owed) = (0, false);
            Some(seat.batch)
        });
        let batch = closed.flatten()?;
        self.flush_for(job);
        Some(batch)
    }

    /// No event could be recorded for the last batch: that is tried again.
    pub(in crate::executor) fn owe(&self, job: JobKey) {
        self.change(job, |seat| seat.is_owed = true);
    }

    /// The device has completed a batch and all before it. That is the last of it, always.
    pub(in crate::executor) fn completed(&self, job: JobKey, batch: u64) -> Option<bool> {
        self.change(job, |seat| seat.draining.retain(|&(of, _, _)| of > batch));
        self.tell(job, Request::Completed(batch));
        self.flush_for(job);
        Some(true)
    }

    /// The jobs whose open batch is to be fenced now.
    pub(in crate::executor) fn due(&self, page_bytes: Bytes) -> Vec<JobKey> {
        let pressure = self.pressure.load(Ordering::Relaxed) != 0;
        let is_due = |seat: &Seat| {
            let full = is_full(seat.given, page_bytes.value());
            seat.is_open() && (pressure || !seat.is_running || seat.is_owed || full)
        };
        let seats = self.jobs.lock();
        seats.iter().filter(|(_, seat)| is_due(seat)).map(|(&job, _)| job).collect()
    }
}
