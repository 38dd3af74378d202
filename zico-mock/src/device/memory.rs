//! Physical memory, address ranges and the mappings between them.
//!
//! Virtual addresses and physical bytes are two flat spaces of numbers. No number is used twice: an
//! access by a stale address finds nothing instead of another owner's memory, and new physical
//! memory differs from all earlier memory. The capacity limits what exists at one time.

use std::collections::BTreeMap;

use zico_core::{Addr, Bytes, Caps};

use super::error::MockError;

/// Where the first range may begin, so that no valid address is small.
const FIRST_ADDRESS: u64 = 1 << 40;

/// The end of the virtual address space.
const LAST_ADDRESS: u64 = 1 << 63;

/// The error for unknown memory: a handle that is not this device's.
const NO_MEMORY: MockError = MockError::Foreign { what: "memory" };

/// A stretch of bytes, physical or virtual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A reserved range, by its base: bases are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) base: u64,
    pub(crate) len: u64,
}

/// How much of the device is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Physical memory that exists now.
    pub physical: Bytes,
    /// The most physical memory that has existed at one time.
    pub peak_physical: Bytes,
    /// Pieces of physical memory that exist now.
    pub memories: u64,
    /// Reserved address ranges.
    pub ranges: u64,
    /// Mappings in all ranges.
    pub mappings: u64,
    /// The total number of mappings made.
    pub mapped: u64,
}

/// The device's memory: what exists and where it can be reached.
#[derive(Debug)]
pub(crate) struct Space {
    caps: Caps,
    next_address: u64,
    next_physical: u64,
    physical: u64,
    peak: u64,
    ranges: u64,
    /// Physical memory by its first byte.
    memories: BTreeMap<u64, Memory>,
    /// Mappings by their first address.
    mappings: BTreeMap<u64, Mapping>,
    /// The total number of mappings made.
    mapped: u64,
}

#[derive(Debug)]
struct Memory {
    len: u64,
    mappings: u32,
    handles: u32,
}

#[derive(Debug)]
struct Mapping {
    len: u64,
    physical: u64,
}

impl Space {
    pub(crate) fn new(caps: Caps) -> Self {
        Self {
            caps,
            next_address: FIRST_ADDRESS,
            next_physical: 0,
            physical: 0,
            peak: 0,
            ranges: 0,
            memories: BTreeMap::new(),
            mappings: BTreeMap::new(),
            mapped: 0,
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            physical: Bytes::new(self.physical),
            peak_physical: Bytes::new(self.peak),
            memories: self.memories.len() as u64,
            ranges: self.ranges,
            mappings: self.mappings.len() as u64,
            mapped: self.mapped,
        }
    }

    pub(crate) fn reserve(&mut self, len: Bytes, align: Bytes) -> Result<Span, MockError> {
        let granularity = self.caps.granularity;
        self.check_length(len)?;
        if !align.value().is_power_of_two() || align < granularity {
            return Err(MockError::BadAlignment { align, granularity });
        }
        let base = self.next_address.checked_next_multiple_of(align.value());
        let range = base.and_then(|base| Some((base, base.checked_add(len.value())?)));
        let Some((base, end)) = range.filter(|(_, end)| *end <= LAST_ADDRESS) else {
            return Err(MockError::OutOfAddresses { asked: len, align });
        };
        // One unit between any two ranges belongs to neither: an access beyond the end is detected.
        self.next_address = end.saturating_add(granularity.value());
        self.ranges += 1;
        Ok(Span { base, len: len.value() })
    }

    pub(crate) fn release(&mut self, range: Span) -> Result<(), MockError> {
        if let Some((&mapped, _)) = self.mappings.range(range.base..range.base + range.len).next() {
            return Err(MockError::RangeInUse { mapped: Addr::new(mapped) });
        }
        self.ranges -= 1;
        Ok(())
    }

