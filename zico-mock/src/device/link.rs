//! The host tier of the device in software: host memory, and copies over one link that all streams
//! share.
//!
//! Each direction of the link carries one copy at a time, in the order in which streams come to
//! their copies. The oracle sees a copy as an owner of the bytes that it reads or writes, from its
//! beginning to its end: who else has them meanwhile, unmaps them or uses them is in the wrong.

use std::collections::BTreeMap;

use zico_core::{Addr, Bytes, Device, HostMemory, HostTier, Link, Refused, Ticks};

use super::memory::Piece;
use super::oracle::{Access, LINK, Mark};
use super::timeline::{Item, Way};
use super::violation::ViolationKind;
use super::{MockDevice, MockError, MockRange, MockStream, Operation};

/// Host memory that the device has, and its link.
#[derive(Debug)]
pub(crate) struct HostSpace {
    capacity: Bytes,
    link: Option<Link>,
    used: Bytes,
    peak: Bytes,
    /// Bytes of all copies, out and in.
    moved: (Bytes, Bytes),
    next: u64,
    /// The lengths of pieces by number.
    pieces: BTreeMap<u64, Bytes>,
}

impl HostSpace {
    pub(crate) fn new(capacity: Bytes, link: Option<Link>) -> Self {
        let (used, peak, pieces) = (Bytes::ZERO, Bytes::ZERO, BTreeMap::new());
        let moved = (Bytes::ZERO, Bytes::ZERO);
        Self { capacity, link, used, peak, moved, next: 0, pieces }
    }

    fn moves(&mut self, way: Way, bytes: Bytes) {
        let moved = if way == Way::Out { &mut self.moved.0 } else { &mut self.moved.1 };
        *moved = moved.saturating_add(bytes);
    }

    fn allocate(&mut self, len: Bytes) -> Result<u64, MockError> {
        let left = self.capacity.saturating_sub(self.used);
        if len > left {
            return Err(MockError::OutOfHostMemory { asked: len, left });
        }
        self.used = self.used.saturating_add(len);
        self.peak = self.peak.max(self.used);
        self.next += 1;
        self.pieces.insert(self.next, len);
        Ok(self.next)
    }

    fn check(&self, memory: &HostMemory) -> Result<(), MockError> {
        let is_there = self.pieces.get(&memory.number()) == Some(&memory.len());
        is_there.then_some(()).ok_or(MockError::Foreign { what: "host memory" })
    }
}

impl MockDevice {
    /// Whether the device has a host tier.
    pub(super) fn has_host(&self) -> bool {
        self.lock().host.link.is_some()
    }

    /// How much of the host's memory the device has, and had at most.
    #[must_use]
    pub fn host_usage(&self) -> (Bytes, Bytes) {
        let state = self.lock();
        (state.host.used, state.host.peak)
    }

    /// How many bytes copies have taken to the host, and back from it. Those count that have been
    /// enqueued.
    #[must_use]
    pub fn host_traffic(&self) -> (Bytes, Bytes) {
        self.lock().host.moved
    }

    fn copy(
        &self,
        way: Way,
        stream: MockStream,
        range: &MockRange,
        at: Bytes,
        host: &HostMemory,
    ) -> Result<(), MockError> {
        let operation = if way == Way::Out { Operation::CopyOut } else { Operation::CopyIn };
        let mut state = self.call(operation);
        self.check(stream)?;
        self.same(range.device, "range")?;
        state.host.check(host)?;
        let place = state.space.mapped(range.span, at, host.len())?;
        let time = state.host.link.map_or(Ticks::MAX, |link| match way {
            Way::Out => link.time_out(host.len()),
            Way::In => link.time_back(host.len()),
        });
        let addr = Addr::new(place.start);
        let slot = state.oracle.open(Access { owner: LINK, addr, len: host.len() });
        state.oracle.expect_copy(host.number());
        state.enqueue(stream, Item::Mark(Mark::Own(slot)));
        state.enqueue(stream, Item::Copy { way, time });
        state.host.moves(way, host.len());
        let Piece { start, end } = place;
        let copied = Mark::Copied(way, Piece { start, end }, host.number());
        state.enqueue(stream, Item::Mark(copied));
        state.enqueue(stream, Item::Mark(Mark::Disown(slot)));
        Ok(())
    }
}

