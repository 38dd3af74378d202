//! The books of a host device: reserved addresses, pieces of memory, and what is mapped where.
//!
//! Every call is checked here before the kernel is asked, since the kernel checks less than the
//! contract of [`Device`](zico_core::Device): it maps over mappings, for example.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use zico_core::{Addr, Bytes};

use super::error::HostError;

#[derive(Debug)]
pub(super) struct Registry {
    granularity: Bytes,
    capacity: Bytes,
    /// What has been created and not destroyed; what was imported is not counted.
    used: Bytes,
    /// Lengths by first addresses.
    ranges: BTreeMap<u64, u64>,
    /// By numbers that are not used twice.
    memories: BTreeMap<u64, Memory>,
    /// By first addresses; they do not overlap.
    mappings: BTreeMap<u64, Mapping>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Memory {
    len: u64,
    /// How many of the mappings are of it.
    mappings: u32,
    /// Its bytes count as used.
    own: bool,
    file: Arc<OwnedFd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) len: u64,
    pub(super) memory: u64,
    /// The call that made it has failed, and so has taking it back: callers do not see it, and it
    /// goes before its addresses or its memory are used again.
    pub(super) left_over: bool,
}

/// Some mapped addresses, and what is mapped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backing {
    /// The first address.
    pub at: Addr,
    /// How many there are.
    pub len: Bytes,
    /// The file. It is open as long as the memory is not destroyed.
    pub file: RawFd,
    /// Where in the file the first address is.
    pub offset: Bytes,
}

/// Some addresses: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Place {
    const fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

