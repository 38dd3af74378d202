//! Leases: granted with the ledger, ahead of what is asked for too, and settled when the client's
//! device has done its part.

use alloc::vec::Vec;

use super::clients::Client;
use super::message::{Lease, Order, Refusal, Reply};
use super::revoke::number;
use super::{Broker, Store, Violation};
use crate::ledger::{Denied, Done, Place, WorkOrder};
use crate::types::JobKey;
use crate::types::lifetime::Lifetime;
use crate::types::sync::Arc;
use crate::types::units::Ticks;
use crate::types::zone::Zone;

impl<S: Store> Broker<S> {
    pub(super) fn lease(
        &mut self,
        client: Client,
        job: JobKey,
        lease: Lease,
        now: Ticks,
    ) -> Result<Reply, Violation> {
        if !self.ledger.has(job) {
            return Ok(Reply::Refused(Refusal::Left));
        }
        self.check_settled(job)?;
        self.check_pages(job, lease.lifetime, &lease.pages)?;
        if self.ledger.is_away(job) {
            return Err(Violation::BadWay);
        }
        let (want, last) = lease.want();
        if self.is_recovering {
            let (asked, pages) = (want.asked, want.pages.len() as u64);
            return Ok(Reply::Refused(Refusal::Busy(self.ledger.shortage(job, asked, pages))));
        }
        self.make_way(job, &want, last);
        let order = match self.ledger.lease(job, &want, last, now) {
            Ok(order) => order,
            Err(denied) => return Ok(Reply::Refused(refusal(denied))),
        };
        if let Err(why) = self.create(job, want.zone, &order, now) {
            return Ok(Reply::Refused(Refusal::Device(why)));
        }
        let last_page = want.pages.iter().copied().max().filter(|_| want.zone == Zone::Iteration);
        let ahead = last_page.map_or_else(Vec::new, |last| self.ledger.lease_ahead(job, last, now));
        let for_client = self.hand_out(client, job, want.zone, order);
        Ok(Reply::Granted(Order { ahead, ..for_client }))
    }

    /// The client's part of a work order, which is to be settled unless there is nothing in it.
    pub(super) fn hand_out(
        &mut self,
        client: Client,
        job: JobKey,
        zone: Zone,
        order: WorkOrder,
    ) -> Order {
        let for_client = Order {
            unmap: order.unmap.iter().map(|&(at, _)| (at.zone.lifetime(), at.page)).collect(),
            map: order.map.iter().map(|&(page, region)| (page, number(region))).collect(),
            ahead: Vec::new(),
        };
        for &(_, region) in &for_client.map {
            self.imports.entry(region).or_default().insert(client);
        }
        if !order.is_empty()
            && let Some(seat) = self.seats.get_mut(&job)
        {
            seat.order = Some((zone, order));
        }
        for_client
    }

    /// What has been ordered last has been done, and told.
    pub(super) fn check_settled(&self, job: JobKey) -> Result<(), Violation> {
        match self.seats.get(&job) {
            Some(seat) if seat.order.is_some() => Err(Violation::Unsettled),
            _ => Ok(()),
        }
    }

    /// Whether one of these pages is none of the arena.
    pub(super) fn is_beyond(&self, pages: &[u64]) -> bool {
        pages.iter().any(|&page| page >= self.pages)
    }

    /// Pages that are asked for are those of the arena, each once, and none that is leased.
    pub(super) fn check_pages(
        &self,
        job: JobKey,
        lifetime: Lifetime,
        asked: &[u64],
    ) -> Result<(), Violation> {
        let zone = Zone::from(lifetime);
        let mut pages = asked.to_vec();
        pages.sort_unstable();
        let twice = pages.windows(2).any(|pair| pair[0] == pair[1]);
        let leased = |&page: &u64| self.ledger.is_leased(Place { job, zone, page });
        if pages.is_empty() || twice || self.is_beyond(&pages) || pages.iter().any(leased) {
            return Err(Violation::BadPage);
        }
        Ok(())
    }

    /// Creates the memory that a lease needs. If the device refuses, the lease is taken back.
    pub(super) fn create(
        &mut self,
        job: JobKey,
        zone: Zone,
        order: &WorkOrder,
        now: Ticks,
    ) -> Result<(), Arc<str>> {
        for (created, &region) in order.create.iter().enumerate() {
            if let Err(why) = self.store.create(number(region)) {
                let done = Done { created, ..Done::default() };
                self.ledger.settle(job, zone, order, &done, now);
                return Err(why);
            }
        }
        Ok(())
    }

    /// Whether a client may have a handle of a region's memory: one of its jobs has just leased it.
    #[must_use]
    pub fn may_fetch(&self, client: Client, region: u32) -> bool {
        let orders = self.seats.values().filter(|seat| seat.client == client);
        let mut maps =
            orders.filter_map(|seat| seat.order.as_ref()).flat_map(|(_, order)| &order.map);
        maps.any(|&(_, mapped)| number(mapped) == region)
    }

    pub(super) fn settle(
        &mut self,
        job: JobKey,
        unmapped: u32,
        mapped: u32,
        now: Ticks,
    ) -> Result<(), Violation> {
        // One of the broker before this has been told of in another way.
        let Some(seat) = self.seats.get_mut(&job) else { return Ok(()) };
        let Some((zone, order)) = seat.order.take() else { return Ok(()) };
        let (unmapped, mapped) = (unmapped as usize, mapped as usize);
        let all = (order.unmap.len(), order.map.len());
        if unmapped > all.0 || mapped > all.1 || (mapped > 0 && unmapped < all.0) {
            seat.order = Some((zone, order));
            return Err(Violation::NothingToSettle);
        }
        let done = Done { unmapped, created: order.create.len(), mapped };
        self.ledger.settle(job, zone, &order, &done, now);
        Ok(())
    }
}

pub(super) fn refusal(denied: Denied) -> Refusal {
    match denied {
        Denied::Busy(shortage) => Refusal::Busy(shortage),
        Denied::Never(why) => Refusal::Never(why),
        Denied::BeyondCap(shortage, cap) => Refusal::BeyondCap(shortage, cap),
    }
}
