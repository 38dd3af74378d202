//! Regions whose memory goes back to the device.

use alloc::vec::Vec;

use super::region::{Place, State};
use super::{AT_A_TIME, Ledger, Mapped};

/// A region that is out of use: its mappings are to go, then its memory.
pub(crate) struct Retired {
    pub(crate) region: usize,
    places: Vec<Place>,
    /// Its memory has gone.
    pub(crate) destroyed: bool,
}

impl Retired {
    /// Where it is mapped.
    pub(crate) fn mapped(&self) -> Vec<Mapped> {
        self.places.iter().map(|&place| (place, self.region)).collect()
    }
}

/// Down to where memory is given back.
#[derive(Clone, Copy)]
pub(crate) enum Excess {
    /// No more than so many regions have memory.
    Above(usize),
    /// No region is open beyond the limit.
    BeyondLimit,
    /// No end: these are wanted for another user.
    OfOthers,
}

impl Ledger {
    /// Whether there is more than that.
    pub(crate) fn exceeds(&self, excess: Excess) -> bool {
        match excess {
            Excess::Above(target) => self.regions.created() > target,
            Excess::BeyondLimit => self.open as usize > self.limit as usize + self.retiring,
            Excess::OfOthers => true,
        }
    }

    /// Some free regions that have memory, with how much of the time they are in use. Where to go
    /// on, if there are more. Addresses of a job that has left are cleared up first.
    pub(crate) fn idle_from(&self, from: usize, found: &mut Vec<(u32, usize)>) -> Option<usize> {
        let mut idle = self.regions.idle(from);
        for region in idle.by_ref().take(AT_A_TIME) {
            let entry = &self.regions[region];
            if self.is_unpinned(entry) {
                let parts = entry.mappings.iter().map(|mapping| mapping.parts.count_ones());
                found.push((parts.sum(), region));
            }
        }
        idle.next()
    }

    /// Takes regions out of use, of those that are still free and have memory, while there is an
    /// excess.
    pub(crate) fn retire(&mut self, some: &[usize], excess: Excess) -> Vec<Retired> {
        let mut retired = Vec::new();
        for &region in some {
            let entry = &self.regions[region];
            if entry.state != State::Free || !entry.created || !self.is_unpinned(entry) {
                continue;
            }
            if !self.exceeds(excess) {
                break;
            }
            let places: Vec<Place> =
                self.regions[region].mappings.iter().map(|mapping| mapping.place).collect();
            self.pin(places.iter().copied(), &mut Vec::new());
            self.regions.set_state(region, State::Retiring);
            self.regions.set_created(region, false);
            self.retiring += 1;
            retired.push(Retired { region, places, destroyed: false });
        }
        retired
    }

    /// The device has taken the memory of these, or has refused to.
    pub(crate) fn retired(&mut self, retired: &[Retired]) {
        for Retired { region, places, destroyed } in retired {
            self.unpin(places);
            self.counts.destroys += u64::from(*destroyed);
            self.regions.set_created(*region, !destroyed);
            self.regions.set_state(*region, State::Free);
            self.retiring -= 1;
        }
        self.notify();
        self.close_absent();
    }

    /// The regions that there is memory for on the device.
    pub(crate) fn created(&self) -> usize {
        self.regions.created() + self.retiring
    }

    /// The regions that have memory and are mapped nowhere.
    pub(crate) fn unmapped_regions(&self) -> Vec<usize> {
        self.regions.unmapped().collect()
    }
}