    /// Creates physical memory and returns its first byte.
    pub(crate) fn create(&mut self, len: Bytes) -> Result<u64, MockError> {
        self.check_length(len)?;
        let left = self.caps.capacity.saturating_sub(Bytes::new(self.physical));
        let start = self.next_physical;
        let Some(end) = start.checked_add(len.value()).filter(|_| len <= left) else {
            return Err(MockError::OutOfMemory { asked: len, left });
        };
        self.next_physical = end;
        self.physical += len.value();
        self.peak = self.peak.max(self.physical);
        self.memories.insert(start, Memory { len: len.value(), mappings: 0, handles: 1 });
        Ok(start)
    }

    /// One more handle of a piece of memory, which is there until all of them are destroyed.
    pub(crate) fn share(&mut self, start: u64) -> Result<(), MockError> {
        let memory = self.memories.get_mut(&start).ok_or(NO_MEMORY)?;
        memory.handles += 1;
        Ok(())
    }

    pub(crate) fn destroy(&mut self, start: u64) -> Result<(), MockError> {
        let memory = self.memories.get_mut(&start).ok_or(NO_MEMORY)?;
        if memory.handles > 1 {
            memory.handles -= 1;
            return Ok(());
        }
        if memory.mappings > 0 {
            return Err(MockError::MemoryInUse { mappings: memory.mappings });
        }
        self.physical -= memory.len;
        self.memories.remove(&start);
        Ok(())
    }

