//! All regions, and which of them are nobody's.

use alloc::vec::Vec;
use core::ops::Index;

use super::set::Set;
use super::{Mapping, Place, Region, State};
use crate::types::JobKey;

/// The key of no job.
const NOBODY: JobKey = 0;

/// The regions by number. What is nobody's is found without looking at the others.
pub(in crate::ledger) struct RegionTable {
    entries: Vec<Region>,
    /// Free, with memory: by the job that had them last, as long as it is there.
    idle: Vec<Idle>,
    /// Free, without.
    absent: Set,
    closed: Set,
    /// How many have memory.
    created: usize,
}

/// Free regions with memory that a job had last.
#[derive(Default)]
struct Idle {
    /// None of the jobs that are there, if none has the place of another one.
    job: JobKey,
    regions: Set,
}

/// Which set a region is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Used,
    Idle,
    Absent,
    Closed,
}

impl Kind {
    fn of(region: &Region) -> Self {
        match region.state {
            State::Free if region.created => Self::Idle,
            State::Free => Self::Absent,
            State::Closed => Self::Closed,
            _ => Self::Used,
        }
    }
}

impl Index<usize> for RegionTable {
    type Output = Region;

    fn index(&self, region: usize) -> &Region {
        &self.entries[region]
    }
}

impl RegionTable {
    /// So many, free and without memory.
    pub(crate) fn new(count: usize) -> Self {
        let mut regions = Self {
            entries: Vec::with_capacity(count),
            idle: alloc::vec![Idle::default()],
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

    /// Gives a region a state.
    #[inline]
    pub(in crate::ledger) fn set_state(&mut self, region: usize, state: State) {
        let entry = &mut self.entries[region];
        let is_used = |state: &State| !matches!(state, State::Free | State::Closed);
        if is_used(&entry.state) {
            // From a job to the device, or back: it is in no set.
            if is_used(&state) {
                entry.state = state;
                return;
            }
            if let State::Draining { job, .. } = entry.state {
                entry.last = job;
            }
        }
        self.change(region, |entry| entry.state = state);
    }

    /// A job may come to have regions.
    pub(in crate::ledger) fn join(&mut self, job: JobKey) {
        // The first place is nobody's, and stays so.
        let vacant = self.idle.iter().skip(1).position(|idle| idle.job == NOBODY);
        let new = Idle { job, regions: Set::default() };
        match vacant {
            Some(before) => self.idle[before + 1] = new,
            None => self.idle.push(new),
        }
    }

    /// It never will again: what it had is any other's. O(regions / 64).
    pub(crate) fn leave(&mut self, job: JobKey) {
        let home = self.home_of(job);
        if home == 0 {
            return;
        }
        let left = core::mem::take(&mut self.idle[home]).regions;
        for region in left.from(0) {
            self.entries[region].home = 0;
            self.idle[0].regions.put(region, true);
        }
    }

    /// Where the idle regions of a job are; nobody's are first.
    #[inline]
    fn home_of(&self, job: JobKey) -> usize {
        self.idle.iter().position(|idle| idle.job == job).unwrap_or(0)
    }

    /// The device has memory for a region now, or has it no more.
    pub(in crate::ledger) fn set_created(&mut self, region: usize, created: bool) {
        let before = self.change(region, |entry| core::mem::replace(&mut entry.created, created));
        self.created = self.created + usize::from(created) - usize::from(before);
    }

    /// A region is of this user's jobs from now on.
    pub(in crate::ledger) fn set_user(&mut self, region: usize, user: u32) {
        self.entries[region].user = user;
    }

    /// Changes a region, which may make it nobody's or somebody's.
    fn change<T>(&mut self, region: usize, change: impl FnOnce(&mut Region) -> T) -> T {
        let entry = &mut self.entries[region];
        let before = Kind::of(entry);
        let changed = change(entry);
        let after = Kind::of(entry);
        if before != after {
            self.put(before, region, false);
            self.put(after, region, true);
        }
        changed
    }

    fn put(&mut self, kind: Kind, region: usize, member: bool) {
        match kind {
            Kind::Used => {}
            Kind::Idle => {
                if member {
                    self.entries[region].home = self.home_of(self.entries[region].last);
                }
                self.idle[self.entries[region].home].regions.put(region, member);
            }
            Kind::Absent => self.absent.put(region, member),
            Kind::Closed => self.closed.put(region, member),
        }
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
    pub(in crate::ledger) fn set_parts(&mut self, region: usize, place: Place, parts: u64) {
        let here = self.entries[region].mappings.iter_mut().find(|mapping| mapping.place == place);
        if let Some(mapping) = here {
            mapping.parts = parts;
        }
    }

    /// Free regions that have memory, from this one on, in order. Each takes O(jobs).
    pub(in crate::ledger) fn idle(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        let next =
            |from: usize| self.idle.iter().filter_map(|idle| idle.regions.from(from).next()).min();
        core::iter::successors(next(from), move |&last| next(last + 1))
    }

    /// Free regions that have memory and that the job had last, or nobody who is there.
    pub(in crate::ledger) fn idle_of(&self, job: JobKey) -> impl Iterator<Item = usize> + '_ {
        let home = self.home_of(job);
        let nobodys = Some(&self.idle[0]).filter(|_| home != 0);
        core::iter::once(&self.idle[home]).chain(nobodys).flat_map(|idle| idle.regions.from(0))
    }

    /// How many free regions have memory that the job had last.
    pub(in crate::ledger) fn idle_count_of(&self, job: JobKey) -> usize {
        let home = self.home_of(job);
        if home == 0 { 0 } else { self.idle[home].regions.len() }
    }

    /// Free regions that have memory and that other jobs had last. They begin with another one's
    /// for each job, so that they do not all take from the same.
    pub(in crate::ledger) fn idle_of_others(
        &self,
        job: JobKey,
    ) -> impl Iterator<Item = usize> + '_ {
        let home = self.home_of(job).max(1).min(self.idle.len());
        let (before, after) = self.idle.split_at(home);
        let others = after.iter().skip(1).chain(before.iter().skip(1));
        others.flat_map(|idle| idle.regions.from(0))
    }

    /// Free regions without memory.
    pub(in crate::ledger) fn absent(&self) -> impl Iterator<Item = usize> + '_ {
        self.absent.from(0)
    }

