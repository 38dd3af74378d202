//! Leases: asked of the broker, carried out here, settled there.

use alloc::vec::Vec;

use super::{Refused, Remote, number, refused};
use crate::broker::{Lease, Order, Reply, Request};
use crate::ledger::{Done, Place, WorkOrder};
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::error::BrokerError;
use crate::types::sync::Ordering;
use crate::types::want::Want;
use crate::types::zone::Zone;

impl<D: Device> Remote<D> {
    pub(in crate::executor) fn lease(
        &self,
        job: JobKey,
        want: &Want,
        last: bool,
    ) -> Result<WorkOrder, Refused> {
        let is_there = self.change(job, |seat| {
            let is_there = seat.use_ahead(want.zone, &want.pages);
            if !is_there {
                self.tell_given(job, seat);
            }
            is_there
        });
        if is_there == Some(true) {
            return Ok(WorkOrder::default());
        }
        let mut heard = |reply: &Reply| {
            if let Reply::Granted(order) = reply {
                self.granted(job, want, order);
            }
        };
        let request = Request::Lease(Lease::new(want, last));
        match self.link.ask_in_order(Some(JobId(job)), request, &mut heard) {
            Ok(Reply::Granted(order)) => Ok(self.order(job, order)),
            Ok(Reply::Refused(refusal)) => Err(refused(refusal)),
            Ok(_) => Err(Refused::Broker(BrokerError::Confused)),
            Err(error) => Err(Refused::Broker(error)),
        }
    }

    /// A lease has been granted, over the connection that there is. If the device has nothing to do
    /// for it, that is all.
    fn granted(&self, job: JobKey, want: &Want, order: &Order) {
        let connection = self.connection.load(Ordering::Acquire);
        self.change(job, |seat| {
            for &page in &order.ahead {
                seat.leased.insert((want.zone, page));
                seat.ahead.insert((want.zone, page));
            }
            // What another thread has been leased ahead meanwhile is this one's.
            want.pages.iter().for_each(|&page| {
                seat.ahead.remove(&(want.zone, page));
            });
            if order.map.is_empty() {
                seat.leased.extend(want.pages.iter().map(|&page| (want.zone, page)));
            } else {
                seat.granted = Some((connection, want.pages.clone()));
            }
            if self.pressure.load(Ordering::Relaxed) != 0 {
                // Somebody has come to wait meanwhile.
                seat.give_ahead();
                self.tell_given(job, seat);
            }
        });
    }

    /// A work order in the executor's words.
    fn order(&self, job: JobKey, order: Order) -> WorkOrder {
        let seats = self.jobs.lock();
        let mapped = seats.get(&job).map(|seat| &seat.mapped);
        let unmap = order.unmap.into_iter().filter_map(|(lifetime, page)| {
            let zone = Zone::from(lifetime);
            let region = *mapped?.get(&(zone, page))?;
            Some((Place { job, zone, page }, region as usize))
        });
        let map = order.map.into_iter().map(|(page, region)| (page, region as usize));
        WorkOrder::of_broker(unmap.collect(), map.collect())
    }

    /// Whether what the broker has granted is the job's: not if there is another broker since,
    /// which has not been told of it.
    pub(in crate::executor) fn settle(
        &self,
        job: JobKey,
        zone: Zone,
        order: &WorkOrder,
        done: &Done,
    ) -> bool {
        let is_known = self.change(job, |seat| {
            let now = self.connection.load(Ordering::Acquire);
            let granted = seat.granted.take().filter(|(connection, _)| *connection == now);
            let Some((_, pages)) = granted else { return false };
            for (place, _) in &order.unmap[..done.unmapped] {
                seat.mapped.remove(&(place.zone, place.page));
            }
            for &(page, region) in &order.map[..done.mapped] {
                seat.mapped.insert((zone, page), number(region));
            }
            if done.mapped == order.map.len() {
                seat.leased.extend(pages.into_iter().map(|page| (zone, page)));
            } else {
                // Those of them that had been leased ahead still are.
                let places = pages.into_iter().map(|page| (zone, page));
                let left = places.filter(|place| seat.leased.contains(place)).collect::<Vec<_>>();
                seat.ahead.extend(left);
            }
            true
        });
        if is_known != Some(true) {
            return false;
        }
        let [unmapped, mapped] = [done.unmapped, done.mapped].map(number);
        self.tell(job, Request::Settle { unmapped, mapped });
        true
    }

    /// An order that may be of a broker that is no more has not been carried out: if it is this
    /// one's, it takes the lease back.
    pub(in crate::executor) fn decline(&self, job: JobKey) {
        self.tell(job, Request::Settle { unmapped: 0, mapped: 0 });
    }
}
