//! The mock device with one defect.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use zico_conformance::Workload;
use zico_core::{
    Addr, Bytes, Caps, Device, Host, HostMemory, HostTier, Link, Passed, Refused, Ticks,
};
use zico_mock::{MockDevice, MockError, MockEvent, MockMemory, MockRange, MockStream, Operation};

/// What is wrong with a [`Broken`] device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    Nothing,
    GranularityIsNoPowerOfTwo,
    AlignmentIsIgnored,
    /// The operation succeeds where it has to be refused.
    NeverRefuses(Operation),
    DestroyLeaks,
    /// Of pieces that cannot all be mapped it maps the first.
    MapsTheFirst,
    /// A piece of memory can have one address at a time only.
    MapsOnce,
    UnmapWaits,
    EventsPassAtOnce,
    EventsPassEveryOtherTime,
    EventsWaitForEverything,
    WaitsDoNothing,
    ClockGoesBack,
    FreeLeaks,
    CopiesNothing,
    /// Copies of more than one unit do not come back.
    CopiesOneUnit,
    /// More is copied back than was asked for.
    CopiesTooMuch,
    /// Copies do not wait for the work before them.
    CopiesOutOfTurn,
    /// The caller waits until a copy has been made.
    CopyWaits,
}

impl Defect {
    pub(crate) const ALL: [Self; 28] = [
        Self::GranularityIsNoPowerOfTwo,
        Self::AlignmentIsIgnored,
        Self::NeverRefuses(Operation::Reserve),
        Self::NeverRefuses(Operation::Release),
        Self::NeverRefuses(Operation::Create),
        Self::NeverRefuses(Operation::Destroy),
        Self::NeverRefuses(Operation::Map),
        Self::NeverRefuses(Operation::Unmap),
        Self::NeverRefuses(Operation::Record),
        Self::DestroyLeaks,
        Self::MapsTheFirst,
        Self::MapsOnce,
        Self::UnmapWaits,
        Self::EventsPassAtOnce,
        Self::EventsPassEveryOtherTime,
        Self::EventsWaitForEverything,
        Self::WaitsDoNothing,
        Self::ClockGoesBack,
        Self::NeverRefuses(Operation::Allocate),
        Self::NeverRefuses(Operation::Free),
        Self::NeverRefuses(Operation::CopyOut),
        Self::NeverRefuses(Operation::CopyIn),
        Self::FreeLeaks,
        Self::CopiesNothing,
        Self::CopiesOneUnit,
        Self::CopiesTooMuch,
        Self::CopiesOutOfTurn,
        Self::CopyWaits,
    ];
}

/// The mock with a defect.
pub(crate) struct Broken {
    device: MockDevice,
    defect: Defect,
    calls: AtomicU64,
    /// What is mapped: the address, and where the caller keeps the piece of memory.
    mapped: Mutex<Vec<(Addr, usize)>>,
}

impl Broken {
    pub(crate) fn new(device: MockDevice, defect: Defect) -> Self {
        Self { device, defect, calls: AtomicU64::new(0), mapped: Mutex::default() }
    }

    /// The result, or what a device that never refuses makes of it.
    fn or<T, E>(
        &self,
        operation: Operation,
        result: Result<T, E>,
        instead: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if self.defect == Defect::NeverRefuses(operation) {
            result.or_else(|_| instead())
        } else {
            result
        }
    }
}

impl Device for Broken {
    type Range = MockRange;
    type Memory = MockMemory;
    type Stream = MockStream;
    type Event = MockEvent;
    type Error = MockError;

    fn caps(&self) -> Caps {
        let mut caps = self.device.caps();
        if self.defect == Defect::GranularityIsNoPowerOfTwo {
            caps.granularity = Bytes::new(3 * caps.granularity.value());
        }
        caps
    }