    /// Maps pieces of memory, named by where they start, side by side: all of them or none.
    pub(crate) fn map(
        &mut self,
        range: Span,
        at: Bytes,
        pieces: impl Iterator<Item = u64>,
    ) -> Result<(), MockError> {
        let mut end = at;
        for start in pieces {
            match self.map_one(range, end, start) {
                Ok(len) => end = end.saturating_add(len),
                Err(error) => {
                    if end > at {
                        self.unmap(range, at, end.saturating_sub(at))?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn map_one(&mut self, range: Span, at: Bytes, start: u64) -> Result<Bytes, MockError> {
        self.check_offset(at)?;
        let memory = self.memories.get_mut(&start).ok_or(NO_MEMORY)?;
        let place = within(range, at, Bytes::new(memory.len))?;
        // Mappings are disjoint, so only the last one that begins before the end can be in the way.
        if let Some((&mapped, mapping)) = self.mappings.range(..place.end).next_back()
            && mapped + mapping.len > place.start
        {
            return Err(MockError::Occupied { mapped: Addr::new(mapped) });
        }
        memory.mappings += 1;
        self.mapped += 1;
        self.mappings.insert(place.start, Mapping { len: memory.len, physical: start });
        Ok(Bytes::new(memory.len))
    }

    /// Removes mappings and returns the addresses that are no longer mapped.
    pub(crate) fn unmap(&mut self, range: Span, at: Bytes, len: Bytes) -> Result<Piece, MockError> {
        self.check_offset(at)?;
        self.check_length(len)?;
        let place = within(range, at, len)?;
        self.check_covered(place)?;
        while let Some((&first, _)) = self.mappings.range(place.start..place.end).next() {
            if let Some(mapping) = self.mappings.remove(&first)
                && let Some(memory) = self.memories.get_mut(&mapping.physical)
            {
                memory.mappings -= 1;
            }
        }
        Ok(place)
    }

    /// The addresses of `len` bytes from `at` of a range, all of which are mapped.
    pub(crate) fn mapped(&self, range: Span, at: Bytes, len: Bytes) -> Result<Piece, MockError> {
        self.check_offset(at)?;
        self.check_length(len)?;
        let place = within(range, at, len)?;
        let found = self.translate(Addr::new(place.start), len, &mut Vec::new());
        found.map(|()| place).map_err(|hole| MockError::NotMapped { hole })
    }

    /// Finds the physical bytes behind `len` bytes from `addr`, merging what is contiguous.
    ///
    /// Fails with the first address at which nothing is mapped.
    pub(crate) fn translate(
        &self,
        addr: Addr,
        len: Bytes,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Addr> {
        let mut at = addr.value();
        let end = at.checked_add(len.value()).ok_or(addr)?;
        let first = self.mappings.range(..=at).next_back().map_or(at, |(&start, _)| start);
        for (&mapped, mapping) in self.mappings.range(first..end.max(first)) {
            let stop = end.min(mapped + mapping.len);
            if at == end || mapped > at || stop <= at {
                break;
            }
            let start = mapping.physical + (at - mapped);
            match pieces.last_mut() {
                Some(last) if last.end == start => last.end += stop - at,
                _ => pieces.push(Piece { start, end: start + (stop - at) }),
            }
            at = stop;
        }
        if at == end { Ok(()) } else { Err(Addr::new(at)) }
    }

    /// Whether `place` consists of whole mappings.
    fn check_covered(&self, place: Piece) -> Result<(), MockError> {
        let before = self.mappings.range(..place.start).next_back();
        let mut at = place.start;
        for (&mapped, mapping) in before.into_iter().chain(self.mappings.range(at..place.end)) {
            let end = mapped + mapping.len;
            let outside = mapped < place.start || end > place.end;
            if outside && end > place.start {
                let len = Bytes::new(mapping.len);
                return Err(MockError::CutsMapping { mapped: Addr::new(mapped), len });
            }
            if mapped == at {
                at = end;
            }
        }
        if at == place.end { Ok(()) } else { Err(MockError::NotMapped { hole: Addr::new(at) }) }
    }

    fn check_length(&self, len: Bytes) -> Result<(), MockError> {
        if len.is_zero() {
            return Err(MockError::BadSize { size: len, granularity: self.caps.granularity });
        }
        self.check_offset(len)
    }

    fn check_offset(&self, size: Bytes) -> Result<(), MockError> {
        let granularity = self.caps.granularity;
        if size.value().is_multiple_of(granularity.value()) {
            Ok(())
        } else {
            Err(MockError::BadSize { size, granularity })
        }
    }
}

/// The addresses of `len` bytes from `at` of a range.
fn within(range: Span, at: Bytes, len: Bytes) -> Result<Piece, MockError> {
    match at.checked_add(len) {
        Some(end) if end.value() <= range.len => {
            Ok(Piece { start: range.base + at.value(), end: range.base + end.value() })
        }
        _ => Err(MockError::BeyondRange { at, len, range: Bytes::new(range.len) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translation_merges_what_is_contiguous_and_finds_holes() {
        let unit = Bytes::mib(2);
        let mut space = Space::new(Caps::new(unit, Bytes::gib(1)));
        let range = space.reserve(Bytes::mib(16), unit).unwrap();
        let memory: Vec<_> = (0..3).map(|_| space.create(unit).unwrap()).collect();
        // Units 0, 1 and 2 of the device, then unit 1 again; nothing behind.
        for (at, index) in [(0, 0), (2, 1), (4, 2), (6, 1)] {
            space.map(range, Bytes::mib(at), std::iter::once(memory[index])).unwrap();
        }
        let mib = |n: u64| Bytes::mib(n).value();
        let translate = |at: u64, len: u64| {
            let mut pieces = Vec::new();
            let addr = Addr::new(range.base + mib(at));
            let found = space.translate(addr, Bytes::mib(len), &mut pieces);
            found.map(|()| pieces.iter().map(|p| (p.start, p.end)).collect::<Vec<_>>())
        };
        assert_eq!(translate(1, 4), Ok(vec![(mib(1), mib(5))]));
        assert_eq!(translate(3, 5), Ok(vec![(mib(3), mib(6)), (mib(2), mib(4))]));
        assert_eq!(translate(3, 0), Ok(vec![]));
        assert_eq!(translate(7, 2), Err(Addr::new(range.base + mib(8))));
        assert_eq!(translate(9, 1), Err(Addr::new(range.base + mib(9))));
        let past_the_end = space.translate(Addr::MAX, Bytes::mib(1), &mut Vec::new());
        assert_eq!(past_the_end, Err(Addr::MAX));
    }
}
