//! All regions under one budget: who has each, and where each is mapped.
//!
//! A region is created once and then handed over between jobs. It stays mapped in each arena page
//! that it has backed (one physical allocation may have several addresses), so that a page that gets
//! its region back needs no device call.

use alloc::vec::Vec;

use crate::lifetime::Lifetime;
use crate::sync::Arc;

/// Names a job within its pool. Never used twice.
pub(crate) type JobKey = u64;

/// A page of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) job: JobKey,
    pub(crate) lifetime: Lifetime,
    pub(crate) page: u64,
}

/// Who has a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody. No work of the device uses it at any of its addresses.
    Free,
    /// It backs this page.
    Leased(Place),
    /// It backed this page until its job gave it up; the device has yet to pass the fence of
    /// `batch`. Until then only that page can have it back: work on one stream runs in order.
    Draining { place: Place, batch: u64 },
}

pub(crate) struct Region<M> {
    /// The physical memory; none until it is first needed.
    pub(crate) memory: Option<Arc<M>>,
    pub(crate) state: State,
    /// Where it is mapped.
    pub(crate) places: Vec<Place>,
}

impl<M> Region<M> {
    pub(crate) const fn absent() -> Self {
        Self { memory: None, state: State::Free, places: Vec::new() }
    }

    /// Whether no other job has had it, as far as its mappings tell.
    pub(crate) fn is_only_of(&self, job: JobKey) -> bool {
        self.places.iter().all(|place| place.job == job)
    }

    /// How well a free region suits a page of a job's arena that it does not back yet; more is
    /// better.
    ///
    /// One that is mapped nowhere is best. Else one whose pages lie high in other arenas: arenas
    /// fill from the bottom, so a high page is rarely in use, and taking its region rarely makes
    /// that page look for another. Last come the regions of the same arena's other pages, which
    /// it is about to need itself.
    pub(crate) fn suits(&self, job: JobKey, lifetime: Lifetime) -> (bool, u64) {
        let own = self.places.iter().any(|place| (place.job, place.lifetime) == (job, lifetime));
        (!own, self.places.iter().map(|place| place.page).min().unwrap_or(u64::MAX))
    }
}