    fn now(&self) -> Ticks {
        let now = self.device.now();
        if self.defect == Defect::ClockGoesBack { Ticks::MAX.saturating_sub(now) } else { now }
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<MockRange, MockError> {
        let unit = self.device.caps().granularity;
        let align = if self.defect == Defect::AlignmentIsIgnored { unit } else { align };
        let result = self.device.reserve(len, align);
        self.or(Operation::Reserve, result, || self.device.reserve(unit, unit))
    }

    fn base(&self, range: &MockRange) -> Addr {
        self.device.base(range)
    }

    fn release(&self, range: MockRange) -> Result<(), Refused<MockRange, MockError>> {
        self.or(Operation::Release, self.device.release(range), || Ok(()))
    }

    fn create(&self, len: Bytes) -> Result<MockMemory, MockError> {
        let result = self.device.create(len);
        self.or(Operation::Create, result, || self.device.create(self.device.caps().granularity))
    }

    fn destroy(&self, memory: MockMemory) -> Result<(), Refused<MockMemory, MockError>> {
        if self.defect == Defect::DestroyLeaks {
            return Ok(());
        }
        self.or(Operation::Destroy, self.device.destroy(memory), || Ok(()))
    }

    fn map(&self, range: &MockRange, at: Bytes, memory: &[&MockMemory]) -> Result<(), MockError> {
        if self.defect == Defect::MapsOnce {
            let address = self.base(range).checked_add(at).unwrap();
            let pieces = memory.iter().map(|piece| (address, std::ptr::from_ref(*piece).addr()));
            let mut mapped = self.mapped.lock().unwrap();
            for (_, piece) in pieces.clone() {
                if let Some(&(mapped, _)) = mapped.iter().find(|(_, one)| *one == piece) {
                    return Err(MockError::Occupied { mapped });
                }
            }
            mapped.extend(pieces);
        }
        let result = self.device.map(range, at, memory);
        if let (Defect::MapsTheFirst, Err(_), [first, ..]) = (self.defect, &result, memory) {
            let _ = self.device.map(range, at, &[first]);
        }
        self.or(Operation::Map, result, || Ok(()))
    }

    fn unmap(&self, range: &MockRange, at: Bytes, len: Bytes) -> Result<(), MockError> {
        if self.defect == Defect::UnmapWaits {
            self.device.run_until_idle();
        }
        let address = self.base(range).checked_add(at).unwrap();
        self.mapped.lock().unwrap().retain(|(mapped, _)| *mapped != address);
        self.or(Operation::Unmap, self.device.unmap(range, at, len), || Ok(()))
    }

    fn record(&self, stream: MockStream) -> Result<MockEvent, MockError> {
        let result = self.device.record(stream);
        self.or(Operation::Record, result, || self.device.record(self.device.add_stream()))
    }

    fn query(&self, event: &MockEvent) -> Result<Passed, MockError> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.defect {
            Defect::EventsPassAtOnce => Ok(Passed::Yes),
            Defect::EventsPassEveryOtherTime if calls.is_multiple_of(2) => Ok(Passed::Yes),
            Defect::EventsPassEveryOtherTime => Ok(Passed::NotYet),
            Defect::EventsWaitForEverything if !self.device.idle() => Ok(Passed::NotYet),
            _ => self.device.query(event),
        }
    }

    fn order_after(&self, stream: MockStream, event: &MockEvent) -> Result<(), MockError> {
        if self.defect == Defect::WaitsDoNothing {
            return Ok(());
        }
        self.device.order_after(stream, event)
    }

    fn host(&self) -> Option<Host<'_, Self>> {
        Some(self)
    }
}

impl Broken {
    fn tier(&self) -> Host<'_, MockDevice> {
        self.device.host().unwrap()
    }

    /// The stream on which a copy is made, and how much of it.
    fn copy(
        &self,
        stream: MockStream,
        memory: &HostMemory,
        operation: Operation,
        copy: impl Fn(MockStream, &HostMemory) -> Result<(), MockError>,
    ) -> Result<(), MockError> {
        match self.defect {
            Defect::CopiesNothing => return Ok(()),
            Defect::CopyWaits => drop(self.device.run_until_idle()),
            Defect::CopiesOutOfTurn => return copy(self.device.add_stream(), memory),
            _ => {}
        }
        self.or(operation, copy(stream, memory), || Ok(()))
    }
}

impl HostTier<MockRange, MockStream, MockError> for Broken {
    fn link(&self) -> Option<Link> {
        self.tier().link()
    }

    fn allocate(&self, len: Bytes) -> Result<HostMemory, MockError> {
        let unit = self.device.caps().granularity;
        self.or(Operation::Allocate, self.tier().allocate(len), || self.tier().allocate(unit))
    }

    fn free(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, MockError>> {
        if self.defect == Defect::FreeLeaks {
            return Ok(());
        }
        self.or(Operation::Free, self.tier().free(memory), || Ok(()))
    }

    fn copy_out(
        &self,
        stream: MockStream,
        range: &MockRange,
        at: Bytes,
        to: &HostMemory,
    ) -> Result<(), MockError> {
        self.copy(stream, to, Operation::CopyOut, |stream, to| {
            self.tier().copy_out(stream, range, at, to)
        })
    }

    fn copy_in(
        &self,
        stream: MockStream,
        range: &MockRange,
        at: Bytes,
        from: &HostMemory,
    ) -> Result<(), MockError> {
        let unit = self.device.caps().granularity;
        if self.defect == Defect::CopiesOneUnit && from.len() > unit {
            return Ok(());
        }
        if self.defect == Defect::CopiesTooMuch {
            let beside = at.checked_add(from.len()).unwrap();
            let _ = self.tier().copy_in(stream, range, beside, from);
        }
        self.copy(stream, from, Operation::CopyIn, |stream, from| {
            self.tier().copy_in(stream, range, at, from)
        })
    }
}

impl Workload for Broken {
    fn idle_stream(&self) -> MockStream {
        self.device.idle_stream()
    }

    fn foreign_stream(&self) -> Option<MockStream> {
        self.device.foreign_stream()
    }

    fn enqueue(&self, stream: MockStream, time: Ticks) {
        self.device.enqueue(stream, time);
    }

    fn pass(&self, time: Ticks) {
        self.device.pass(time);
    }

    fn finish(&self) {
        self.device.finish();
    }

    fn fill(&self, stream: MockStream, at: Addr, len: Bytes, seed: u32) {
        self.device.fill(stream, at, len, seed);
    }

    fn check(&self, stream: MockStream, at: Addr, len: Bytes, seed: u32) {
        self.device.check(stream, at, len, seed);
    }

    fn wrong(&self) -> u64 {
        self.device.wrong()
    }
}
