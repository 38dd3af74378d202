//! A job's way to the host and back, where the books are at a broker.

use alloc::vec::Vec;

use super::seat::{Seat, by_zone};
use super::{Refused, Remote, refused};
use crate::broker::{Order, Reply, Request};
use crate::ledger::{AT_A_TIME, WorkOrder};
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::error::{BrokerError, SuspendError};
use crate::types::sync::Ordering;
use crate::types::zone::Zone;

impl<D: Device> Remote<D> {
    /// A job begins to go to the host, with all that it has leased. Which pages.
    pub(in crate::executor) fn set_out(
        &self,
        job: JobKey,
    ) -> Result<Vec<(Zone, u64)>, SuspendError<D::Error>> {
        // Nothing is fenced from here on: the copies come before the fence.
        let is_there = self.change(job, |seat| {
            seat.give_ahead();
            self.tell_given(job, seat);
            seat.is_leaving_for_host = true;
        });
        if is_there.is_none() {
            return Err(SuspendError::Left);
        }
        let mut sent = Vec::new();
        let mut heard = |reply: &Reply| {
            if let Reply::Suspended(Ok(())) = reply {
                sent = self.change(job, Seat::send_all).unwrap_or_default();
            }
        };
        let asked = self.link.ask_in_order(Some(JobId(job)), Request::Suspend, &mut heard);
        let why = match asked {
            Ok(Reply::Suspended(Ok(()))) => return Ok(sent),
            Ok(Reply::Suspended(Err(why))) => why.into(),
            Ok(_) => SuspendError::Broker(BrokerError::Confused),
            Err(error) => SuspendError::Broker(error),
        };
        self.change(job, |seat| seat.is_leaving_for_host = false);
        Err(why)
    }

    /// The copies have been enqueued.
    pub(in crate::executor) fn gone(&self, job: JobKey) {
        self.change_and_tell(job, |seat| {
            seat.is_leaving_for_host = false;
            self.tell(job, Request::Gone);
        });
    }

    /// These pages do not go.
    pub(in crate::executor) fn keep(&self, job: JobKey, pages: &[(Zone, u64)]) {
        self.change_and_tell(job, |seat| self.tell_kept(job, seat, pages));
    }

    fn tell_kept(&self, job: JobKey, seat: &mut Seat, pages: &[(Zone, u64)]) {
        seat.keep(pages);
        for (zone, pages) in by_zone(pages) {
            for some in pages.chunks(AT_A_TIME) {
                self.tell(job, Request::Stay(zone.lifetime(), some.to_vec()));
            }
        }
    }

    /// The copies could not be enqueued: the rest does not go either.
    pub(in crate::executor) fn stay(&self, job: JobKey, pages: &[(Zone, u64)]) {
        self.change_and_tell(job, |seat| {
            self.tell_kept(job, seat, pages);
            seat.is_leaving_for_host = false;
            self.tell(job, Request::Back);
        });
    }

    pub(in crate::executor) fn ask_to_return(&self, job: JobKey) -> Result<bool, BrokerError> {
        Ok(matches!(self.ask(job, Request::Return)?, Reply::Whether(true)))
    }

    /// Regions for pages that come back. None if there are none yet.
    pub(in crate::executor) fn lease_back(
        &self,
        job: JobKey,
        zone: Zone,
        pages: &[u64],
    ) -> Result<Option<WorkOrder>, Refused> {
        let mut heard = |reply: &Reply| {
            if let Reply::Granted(order) = reply {
                self.granted_back(job, zone, pages, order);
            }
        };
        let request = Request::LeaseBack(zone.lifetime(), pages.to_vec());
        match self.link.ask_in_order(Some(JobId(job)), request, &mut heard) {
            Ok(Reply::Granted(order)) => Ok(Some(self.order(job, order))),
            Ok(Reply::Whether(_)) => Ok(None),
            Ok(Reply::Refused(why)) => Err(refused(why)),
            Ok(_) => Err(Refused::Broker(BrokerError::Confused)),
            Err(error) => Err(Refused::Broker(error)),
        }
    }

    fn granted_back(&self, job: JobKey, zone: Zone, pages: &[u64], order: &Order) {
        let connection = self.connection.load(Ordering::Acquire);
        self.change(job, |seat| {
            if order.map.is_empty() {
                seat.has_leased(zone, pages);
            } else {
                seat.granted = Some((connection, pages.to_vec()));
            }
        });
    }

    /// The contents of these pages could not be brought back.
    pub(in crate::executor) fn send_again(&self, job: JobKey, zone: Zone, pages: &[u64]) {
        self.change_and_tell(job, |seat| {
            seat.give(zone, pages);
            seat.away.extend(pages.iter().map(|&page| (zone, page)));
            self.tell(job, Request::SendAgain(zone.lifetime(), pages.to_vec()));
        });
    }

    /// A job is to give way, or no longer.
    pub(in crate::executor) fn note_called(&self, job: JobKey, gives_way: bool) {
        let mut called = self.called.lock();
        if gives_way {
            called.insert(job)
        } else {
            called.remove(&job)
        };
    }

    /// Those that are to give way.
    pub(in crate::executor) fn called(&self) -> Vec<JobKey> {
        self.called.lock().iter().copied().collect()
    }
}
