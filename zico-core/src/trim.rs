//! Giving memory that is nobody's back to the device.

use alloc::vec::Vec;

use crate::device::{Device, Refused};
use crate::ledger::{AT_A_TIME, Ledger};
use crate::region::{Place, State};
use crate::shared::Shared;
use crate::sync::Arc;

/// So many regions are taken out of use at a time.
const RETIRED_AT_A_TIME: usize = 64;

/// A region whose memory is to go, or has gone.
struct Retired<M> {
    region: usize,
    memory: Option<Arc<M>>,
    places: Vec<Place>,
}

impl<D: Device> Shared<D> {
    /// Destroys free regions, those first that are in use least, until no more than `target` are
    /// left or none is free. A region that the device refuses to take stays the pool's, free.
    pub(crate) fn trim(&self, target: usize) -> Result<(), D::Error> {
        self.reclaim(None)?;
        self.give_up_while(|ledger| ledger.regions.created() > target)
    }

    /// Gives the memory of regions back that a lowered budget has no room for.
    pub(crate) fn shrink(&self) -> Result<(), D::Error> {
        // Regions that never had memory are closed without a call of the device.
        while self.ledger.lock().close_more() {}
        self.give_up_while(|ledger| ledger.open as usize > ledger.limit as usize + ledger.retiring)
    }

    /// O(regions log regions) in all, and no more than some of them at a time under the lock.
    fn give_up_while(&self, excess: impl Fn(&Ledger<D>) -> bool) -> Result<(), D::Error> {
        // What becomes free meanwhile counts as well.
        while excess(&self.ledger.lock()) {
            let mut any = false;
            for some in self.least_used().chunks(RETIRED_AT_A_TIME) {
                let retired = self.ledger.lock().retire(some, &excess);
                if !retired.is_empty() {
                    any = true;
                    self.give_up(retired)?;
                }
            }
            if !any {
                break;
            }
        }
        Ok(())
    }

    /// The regions that are free and have memory, those first that are in use least.
    fn least_used(&self) -> Vec<usize> {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            from = self.ledger.lock().idle_from(next, &mut found);
        }
        found.sort_unstable();
        found.into_iter().map(|(_, region)| region).collect()
    }

    /// Gives regions back to the device that have been taken out of use.
    fn give_up(&self, mut retired: Vec<Retired<D::Memory>>) -> Result<(), D::Error> {
        let mut result = Ok(());
        for region in &mut retired {
            if let Err(error) = self.destroy(region)
                && result.is_ok()
            {
                result = Err(error);
            }
        }
        self.ledger.lock().retired(retired);
        self.changed();
        result
    }

    /// Unmaps and destroys a region. What the device refuses to take stays where it is.
    fn destroy(&self, retired: &mut Retired<D::Memory>) -> Result<(), D::Error> {
        let mapped = retired.places.iter().map(|&place| (place, retired.region)).collect();
        self.unmap(mapped)?;
        // Only a lease holds on to a region's memory beside the books, and a free one has none.
        let Some(memory) = retired.memory.take().and_then(Arc::into_inner) else { return Ok(()) };
        self.device.destroy(memory).map_err(|Refused { resource, error }| {
            retired.memory = Some(Arc::new(resource));
            error
        })
    }
}

impl<D: Device> Ledger<D> {
    /// Some free regions that have memory, with how much of the time they are in use. Where to go on, if
    /// there are more. Addresses of a job that has left are cleared up first.
    fn idle_from(&self, from: usize, found: &mut Vec<(u32, usize)>) -> Option<usize> {
        let mut idle = self.regions.idle(from);
        for region in idle.by_ref().take(AT_A_TIME) {
            let entry = &self.regions[region];
            if self.is_unclaimed(entry) {
                let parts = entry.mappings.iter().map(|mapping| mapping.parts.count_ones());
                found.push((parts.sum(), region));
            }
        }
        idle.next()
    }

    /// Takes regions out of use, of those that are still free and have memory, while there is an excess.
    fn retire(
        &mut self,
        some: &[usize],
        excess: impl Fn(&Self) -> bool,
    ) -> Vec<Retired<D::Memory>> {
        let mut retired = Vec::new();
        for &region in some {
            let entry = &self.regions[region];
            if entry.state != State::Free || entry.memory.is_none() || !self.is_unclaimed(entry) {
                continue;
            }
            if !excess(self) {
                break;
            }
            let places: Vec<Place> =
                self.regions[region].mappings.iter().map(|mapping| mapping.place).collect();
            self.claim(places.iter().copied(), &mut Vec::new());
            self.regions.set_state(region, State::Retiring);
            let memory = self.regions.set_memory(region, None);
            self.retiring += 1;
            retired.push(Retired { region, memory, places });
        }
        retired
    }

    fn retired(&mut self, retired: Vec<Retired<D::Memory>>) {
        for Retired { region, memory, places } in retired {
            self.end_claims(&places);
            self.counts.destroys += u64::from(memory.is_none());
            self.regions.set_memory(region, memory);
            self.regions.set_state(region, State::Free);
            self.retiring -= 1;
        }
        self.epoch += 1;
        self.close_absent();
    }

    /// The regions that there is memory for on the device.
    pub(crate) fn created(&self) -> usize {
        self.regions.created() + self.retiring
    }
}
