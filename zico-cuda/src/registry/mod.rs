//! The registry of what a device has given out: address ranges, physical memory, and mappings.
//!
//! The driver checks less than the contract of [`Device`](zico_core::Device) demands: for example,
//! it releases memory that is still mapped. So each call is checked against the registry first, and
//! the registry is updated with the result of the call. No lock is held across a driver call. While
//! a mapping is being made or removed, its state is *changing*, and every other use of its
//! addresses is refused.
//!
//! A mapping is two driver calls, `cuMemMap` and `cuMemSetAccess`. If the second fails and taking
//! the first back fails too, the mapping is *left over*: callers do not see it, and it is removed
//! before its address or its memory is used again.

use std::collections::BTreeMap;

use zico_core::{Addr, Bytes};

use crate::error::CudaError;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    granularity: u64,
    /// By their first address.
    ranges: BTreeMap<u64, Reservation>,
    /// By a number of our own: the driver may reuse a handle.
    memories: BTreeMap<u64, Memory>,
    /// By their first address.
    mappings: BTreeMap<u64, Mapping>,
    next: u64,
}

/// A reserved address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) base: u64,
    pub(crate) len: u64,
    /// The whole reservation, which may be longer because of the alignment.
    pub(crate) reserved: (u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Memory {
    handle: u64,
    len: u64,
    /// The number of its mappings in the registry.
    mappings: u32,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    len: u64,
    memory: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Mapped,
    Changing,
    LeftOver,
}

/// A range of addresses: start and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Place {
    const fn end(self) -> u64 {
        self.start + self.len
    }

    /// The range from this place to the end of `last`.
    pub(crate) fn up_to(self, last: Self) -> Self {
        Self { len: last.end() - self.start, ..self }
    }
}

/// Why a call cannot be made now: a left-over mapping has to be removed first, or the call is
/// refused.
#[derive(Debug)]
pub(crate) enum Blocked {
    By(Place),
    Refused(CudaError),
}

impl From<CudaError> for Blocked {
    fn from(error: CudaError) -> Self {
        Self::Refused(error)
    }
}

impl Registry {
    pub(crate) fn new(granularity: u64) -> Self {
        Self { granularity, ..Self::default() }
    }

    pub(crate) fn check_length(&self, len: Bytes) -> Result<(), CudaError> {
        if len.is_zero() {
            return Err(self.bad_size(len));
        }
        self.check_offset(len)
    }

    pub(crate) fn add_range(&mut self, range: Reservation) {
        self.ranges.insert(range.base, range);
    }

    /// Removes a range. This comes before the call of the driver, which may give the same addresses
    /// to another thread at once.
    pub(crate) fn release(&mut self, base: u64) -> Result<Reservation, Blocked> {
        let range = *self.ranges.get(&base).ok_or(CudaError::Foreign { what: "range" })?;
        match self.mappings.range(base..base + range.len).next() {
            Some((&start, &Mapping { len, state: State::LeftOver, .. })) => {
                Err(Blocked::By(Place { start, len }))
            }
            Some((&start, _)) => Err(CudaError::RangeInUse { mapped: Addr::new(start) }.into()),
            None => {
                self.ranges.remove(&base);
                Ok(range)
            }
        }
    }

    /// Adds memory and returns its number.
    pub(crate) fn add_memory(&mut self, handle: u64, len: u64) -> u64 {
        self.next += 1;
        self.memories.insert(self.next, Memory { handle, len, mappings: 0 });
        self.next
    }

    pub(crate) fn handle(&self, memory: u64) -> Result<u64, CudaError> {
        self.memory(memory).map(|memory| memory.handle)
    }

    /// The handle to release to destroy memory.
    pub(crate) fn destroy(&self, key: u64) -> Result<u64, Blocked> {
        let memory = self.memory(key)?;
        let left_over = |(_, mapping): &(&u64, &Mapping)| {
            mapping.memory == key && mapping.state == State::LeftOver
        };
        match memory.mappings {
            0 => Ok(memory.handle),
            mappings => match self.mappings.iter().find(left_over) {
                Some((&start, mapping)) => Err(Blocked::By(Place { start, len: mapping.len })),
                None => Err(CudaError::MemoryInUse { mappings }.into()),
            },
        }
    }

    pub(crate) fn destroyed(&mut self, memory: u64) {
        self.memories.remove(&memory);
    }

    /// The addresses at which pieces of memory are to be mapped, side by side, and their handles.
    /// The addresses count as taken from now on.
    pub(crate) fn map(
        &mut self,
        base: u64,
        at: Bytes,
        keys: &[u64],
    ) -> Result<Vec<(Place, u64)>, Blocked> {
        let mut pieces: Vec<(Place, u64)> = Vec::with_capacity(keys.len());
        let mut end = at;
        for &key in keys {
            match self.map_one(base, end, key) {
                Ok(piece) => {
                    end = end.saturating_add(Bytes::new(piece.0.len));
                    pieces.push(piece);
                }
                Err(blocked) => {
                    pieces.iter().for_each(|&(place, _)| self.unmapped(place));
                    return Err(blocked);
                }
            }
        }
        Ok(pieces)
    }

