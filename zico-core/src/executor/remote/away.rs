//! A job's way to the host and back, where the books are at a broker.

use alloc::vec::Vec;

use super::seat::Seat;
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
    /// A job begins to go to the host. The pages that it has leased, until they are
    /// [sent](Self::send).
    pub(in crate::executor) fn set_out(
        &self,
        job: JobKey,
    ) -> Result<Vec<(Zone, u64)>, SuspendError<D::Error>> {
        let is_there = self.change(job, |seat| {
            seat.give_ahead();
            self.tell_given(job, seat);
        });
        if is_there.is_none() {
            return Err(SuspendError::Left);
        }
        let mut leased = Vec::new();
        let mut heard = |reply: &Reply| {
            if let Reply::Suspended(Ok(())) = reply {
                let goes = |seat: &mut Seat| {
                    seat.goes_to_host = true;
                    seat.leased.iter().copied().collect()
                };
                leased = self.change(job, goes).unwrap_or_default();
            }
        };
        match self.link.ask_in_order(Some(JobId(job)), Request::Suspend, &mut heard) {
            Ok(Reply::Suspended(Ok(()))) => Ok(leased),
            Ok(Reply::Suspended(Err(why))) => Err(why.into()),
            Ok(_) => Err(SuspendError::Broker(BrokerError::Confused)),
            Err(error) => Err(SuspendError::Broker(error)),
        }
    }

    /// The contents of these pages are on the host, or the copies of them are enqueued.
    pub(in crate::executor) fn send(&self, job: JobKey, zone: Zone, pages: &[u64]) {
        self.change_and_tell(job, |seat| {
            seat.give(zone, pages);
            seat.away.extend(pages.iter().map(|&page| (zone, page)));
            for some in pages.chunks(AT_A_TIME) {
                self.tell(job, Request::Send(zone.lifetime(), some.to_vec()));
            }
        });
    }

    /// All that goes has been sent, or nothing goes: the broker is told which.
    pub(in crate::executor) fn gone(&self, job: JobKey, told: Request) {
        self.change_and_tell(job, |seat| {
            seat.goes_to_host = false;
            self.tell(job, told);
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
