//! Giving memory that is nobody's back to the device.

use alloc::vec::Vec;

use crate::device::{Device, Refused};
use crate::ledger::Ledger;
use crate::region::{Place, Region, State};
use crate::shared::Shared;
use crate::sync::Arc;

/// A region whose memory is to go.
struct Retired<M> {
    region: usize,
    memory: Arc<M>,
    places: Vec<Place>,
}

impl<D: Device> Shared<D> {
    /// Destroys free regions, those first that are in use least, until no more than `target` are
    /// left or none is free. A region that the device refuses to take stays the pool's, free.
    pub(crate) fn trim(&self, target: usize) -> Result<(), D::Error> {
        self.reclaim()?;
        self.give_up_while(|ledger| ledger.created() > target)
    }

    /// Gives the memory of regions back that a lowered budget has no room for.
    pub(crate) fn shrink(&self) -> Result<(), D::Error> {
        self.give_up_while(Ledger::is_shrinking)
    }

    fn give_up_while(&self, excess: impl Fn(&Ledger<D>) -> bool) -> Result<(), D::Error> {
        loop {
            let Some(retired) = self.ledger.lock().retire(&excess) else { return Ok(()) };
            let (region, claimed) = (retired.region, retired.places.clone());
            let (kept, result) = match self.destroy(retired) {
                Ok(()) => (None, Ok(())),
                Err(refused) => (Some(refused.resource), Err(refused.error)),
            };
            self.ledger.lock().retired(region, kept, &claimed);
            self.changed();
            result?;
        }
    }

    /// Unmaps and destroys a region.
    fn destroy(
        &self,
        retired: Retired<D::Memory>,
    ) -> Result<(), Refused<Arc<D::Memory>, D::Error>> {
        let Retired { region, memory, places } = retired;
        let mapped = places.into_iter().map(|place| (place, region)).collect();
        if let Err(error) = self.unmap(mapped) {
            return Err(Refused { resource: memory, error });
        }
        // Only a lease holds on to a region's memory beside the books, and a free one has none.
        let Some(memory) = Arc::into_inner(memory) else { return Ok(()) };
        self.device.destroy(memory).map_err(|refused| Refused {
            resource: Arc::new(refused.resource),
            error: refused.error,
        })
    }
}

impl<D: Device> Ledger<D> {
    /// Takes a free region that has memory out of use, if there is an excess.
    fn retire(&mut self, excess: impl Fn(&Self) -> bool) -> Option<Retired<D::Memory>> {
        if !excess(self) {
            return None;
        }
        let idle = |(region, entry): (usize, &Region<D::Memory>)| {
            // Addresses of a job that has left are cleared up first.
            let known = self.is_unclaimed(entry);
            let used: u32 = entry.mappings.iter().map(|mapping| mapping.parts.count_ones()).sum();
            let free = entry.state == State::Free && entry.memory.is_some() && known;
            free.then_some((used, region))
        };
        let (_, region) = self.regions.iter().enumerate().filter_map(idle).min()?;
        let places: Vec<Place> =
            self.regions[region].mappings.iter().map(|mapping| mapping.place).collect();
        self.claim(places.iter().copied(), &mut Vec::new());
        let entry = &mut self.regions[region];
        let memory = entry.memory.take()?;
        entry.state = State::Retiring;
        self.retiring += 1;
        Some(Retired { region, memory, places })
    }

    fn retired(&mut self, region: usize, memory: Option<Arc<D::Memory>>, claimed: &[Place]) {
        self.end_claims(claimed);
        let entry = &mut self.regions[region];
        self.counts.destroys += u64::from(memory.is_none());
        entry.memory = memory;
        entry.state = State::Free;
        self.retiring -= 1;
        self.epoch += 1;
        self.close(region);
    }

    /// The regions that there is memory for on the device.
    pub(crate) fn created(&self) -> usize {
        let exists = |region: &&Region<D::Memory>| region.memory.is_some();
        self.regions.iter().filter(exists).count() + self.retiring
    }
}