    fn map_one(&mut self, base: u64, at: Bytes, key: u64) -> Result<(Place, u64), Blocked> {
        self.check_offset(at)?;
        let Memory { handle, len, .. } = *self.memory(key)?;
        let place = self.within(base, at, Bytes::new(len))?;
        // Mappings are disjoint, so only the last one that begins before the end can be in the way.
        if let Some((&start, mapping)) = self.mappings.range(..place.end()).next_back()
            && start + mapping.len > place.start
        {
            return Err(match mapping.state {
                State::LeftOver => Blocked::By(Place { start, len: mapping.len }),
                _ => CudaError::Occupied { mapped: Addr::new(start) }.into(),
            });
        }
        self.mappings.insert(place.start, Mapping { len, memory: key, state: State::Changing });
        if let Some(memory) = self.memories.get_mut(&key) {
            memory.mappings += 1;
        }
        Ok((place, handle))
    }

    /// Notes that the place is mapped.
    pub(crate) fn mapped(&mut self, place: Place) {
        self.set(place, State::Mapped);
    }

    /// Notes that the place is mapped although it should not be.
    pub(crate) fn left_over(&mut self, place: Place) {
        self.set(place, State::LeftOver);
    }

    /// The addresses to unmap: those of whole mappings, whose state becomes *changing*.
    pub(crate) fn unmap(&mut self, base: u64, at: Bytes, len: Bytes) -> Result<Place, CudaError> {
        self.check_offset(at)?;
        self.check_length(len)?;
        let place = self.within(base, at, len)?;
        self.check_covered(place)?;
        self.set(place, State::Changing);
        Ok(place)
    }

    /// Marks a left-over mapping as being removed. False if another thread does that already.
    pub(crate) fn claim_left_over(&mut self, place: Place) -> bool {
        match self.mappings.get_mut(&place.start) {
            Some(mapping) if mapping.state == State::LeftOver => {
                mapping.state = State::Changing;
                true
            }
            _ => false,
        }
    }

    /// Notes that nothing is mapped at the place.
    pub(crate) fn unmapped(&mut self, place: Place) {
        while let Some((&start, mapping)) = self.mappings.range(place.start..place.end()).next() {
            if let Some(memory) = self.memories.get_mut(&mapping.memory) {
                memory.mappings -= 1;
            }
            self.mappings.remove(&start);
        }
    }

    /// The first of `len` addresses from `at` of a range, whole units.
    pub(crate) fn place(&self, base: u64, at: Bytes, len: Bytes) -> Result<u64, CudaError> {
        self.check_offset(at)?;
        self.check_length(len)?;
        self.within(base, at, len).map(|place| place.start)
    }

    /// Whether all of `len` bytes from `addr` are mapped.
    pub(crate) fn is_mapped(&self, addr: Addr, len: Bytes) -> Result<(), CudaError> {
        let not_mapped = |at| CudaError::NotMapped { hole: Addr::new(at) };
        let (mut at, len) = (addr.value(), len.value());
        let end = at.checked_add(len).ok_or(not_mapped(at))?;
        while at < end {
            match self.mappings.range(..=at).next_back() {
                Some((start, mapping))
                    if start + mapping.len > at && mapping.state == State::Mapped =>
                {
                    at = start + mapping.len;
                }
                _ => return Err(not_mapped(at)),
            }
        }
        Ok(())
    }

    /// Removes and returns everything: mappings, handles of memory, reserved ranges.
    pub(crate) fn take_all(&mut self) -> (Vec<Place>, Vec<u64>, Vec<(u64, u64)>) {
        let mappings = std::mem::take(&mut self.mappings);
        let mappings =
            mappings.into_iter().map(|(start, Mapping { len, .. })| Place { start, len });
        let memories = std::mem::take(&mut self.memories);
        let ranges = std::mem::take(&mut self.ranges);
        (
            mappings.collect(),
            memories.into_values().map(|memory| memory.handle).collect(),
            ranges.into_values().map(|range| range.reserved).collect(),
        )
    }

    fn memory(&self, key: u64) -> Result<&Memory, CudaError> {
        self.memories.get(&key).ok_or(CudaError::Foreign { what: "memory" })
    }

    fn set(&mut self, place: Place, state: State) {
        for (_, mapping) in self.mappings.range_mut(place.start..place.end()) {
            mapping.state = state;
        }
    }

    /// The addresses of `len` bytes from `at` of a range.
    fn within(&self, base: u64, at: Bytes, len: Bytes) -> Result<Place, CudaError> {
        let range = self.ranges.get(&base).ok_or(CudaError::Foreign { what: "range" })?;
        match at.checked_add(len) {
            Some(end) if end.value() <= range.len => {
                Ok(Place { start: base + at.value(), len: len.value() })
            }
            _ => Err(CudaError::BeyondRange { at, len, range: Bytes::new(range.len) }),
        }
    }

    /// Whether `place` consists of whole mappings.
    fn check_covered(&self, place: Place) -> Result<(), CudaError> {
        let before = self.mappings.range(..place.start).next_back();
        let mut at = place.start;
        for (&start, mapping) in before.into_iter().chain(self.mappings.range(at..place.end())) {
            let end = start + mapping.len;
            if end <= place.start {
                continue;
            }
            if start < place.start || end > place.end() {
                let len = Bytes::new(mapping.len);
                return Err(CudaError::CutsMapping { mapped: Addr::new(start), len });
            }
            if start != at || mapping.state != State::Mapped {
                break;
            }
            at = end;
        }
        if at == place.end() { Ok(()) } else { Err(CudaError::NotMapped { hole: Addr::new(at) }) }
    }

    fn check_offset(&self, size: Bytes) -> Result<(), CudaError> {
        if size.value().is_multiple_of(self.granularity) {
            Ok(())
        } else {
            Err(self.bad_size(size))
        }
    }

    fn bad_size(&self, size: Bytes) -> CudaError {
        CudaError::BadSize { size, granularity: Bytes::new(self.granularity) }
    }
}

#[cfg(test)]
mod tests;