impl Registry {
    pub(super) const fn new(granularity: Bytes, capacity: Bytes) -> Self {
        Self {
            granularity,
            capacity,
            used: Bytes::ZERO,
            ranges: BTreeMap::new(),
            memories: BTreeMap::new(),
            mappings: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn check_length(&self, len: Bytes) -> Result<(), HostError> {
        if len.is_zero() { Err(self.bad_size(len)) } else { self.check_offset(len) }
    }

    fn check_offset(&self, size: Bytes) -> Result<(), HostError> {
        let whole = size.value().is_multiple_of(self.granularity.value());
        if whole { Ok(()) } else { Err(self.bad_size(size)) }
    }

    fn bad_size(&self, size: Bytes) -> HostError {
        HostError::BadSize { size, granularity: self.granularity }
    }

    /// Counts bytes as used, if there are so many left.
    pub(super) fn take(&mut self, asked: Bytes) -> Result<(), HostError> {
        let (used, capacity) = (self.used, self.capacity);
        match used.checked_add(asked) {
            Some(sum) if sum <= capacity => self.used = sum,
            _ => return Err(HostError::CapacityExceeded { asked, used, capacity }),
        }
        Ok(())
    }

    /// Bytes are used no more.
    pub(super) fn put_back(&mut self, bytes: Bytes) {
        self.used = self.used.saturating_sub(bytes);
    }

    pub(super) fn add_range(&mut self, base: u64, len: u64) {
        self.ranges.insert(base, len);
    }

    /// The length of a range.
    pub(super) fn range(&self, base: u64) -> Result<u64, HostError> {
        self.ranges.get(&base).copied().ok_or(HostError::Foreign { what: "range" })
    }

    pub(super) fn remove_range(&mut self, base: u64) {
        self.ranges.remove(&base);
    }

    /// Enters a piece of memory and returns its number.
    pub(super) fn add_memory(&mut self, len: Bytes, own: bool, file: Arc<OwnedFd>) -> u64 {
        self.next += 1;
        self.memories.insert(self.next, Memory { len: len.value(), mappings: 0, own, file });
        self.next
    }

    pub(super) fn len_of(&self, memory: u64) -> Result<u64, HostError> {
        self.memory(memory).map(|memory| memory.len)
    }

    fn memory(&self, key: u64) -> Result<&Memory, HostError> {
        self.memories.get(&key).ok_or(HostError::Foreign { what: "memory" })
    }

    /// Strikes out memory that is mapped nowhere.
    pub(super) fn remove_memory(&mut self, key: u64) -> Result<(), HostError> {
        let &Memory { len, mappings, own, .. } = self.memory(key)?;
        if mappings > 0 {
            return Err(HostError::MemoryInUse { mappings });
        }
        self.memories.remove(&key);
        if own {
            self.put_back(Bytes::new(len));
        }
        Ok(())
    }

    /// The addresses of `len` bytes from `at` of a range.
    pub(super) fn place(&self, base: u64, at: Bytes, len: Bytes) -> Result<Place, HostError> {
        self.check_offset(at)?;
        let range = self.range(base)?;
        match at.checked_add(len) {
            Some(end) if end.value() <= range => {
                Ok(Place { start: base + at.value(), len: len.value() })
            }
            _ => Err(HostError::BeyondRange { at, len, range: Bytes::new(range) }),
        }
    }

    /// The last mapping that has an address of this place.
    pub(super) fn last_within(&self, place: Place) -> Option<(Place, Mapping)> {
        let (&start, &mapping) = self.mappings.range(..place.end()).next_back()?;
        let found = Place { start, len: mapping.len };
        (found.end() > place.start).then_some((found, mapping))
    }

    /// What is mapped in a place: from where to where, and the file and the offset in it.
    pub(super) fn backing(&self, place: Place) -> Vec<Backing> {
        let backing = |(at, len, file, offset): (u64, u64, &Arc<OwnedFd>, u64)| Backing {
            at: Addr::new(at),
            len: Bytes::new(len),
            file: file.as_raw_fd(),
            offset: Bytes::new(offset),
        };
        self.files(place).into_iter().map(backing).collect()
    }

    /// The same, with the files themselves: first addresses, lengths, files and offsets in them.
    pub(super) fn files(&self, place: Place) -> Vec<(u64, u64, &Arc<OwnedFd>, u64)> {
        let mut found = Vec::new();
        let mut before = self.mappings.range(..=place.start).next_back().map(|(start, _)| *start);
        let first = before.take().unwrap_or(place.start);
        for (&start, mapping) in self.mappings.range(first..place.end()) {
            let from = start.max(place.start);
            let to = start.saturating_add(mapping.len).min(place.end());
            if let (true, Some(memory)) = (from < to, self.memories.get(&mapping.memory)) {
                found.push((from, to - from, &memory.file, from - start));
            }
        }
        found
    }

    /// A mapping of this memory that is left over.
    pub(super) fn left_over_of(&self, memory: u64) -> Option<Place> {
        let is_left = |mapping: &Mapping| mapping.memory == memory && mapping.left_over;
        let (&start, mapping) = self.mappings.iter().find(|(_, mapping)| is_left(mapping))?;
        Some(Place { start, len: mapping.len })
    }

    /// Notes that memory is mapped at a place where nothing was.
    pub(super) fn mapped(&mut self, place: Place, memory: u64, left_over: bool) {
        self.mappings.insert(place.start, Mapping { len: place.len, memory, left_over });
        if let Some(memory) = self.memories.get_mut(&memory) {
            memory.mappings += 1;
        }
    }

    /// Whether a place consists of whole mappings.
    pub(super) fn check_covered(&self, place: Place) -> Result<(), HostError> {
        let before = self.mappings.range(..place.start).next_back();
        let mut at = place.start;
        for (&start, mapping) in before.into_iter().chain(self.mappings.range(at..place.end())) {
            let end = start + mapping.len;
            if end <= place.start {
                continue;
            }
            if start < place.start || end > place.end() {
                let len = Bytes::new(mapping.len);
                return Err(HostError::CutsMapping { mapped: Addr::new(start), len });
            }
            if start != at || mapping.left_over {
                break;
            }
            at = end;
        }
        if at == place.end() { Ok(()) } else { Err(HostError::NotMapped { hole: Addr::new(at) }) }
    }

    /// Whether something is mapped at each of these addresses.
    pub(super) fn check_mapped(&self, start: u64, len: u64) -> Result<(), HostError> {
        let mut at = start;
        let end = start.checked_add(len).ok_or(HostError::NotMapped { hole: Addr::new(start) })?;
        while at < end {
            let before = self.mappings.range(..=at).next_back();
            match before.filter(|(first, mapping)| !mapping.left_over && *first + mapping.len > at)
            {
                Some((first, mapping)) => at = first + mapping.len,
                None => return Err(HostError::NotMapped { hole: Addr::new(at) }),
            }
        }
        Ok(())
    }

    /// Notes that the mappings in a place are gone.
    pub(super) fn unmapped(&mut self, place: Place) {
        while let Some((&start, mapping)) = self.mappings.range(place.start..place.end()).next() {
            if let Some(memory) = self.memories.get_mut(&mapping.memory) {
                memory.mappings = memory.mappings.saturating_sub(1);
            }
            self.mappings.remove(&start);
        }
    }

    /// How many mappings there are.
    pub(super) fn mappings(&self) -> usize {
        self.mappings.len()
    }

    /// All ranges: first addresses and lengths.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().map(|(&base, &len)| (base, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 4096;

    fn file() -> Arc<OwnedFd> {
        Arc::new(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap())
    }

    /// A range of eight units, and memory of two.
    fn registry() -> (Registry, u64, u64) {
        let mut registry = Registry::new(Bytes::new(UNIT), Bytes::new(8 * UNIT));
        let base = 16 * UNIT;
        registry.add_range(base, 8 * UNIT);
        let memory = registry.add_memory(Bytes::new(2 * UNIT), true, file());
        (registry, base, memory)
    }

    #[test]
    fn what_is_left_over_is_in_the_way_and_not_to_be_unmapped() {
        let (mut registry, base, memory) = registry();
        let place = registry.place(base, Bytes::new(UNIT), Bytes::new(2 * UNIT)).unwrap();
        registry.mapped(place, memory, true);
        assert_eq!(registry.left_over_of(memory), Some(place));
        assert_eq!(
            registry.check_covered(place),
            Err(HostError::NotMapped { hole: Addr::new(place.start) })
        );
        let all = Place { start: base, len: 8 * UNIT };
        assert_eq!(registry.last_within(all).map(|(place, _)| place), Some(place));
        assert_eq!(registry.remove_memory(memory), Err(HostError::MemoryInUse { mappings: 1 }));
        registry.unmapped(place);
        assert_eq!(registry.last_within(all), None);
        assert_eq!(registry.remove_memory(memory), Ok(()));
    }

    #[test]
    fn a_mapping_that_touches_a_place_is_not_within_it() {
        let (mut registry, base, memory) = registry();
        registry.mapped(Place { start: base + 2 * UNIT, len: 2 * UNIT }, memory, false);
        for (at, len, found) in [(0, 2, false), (0, 3, true), (3, 1, true), (4, 4, false)] {
            let place = Place { start: base + at * UNIT, len: len * UNIT };
            assert_eq!(registry.last_within(place).is_some(), found, "{len} from {at}");
        }
    }

    #[test]
    fn the_backing_of_a_place_is_what_is_mapped_in_it() {
        let (mut registry, base, memory) = registry();
        registry.mapped(Place { start: base + UNIT, len: 2 * UNIT }, memory, false);
        registry.mapped(Place { start: base + 4 * UNIT, len: 2 * UNIT }, memory, false);
        let backing = |at: u64, len: u64| {
            let found = registry.backing(Place { start: base + at, len });
            let offset = |at: Addr| at.value() - base;
            found
                .iter()
                .map(|b| (offset(b.at), b.len.value(), b.offset.value()))
                .collect::<Vec<_>>()
        };
        assert_eq!(backing(0, UNIT), []);
        assert_eq!(backing(2 * UNIT + 5, 7), [(2 * UNIT + 5, 7, UNIT + 5)]);
        let both = [(2 * UNIT, UNIT, UNIT), (4 * UNIT, UNIT, 0)];
        assert_eq!(backing(2 * UNIT, 3 * UNIT), both);
        assert_eq!(backing(6 * UNIT, UNIT), []);
    }

    #[test]
    fn what_is_created_counts_until_it_is_destroyed_and_what_is_imported_does_not() {
        let (mut registry, _, memory) = registry();
        let all = Bytes::new(8 * UNIT);
        registry.take(all).unwrap();
        let refused = HostError::CapacityExceeded { asked: all, used: all, capacity: all };
        assert_eq!(registry.take(all), Err(refused));
        let imported = registry.add_memory(all, false, file());
        registry.remove_memory(imported).unwrap();
        assert!(registry.take(Bytes::new(1)).is_err());
        registry.remove_memory(memory).unwrap();
        assert_eq!(registry.take(Bytes::new(2 * UNIT)), Ok(()));
        assert!(registry.take(Bytes::MAX).is_err());
    }
}
