//! All regions under one budget: who has each, and where each is mapped.
//!
//! A region is created once and then handed over between jobs. It stays mapped in each arena page
//! that it has backed (one physical allocation may have several addresses), so that a page that
//! gets its region back needs no device call.

mod set;
mod table;

use alloc::vec::Vec;

use crate::types::JobKey;
use crate::types::zone::Zone;

pub(super) use table::RegionTable;

/// A page of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) job: JobKey,
    pub(crate) zone: Zone,
    pub(crate) page: u64,
}

impl Place {
    /// By job, arena and page.
    pub(super) fn in_order(self) -> (JobKey, usize, u64) {
        (self.job, self.zone.index(), self.page)
    }

    /// Whether `next` is the page after it in the same arena.
    pub(crate) fn is_beside(self, next: Self) -> bool {
        (self.job, self.zone, self.page + 1) == (next.job, next.zone, next.page)
    }
}

/// Who has a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody. No work of the device uses it at any of its addresses.
    Free,
    /// It backs this page.
    Leased(Place),
    /// This job has given it up, and the device has yet to pass the fence of `batch`. Until then
    /// only that job can have it back, at any page: work on one stream runs in order.
    Draining { job: JobKey, batch: u64 },
    /// Nobody, and its memory is being given back to the device.
    Retiring,
    /// Beyond the budget: nobody gets it, and it has no memory.
    Closed,
}

/// Changed through [`RegionTable`] only, which knows what is nobody's.
pub(super) struct Region {
    /// The device has memory for it: not before it is first needed.
    pub(crate) created: bool,
    pub(super) state: State,
    /// The user whose jobs have had it since it was created: nobody else's get it.
    pub(super) user: u32,
    /// The job that had it last; 0 if none has.
    last: JobKey,
    /// Of one that is idle: with whose idle ones it is.
    home: usize,
    pub(super) mappings: Vec<Mapping>,
}

/// Where a region is mapped, and in which parts of its job's iterations that page is in use.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    pub(super) place: Place,
    pub(super) parts: u64,
}

impl Region {
    pub(super) const fn absent() -> Self {
        Self { created: false, state: State::Free, user: 0, last: 0, home: 0, mappings: Vec::new() }
    }

    /// When a job uses it, and for how much of their time the others do in all.
    pub(super) fn usage(&self, job: JobKey) -> (u64, u32) {
        self.mappings.iter().fold((0, 0), |(own, others), mapping| {
            if mapping.place.job == job {
                (own | mapping.parts, others)
            } else {
                (own, others + mapping.parts.count_ones())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn usage_is_the_jobs_own_parts_and_how_many_the_others_have() {
        let mapping =
            |job, page, parts| Mapping { place: Place { job, zone: Zone::Iteration, page }, parts };
        let mut region: Region = Region::absent();
        region.mappings = vec![mapping(1, 0, 0b0110), mapping(1, 7, 0b0011)];
        region.mappings.extend([mapping(2, 0, 0b1011), mapping(3, 0, 0b1000)]);
        assert_eq!(region.usage(1), (0b0111, 4));
        assert_eq!(region.usage(2), (0b1011, 5));
    }
}
