//! What a device has given out: ranges, memory, and the mappings between them.
//!
//! The driver is not asked whether a call keeps the contract of [`Device`](zico_core::Device): it
//! documents less than the contract needs (memory may be released while it is mapped, say, and stays
//! until it is unmapped). So the registry are kept here, checked before a call, and changed by what came
//! of it. No lock is held across a driver call; a mapping that is being made or taken away is in the
//! registry as *changing* meanwhile, and in everybody's way.
//!
//! A mapping is two driver calls, `cuMemMap` and `cuMemSetAccess`. If the second fails and taking the
//! first back fails too, the mapping is *left over*: it counts as none for callers, and is taken away
//! before anything else uses its address or its memory.

use std::collections::BTreeMap;

use zico_core::{Addr, Bytes};

use crate::error::CudaError;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    granularity: u64,
    /// By their first address.
    ranges: BTreeMap<u64, Reservation>,
    /// By a number of ours: a driver's handle may come again.
    memories: BTreeMap<u64, Memory>,
    /// By their first address.
    mappings: BTreeMap<u64, Mapping>,
    next: u64,
}

/// A reserved range, and what the driver calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) base: u64,
    pub(crate) len: u64,
    /// What was reserved to have that, all of it.
    pub(crate) reserved: (u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Memory {
    handle: u64,
    len: u64,
    /// All that are in the registry.
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

/// A stretch of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Place {
    const fn end(self) -> u64 {
        self.start + self.len
    }

    /// That of pieces side by side, the first of which it is.
    pub(crate) fn up_to(self, last: Self) -> Self {
        Self { len: last.end() - self.start, ..self }
    }
}

/// A mapping that was left over has to go first.
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

    /// Takes a range out, to be released. Before the driver has it: it may give the same addresses to
    /// another thread at once.
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

    /// Enters memory and says by what number it is known.
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

    /// Where in the address space pieces of memory are to be mapped, side by side, and their handles.
    /// The places are taken.
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

    /// The place is mapped now.
    pub(crate) fn mapped(&mut self, place: Place) {
        self.set(place, State::Mapped);
    }

    /// The place is mapped, and ought not to be.
    pub(crate) fn left_over(&mut self, place: Place) {
        self.set(place, State::LeftOver);
    }

    /// What to unmap: whole mappings, which change from now on.
    pub(crate) fn unmap(&mut self, base: u64, at: Bytes, len: Bytes) -> Result<Place, CudaError> {
        self.check_offset(at)?;
        self.check_length(len)?;
        let place = self.within(base, at, len)?;
        self.check_covered(place)?;
        self.set(place, State::Changing);
        Ok(place)
    }

    /// A left-over mapping that is to be taken away, unless somebody does that already.
    pub(crate) fn claim_left_over(&mut self, place: Place) -> bool {
        match self.mappings.get_mut(&place.start) {
            Some(mapping) if mapping.state == State::LeftOver => {
                mapping.state = State::Changing;
                true
            }
            _ => false,
        }
    }

    /// Nothing is mapped at the place any more.
    pub(crate) fn unmapped(&mut self, place: Place) {
        while let Some((&start, mapping)) = self.mappings.range(place.start..place.end()).next() {
            if let Some(memory) = self.memories.get_mut(&mapping.memory) {
                memory.mappings -= 1;
            }
            self.mappings.remove(&start);
        }
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

    /// All that is left, for the end: mappings, handles of memory, reserved ranges.
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

    /// Whether the bytes of `place` are those of whole mappings.
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
