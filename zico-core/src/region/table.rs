//! All regions, and which of them are nobody's.

use alloc::vec::Vec;
use core::ops::Index;

use super::set::Set;
use super::{JobKey, Mapping, Place, Region, State};
use crate::sync::Arc;

/// The regions by number. What is nobody's is found without looking at the others.
pub(crate) struct Regions<M> {
    entries: Vec<Region<M>>,
    /// Free, with memory.
    idle: Set,
    /// Free, without.
    absent: Set,
    closed: Set,
    /// How many have memory.
    created: usize,
}

impl<M> Index<usize> for Regions<M> {
    type Output = Region<M>;

    fn index(&self, region: usize) -> &Region<M> {
        &self.entries[region]
    }
}

impl<M> Regions<M> {
    /// So many, free and without memory.
    pub(crate) fn new(count: usize) -> Self {
        let mut regions = Self {
            entries: Vec::with_capacity(count),
            idle: Set::default(),
            absent: Set::default(),
            closed: Set::default(),
            created: 0,
        };
        (0..count).for_each(|_| regions.add());
        regions
    }

    /// One more.
    fn add(&mut self) {
        self.absent.put(self.entries.len(), true);
        self.entries.push(Region::absent());
    }

    /// Gives a region a state, and says which it had.
    pub(crate) fn set_state(&mut self, region: usize, state: State) -> State {
        let before = core::mem::replace(&mut self.entries[region].state, state);
        self.sort_in(region);
        before
    }

    /// Gives a region memory, or takes it away.
    pub(crate) fn set_memory(&mut self, region: usize, memory: Option<Arc<M>>) -> Option<Arc<M>> {
        self.created += usize::from(memory.is_some());
        let before = core::mem::replace(&mut self.entries[region].memory, memory);
        self.created -= usize::from(before.is_some());
        self.sort_in(region);
        before
    }

    fn sort_in(&mut self, region: usize) {
        let Region { state, memory, .. } = &self.entries[region];
        let (free, closed) = (*state == State::Free, *state == State::Closed);
        let has_memory = memory.is_some();
        self.idle.put(region, free && has_memory);
        self.absent.put(region, free && !has_memory);
        self.closed.put(region, closed);
    }

    /// A region is mapped at a place now.
    pub(crate) fn map(&mut self, region: usize, place: Place) {
        self.entries[region].mappings.push(Mapping { place, parts: 0 });
    }

    /// It is not any more.
    pub(crate) fn unmap(&mut self, region: usize, place: Place) {
        self.entries[region].mappings.retain(|mapping| mapping.place != place);
    }

    /// The page of a region is in use in these parts of its job's iterations.
    pub(crate) fn set_parts(&mut self, region: usize, place: Place, parts: u64) {
        let here = self.entries[region].mappings.iter_mut().find(|mapping| mapping.place == place);
        if let Some(mapping) = here {
            mapping.parts = parts;
        }
    }

    /// Free regions that have memory, from this one on.
    pub(crate) fn idle(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        self.idle.from(from)
    }

    /// Free regions without memory.
    pub(crate) fn absent(&self) -> impl Iterator<Item = usize> + '_ {
        self.absent.from(0)
    }

    /// How many are nobody's.
    pub(crate) fn free_count(&self) -> usize {
        self.idle.len() + self.absent.len()
    }

    /// How many of these have memory.
    pub(crate) fn idle_count(&self) -> usize {
        self.idle.len()
    }

    /// How many have memory, whoever has them.
    pub(crate) fn created(&self) -> usize {
        self.created
    }

    /// Closes the last region that is free and has no memory. Whether there is one.
    pub(crate) fn close_last(&mut self) -> bool {
        let last = self.absent.last();
        last.is_some_and(|region| self.set_state(region, State::Closed) == State::Free)
    }

    /// Makes a closed region free, or adds one.
    pub(crate) fn open_one(&mut self) {
        let closed = self.closed.from(0).next();
        match closed {
            Some(region) => drop(self.set_state(region, State::Free)),
            None => self.add(),
        }
    }

    /// The regions that `job` has given up and the device has yet to pass, of those in a list that may
    /// be older than the books, with their batches.
    pub(crate) fn draining<'a>(
        &'a self,
        job: JobKey,
        list: &'a [usize],
    ) -> impl Iterator<Item = (u64, usize)> + 'a {
        list.iter().filter_map(move |&region| match self.entries[region].state {
            State::Draining { job: owner, batch } if owner == job => Some((batch, region)),
            _ => None,
        })
    }

    /// What becomes of all memory when the pool ends: that which is mapped nowhere.
    pub(crate) fn take_unmapped(&mut self) -> impl Iterator<Item = Arc<M>> + use<M> {
        let entries = core::mem::take(&mut self.entries);
        let unmapped = entries.into_iter().filter(|region| region.mappings.is_empty());
        unmapped.filter_map(|region| region.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Zone;

    #[test]
    fn what_is_nobodys_is_known() {
        let mut regions: Regions<()> = Regions::new(3);
        assert_eq!((regions.free_count(), regions.idle_count(), regions.created()), (3, 0, 0));
        regions.set_memory(1, Some(Arc::new(())));
        let place = Place { job: 1, zone: Zone::Iteration, page: 0 };
        assert_eq!(regions.set_state(0, State::Leased(place)), State::Free);
        assert!(regions.idle(0).eq([1]) && regions.absent().eq([2]) && regions.idle(2).eq([]));
        assert_eq!((regions.free_count(), regions.created()), (2, 1));
        assert!(regions.close_last() && !regions.close_last());
        assert_eq!(regions[2].state, State::Closed);
        regions.open_one();
        regions.open_one();
        assert!(regions.absent().eq([2, 3]), "the closed one, then a new one");
    }

    #[test]
    fn a_list_of_draining_regions_may_be_old() {
        let mut regions: Regions<()> = Regions::new(4);
        regions.set_state(0, State::Draining { job: 1, batch: 3 });
        regions.set_state(1, State::Draining { job: 2, batch: 3 });
        regions.set_state(3, State::Draining { job: 1, batch: 4 });
        assert!(regions.draining(1, &[0, 1, 2, 3]).eq([(3, 0), (4, 3)]));
    }
}