    /// How many these are.
    pub(in crate::ledger) fn absent_count(&self) -> usize {
        self.absent.len()
    }

    /// How many there are, closed ones included.
    pub(in crate::ledger) fn count(&self) -> usize {
        self.entries.len()
    }

    /// How many are nobody's.
    pub(in crate::ledger) fn free_count(&self) -> usize {
        self.idle_count() + self.absent.len()
    }

    /// How many of these have memory.
    pub(in crate::ledger) fn idle_count(&self) -> usize {
        self.idle.iter().map(|idle| idle.regions.len()).sum()
    }

    /// How many have memory, whoever has them.
    pub(crate) fn created(&self) -> usize {
        self.created
    }

    /// Closes the last region that is free and has no memory. Whether there is one.
    pub(in crate::ledger) fn close_last(&mut self) -> bool {
        let last = self.absent.last();
        last.inspect(|&region| self.set_state(region, State::Closed)).is_some()
    }

    /// Makes a closed region free, or adds one.
    pub(in crate::ledger) fn open_one(&mut self) {
        let closed = self.closed.from(0).next();
        match closed {
            Some(region) => self.set_state(region, State::Free),
            None => self.add(),
        }
    }

    /// The regions that have memory and are mapped nowhere.
    pub(crate) fn unmapped(&self) -> impl Iterator<Item = usize> + '_ {
        let unmapped = |region: &Region| region.created && region.mappings.is_empty();
        (0..)
            .zip(&self.entries)
            .filter(move |(_, region)| unmapped(region))
            .map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::zone::Zone;

    #[test]
    fn what_is_nobodys_is_known() {
        let mut regions: RegionTable = RegionTable::new(3);
        assert_eq!((regions.free_count(), regions.idle_count(), regions.created()), (3, 0, 0));
        regions.set_created(1, true);
        let place = Place { job: 1, zone: Zone::Iteration, page: 0 };
        regions.set_state(0, State::Leased(place));
        assert!(regions.idle(0).eq([1]) && regions.absent().eq([2]) && regions.idle(2).eq([]));
        assert_eq!((regions.free_count(), regions.created()), (2, 1));
        assert!(regions.close_last() && !regions.close_last());
        assert_eq!(regions[2].state, State::Closed);
        regions.open_one();
        regions.open_one();
        assert!(regions.absent().eq([2, 3]), "the closed one, then a new one");
    }

    #[test]
    fn what_is_free_is_known_by_who_had_it_last() {
        let mut regions: RegionTable = RegionTable::new(6);
        [1, 2, 3].into_iter().for_each(|job| regions.join(job));
        for (region, job) in [(0, 1), (1, 2), (2, 1), (3, 3), (4, 2)] {
            regions.set_created(region, true);
            regions.set_state(region, State::Draining { job, batch: 1 });
            regions.set_state(region, State::Free);
        }
        assert!(regions.idle_of(1).eq([0, 2]) && regions.idle_of_others(1).eq([1, 4, 3]));
        assert!(regions.idle_of_others(2).eq([3, 0, 2]), "each begins with another one's");
        assert!(regions.idle(1).eq([1, 2, 3, 4]) && regions.idle_count() == 5);
        // It is the next one's, and a departed job's is anybody's.
        let place = Place { job: 2, zone: Zone::Iteration, page: 0 };
        regions.set_state(0, State::Leased(place));
        regions.set_state(0, State::Draining { job: 2, batch: 2 });
        regions.set_state(0, State::Free);
        assert!(regions.idle_of(1).eq([2]) && regions.idle_of(2).eq([0, 1, 4]));
        regions.leave(2);
        assert!(regions.idle_of(1).eq([2, 0, 1, 4]) && regions.idle_of_others(1).eq([3]));
        assert_eq!((regions.free_count(), regions.idle_count()), (6, 5));
        regions.set_state(4, State::Leased(place));
        assert!(regions.idle(0).eq([0, 1, 2, 3]));
    }
}
