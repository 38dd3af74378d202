//! Leases: asked of the broker, carried out here, settled there.

use super::{Refused, Remote, number, refused};
use crate::broker::{Lease, Order, Reply, Request};
use crate::ledger::{Done, Place, WorkOrder};
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
        let missing = self.change(job, |seat| {
            let missing = seat.ask(want.zone, &want.pages);
            if !missing.is_empty() {
                self.tell_given(job, seat);
            }
            missing
        });
        let missing = missing.ok_or(Refused::Left)?;
        if missing.is_empty() {
            return Ok(WorkOrder::default());
        }
        let mut lease = Lease::new(want, last);
        lease.pages = missing;
        let mut heard = |reply: &Reply| {
            if let Reply::Granted(order) = reply {
                self.granted(job, want, order);
            }
        };
        let refusal = match self.ask_in_order(job, Request::Lease(lease), &mut heard) {
            Ok(Reply::Granted(order)) => return Ok(self.order(job, order)),
            Ok(Reply::Refused(refusal)) => refused(refusal),
            Ok(_) => Refused::Broker(BrokerError::Confused),
            Err(error) => Refused::Broker(error),
        };
        self.change(job, |seat| seat.refused(want.zone, &want.pages));
        Err(refusal)
    }

    /// A lease has been granted, over the connection that there is. If the device has nothing to do
    /// for it, that is all.
    fn granted(&self, job: JobKey, want: &Want, order: &Order) {
        let connection = self.connection.load(Ordering::Acquire);
        self.change(job, |seat| {
            seat.has_leased_ahead(want.zone, &order.ahead);
            if order.map.is_empty() {
                seat.has_leased(want.zone, &want.pages);
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
    pub(super) fn order(&self, job: JobKey, order: Order) -> WorkOrder {
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
            let Some((connection, pages)) = seat.granted.take() else { return false };
            if connection != now {
                seat.refused(zone, &pages);
                return false;
            }
            for (place, _) in &order.unmap[..done.unmapped] {
                seat.mapped.remove(&(place.zone, place.page));
            }
            for &(page, region) in &order.map[..done.mapped] {
                seat.mapped.insert((zone, page), number(region));
            }
            if done.mapped == order.map.len() {
                seat.has_leased(zone, &pages);
            } else {
                seat.refused(zone, &pages);
            }
            true
        });
        if is_known != Some(true) {
            return false;
        }
        let [unmapped, mapped] = [done.unmapped, done.mapped].map(number);
        self.tell(job, Request::Settle { unmapped, mapped });
        self.flush_for(job);
        true
    }

    /// An order that may be of a broker that is no more has not been carried out: if it is this
    /// one's, it takes the lease back.
    pub(in crate::executor) fn decline(&self, job: JobKey) {
        self.note(job, Request::Settle { unmapped: 0, mapped: 0 });
    }
}