/// Copies of blocks, which belong to a job, where those of the host tier are of whole pieces that
/// the pool has by itself.
impl MockDevice {
    /// Enqueues a copy of bytes to the beginning of a piece of the host's memory. It has the link in
    /// that direction to itself for `time`. The bytes must be mapped and owned as for a
    /// [launch](Self::launch_touching), when the copy is reached and when it ends.
    ///
    /// # Errors
    /// If the stream or the piece is none of this device's, or the piece is too short.
    pub fn save(
        &self,
        stream: MockStream,
        from: Access,
        to: &HostMemory,
        time: Ticks,
    ) -> Result<(), MockError> {
        self.copy_block(Way::Out, stream, from, to, time)
    }

    /// Enqueues a copy back, to any address. From when it is reached until it ends, what is in the
    /// bytes is undefined.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn restore(
        &self,
        stream: MockStream,
        to: Access,
        from: &HostMemory,
        time: Ticks,
    ) -> Result<(), MockError> {
        self.copy_block(Way::In, stream, to, from, time)
    }

    fn copy_block(
        &self,
        way: Way,
        stream: MockStream,
        block: Access,
        host: &HostMemory,
        time: Ticks,
    ) -> Result<(), MockError> {
        let operation = if way == Way::Out { Operation::CopyOut } else { Operation::CopyIn };
        let mut state = self.call(operation);
        self.check(stream)?;
        state.host.check(host)?;
        if block.len > host.len() {
            return Err(MockError::BeyondRange {
                at: Bytes::ZERO,
                len: block.len,
                range: host.len(),
            });
        }
        let begin = match way {
            Way::Out => Mark::Touch([block].into()),
            Way::In => Mark::Undefine(block),
        };
        let start = block.addr.value();
        let place = Piece { start, end: start.saturating_add(block.len.value()) };
        state.oracle.expect_touch();
        state.enqueue(stream, Item::Mark(begin));
        state.oracle.expect_copy(host.number());
        state.enqueue(stream, Item::Copy { way, time });
        state.host.moves(way, block.len);
        state.oracle.expect_touch();
        state.enqueue(stream, Item::Mark(Mark::Touch([block].into())));
        state.enqueue(stream, Item::Mark(Mark::Copied(way, place, host.number())));
        Ok(())
    }
}

impl HostTier<MockRange, MockStream, MockError> for MockDevice {
    fn link(&self) -> Option<Link> {
        self.lock().host.link
    }

    fn allocate(&self, len: Bytes) -> Result<HostMemory, MockError> {
        let mut state = self.call(Operation::Allocate);
        let granularity = self.caps().granularity;
        if len.is_zero() || !len.value().is_multiple_of(granularity.value()) {
            return Err(MockError::BadSize { size: len, granularity });
        }
        state.host.allocate(len).map(|number| HostMemory::new(number, len))
    }

    fn free(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, MockError>> {
        let mut state = self.call(Operation::Free);
        let copies = state.oracle.copies(memory.number());
        let checked = state.host.check(&memory).and_then(|()| match copies {
            0 => Ok(()),
            copies => {
                let now = state.timeline.now();
                state.oracle.report(now, ViolationKind::FreedInUse { copies });
                Err(MockError::HostMemoryInUse { copies })
            }
        });
        if let Err(error) = checked {
            return Err(Refused { resource: memory, error });
        }
        state.host.pieces.remove(&memory.number());
        state.host.used = state.host.used.saturating_sub(memory.len());
        state.oracle.freed(memory.number());
        Ok(())
    }

    fn copy_out(
        &self,
        stream: MockStream,
        range: &MockRange,
        at: Bytes,
        to: &HostMemory,
    ) -> Result<(), MockError> {
        self.copy(Way::Out, stream, range, at, to)
    }

    fn copy_in(
        &self,
        stream: MockStream,
        range: &MockRange,
        at: Bytes,
        from: &HostMemory,
    ) -> Result<(), MockError> {
        self.copy(Way::In, stream, range, at, from)
    }
}
