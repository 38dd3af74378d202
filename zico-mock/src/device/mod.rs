//! The device in software: a handle on one lock around the timeline, the memory and the oracle.

mod clock;
mod error;
mod faulty;
mod handles;
mod link;
mod memory;
mod operation;
mod oracle;
mod timeline;
mod violation;

pub use clock::Utilisation;
pub use error::MockError;
pub use faulty::{FaultPlan, Faulty, FaultyError};
pub use handles::{Claim, MockConfig, MockEvent, MockMemory, MockRange, MockStream};
pub use memory::Usage;
pub use operation::{Calls, Operation, Operations};
pub use oracle::Access;
pub use violation::{Owner, Violation, ViolationKind};

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zico_core::{Addr, Bytes, Caps, Device, Host, Passed, Refused, Ticks};

use link::HostSpace;
use memory::Space;
use oracle::{Mark, Oracle};
use timeline::{Item, Timeline};

/// A device in software. Clones are handles on the same device.
///
/// Time advances only by [`advance_to`](Self::advance_to); all work enqueued in between is enqueued
/// at one moment. A thread that blocks until work is done, as in
/// [`Job::begin_blocking`](zico_core::Job::begin_blocking), needs another thread that advances the
/// time (the example `two_jobs_threads`). How launches share the device is in the [crate's
/// documentation](crate).
#[derive(Clone)]
pub struct MockDevice {
    id: u64,
    caps: Caps,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    timeline: Timeline<Mark>,
    space: Space,
    oracle: Oracle,
    calls: Calls,
    host: HostSpace,
}

/// Numbers devices, to tell their handles apart. No other behaviour depends on it.
static DEVICES: AtomicU64 = AtomicU64::new(0);

impl MockDevice {
    /// A device with no streams, at time zero.
    ///
    /// # Errors
    /// [`MockError::BadGranularity`] if the granularity is no power of two.
    pub fn new(config: MockConfig) -> Result<Self, MockError> {
        let granularity = config.caps.granularity;
        if !granularity.value().is_power_of_two() {
            return Err(MockError::BadGranularity { granularity });
        }
        let state = State {
            timeline: Timeline::new(),
            space: Space::new(config.caps),
            oracle: Oracle::new(config.budget),
            calls: Calls::default(),
            host: HostSpace::new(config.host, config.link),
        };
        Ok(Self {
            id: DEVICES.fetch_add(1, Ordering::Relaxed),
            caps: config.caps,
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// Adds a stream.
    #[must_use]
    pub fn add_stream(&self) -> MockStream {
        MockStream { device: self.id, number: self.lock().timeline.add_stream() }
    }

    /// Enqueues a launch that would take `work` alone and can keep `utilisation` of the device
    /// busy. No work at all is legal and takes no time.
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn launch(
        &self,
        stream: MockStream,
        work: Ticks,
        utilisation: Utilisation,
    ) -> Result<(), MockError> {
        self.check(stream)?;
        self.lock().enqueue(stream, Item::Launch { work, utilisation });
        Ok(())
    }

    /// As [`launch`](Self::launch), with the memory that the launch touches. When it starts, all of
    /// it must be mapped and owned by those in whose name it is touched.
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn launch_touching(
        &self,
        stream: MockStream,
        work: Ticks,
        utilisation: Utilisation,
        accesses: &[Access],
    ) -> Result<(), MockError> {
        self.check(stream)?;
        let mut state = self.lock();
        state.oracle.expect_touch();
        state.enqueue(stream, Item::Mark(Mark::Touch(accesses.into())));
        state.enqueue(stream, Item::Launch { work, utilisation });
        Ok(())
    }

    /// Enqueues that bytes are written. Which write it is, as a number, is what
    /// [`expect`](Self::expect) tells them by. They must be mapped and owned when the stream comes
    /// to it, as for a [launch](Self::launch_touching).
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn write(&self, stream: MockStream, to: Access, value: u64) -> Result<(), MockError> {
        self.touch(stream, Mark::Write(to, value))
    }

    /// Enqueues that bytes have to be those of a [write](Self::write) to the same addresses, all of
    /// them and in their places. Otherwise it is a [violation](ViolationKind::Changed).
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn expect(&self, stream: MockStream, of: Access, value: u64) -> Result<(), MockError> {
        self.touch(stream, Mark::Expect(of, value))
    }

    /// Enqueues that what is in bytes is nothing that may be [expected](Self::expect), as in memory
    /// that has just been allocated.
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn undefine(&self, stream: MockStream, of: Access) -> Result<(), MockError> {
        self.touch(stream, Mark::Undefine(of))
    }

    fn touch(&self, stream: MockStream, mark: Mark) -> Result<(), MockError> {
        self.check(stream)?;
        let mut state = self.lock();
        state.oracle.expect_touch();
        state.enqueue(stream, Item::Mark(mark));
        Ok(())
    }

    /// Enqueues that from here on, in the order of the stream, `len` bytes from `addr` are
    /// `owner`'s alone.
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn own(
        &self,
        stream: MockStream,
        owner: Owner,
        addr: Addr,
        len: Bytes,
    ) -> Result<Claim, MockError> {
        self.check(stream)?;
        let mut state = self.lock();
        let slot = state.oracle.open(Access { owner, addr, len });
        state.enqueue(stream, Item::Mark(Mark::Own(slot)));
        Ok(Claim { device: self.id, slot })
    }

    /// Enqueues that a claim ends. The stream may differ from the one on which the claim began;
    /// then the two must be ordered.
    ///
    /// # Errors
    /// If the stream or the claim is none of this device's. The claim goes on.
    pub fn disown(
        &self,
        stream: MockStream,
        claim: Claim,
    ) -> Result<(), Refused<Claim, MockError>> {
        let checked = self.check(stream).and_then(|()| self.same(claim.device, "claim"));
        if let Err(error) = checked {
            return Err(Refused { resource: claim, error });
        }
        self.lock().enqueue(stream, Item::Mark(Mark::Disown(claim.slot)));
        Ok(())
    }

    /// Runs the device up to a moment. One that lies in the past changes nothing.
    pub fn advance_to(&self, moment: Ticks) {
        let mut guard = self.lock();
        let State { timeline, space, oracle, .. } = &mut *guard;
        timeline.advance_to(moment, &mut |now, mark| oracle.reach(now, mark, space));
    }

    /// Runs the device until it is idle, and returns that moment.
    pub fn run_until_idle(&self) -> Ticks {
        while let Some(moment) = self.next_completion() {
            self.advance_to(moment);
        }
        self.now()
    }

    /// The moment at which the next launch finishes if nothing else is enqueued.
    #[must_use]
    pub fn next_completion(&self) -> Option<Ticks> {
        self.lock().timeline.next_completion()
    }

    /// Launches enqueued on a stream and not finished; none on a stream of another device.
    #[must_use]
    pub fn outstanding(&self, stream: MockStream) -> u64 {
        self.check(stream).map_or(0, |()| self.lock().timeline.outstanding(stream.number))
    }

    /// Launches of a stream that have finished; none on a stream of another device.
    #[must_use]
    pub fn completed(&self, stream: MockStream) -> u64 {
        self.check(stream).map_or(0, |()| self.lock().timeline.completed(stream.number))
    }

    /// Whether everything enqueued has been run.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.lock().timeline.idle()
    }

    /// The first 1,000 violations, in the order in which the device saw them.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().oracle.violations().to_vec()
    }

    /// How many violations there were.
    #[must_use]
    pub fn violation_count(&self) -> u64 {
        self.lock().oracle.count()
    }

    /// Changes the budget beyond which creating physical memory is a violation; `None` is none.
    pub fn set_budget(&self, budget: Option<Bytes>) {
        self.lock().oracle.set_budget(budget);
    }

    /// How often each operation has been called so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.lock().calls
    }

    /// How much of the device is in use, and was at most.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.lock().space.usage()
    }

    /// One more handle of a piece of memory, as another process has it that was sent a descriptor:
    /// the memory is there until all handles have been destroyed.
    ///
    /// # Errors
    /// If there is no such memory here.
    pub fn share(&self, memory: &MockMemory) -> Result<MockMemory, MockError> {
        self.same(memory.device, "memory")?;
        self.lock().space.share(memory.start)?;
        Ok(MockMemory { device: self.id, start: memory.start })
    }

    /// A poisoned lock is used: the thread that panicked belonged to a test.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the device for an operation and counts it.
    fn call(&self, operation: Operation) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.calls.count(operation);
        state
    }

    fn check(&self, stream: MockStream) -> Result<(), MockError> {
        self.same(stream.device, "stream")
    }

    fn same(&self, device: u64, what: &'static str) -> Result<(), MockError> {
        if device == self.id { Ok(()) } else { Err(MockError::Foreign { what }) }
    }
}

impl State {
    fn enqueue(&mut self, stream: MockStream, item: Item<Mark>) {
        let Self { timeline, space, oracle, .. } = self;
        timeline.enqueue(stream.number, item, &mut |now, mark| oracle.reach(now, mark, space));
    }
}

impl fmt::Debug for MockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockDevice").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl Device for MockDevice {
    type Range = MockRange;
    type Memory = MockMemory;
    type Stream = MockStream;
    type Event = MockEvent;
    type Error = MockError;

    fn caps(&self) -> Caps {
        self.caps
    }

    fn now(&self) -> Ticks {
        self.lock().timeline.now()
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<MockRange, MockError> {
        let span = self.call(Operation::Reserve).space.reserve(len, align)?;
        Ok(MockRange { device: self.id, span })
    }

    fn base(&self, range: &MockRange) -> Addr {
        Addr::new(range.span.base)
    }

    fn release(&self, range: MockRange) -> Result<(), Refused<MockRange, MockError>> {
        let mut state = self.call(Operation::Release);
        let released =
            self.same(range.device, "range").and_then(|()| state.space.release(range.span));
        released.map_err(|error| Refused { resource: range, error })
    }

    fn create(&self, len: Bytes) -> Result<MockMemory, MockError> {
        let mut state = self.call(Operation::Create);
        let start = state.space.create(len)?;
        let (now, physical) = (state.timeline.now(), state.space.usage().physical);
        state.oracle.created(now, physical);
        Ok(MockMemory { device: self.id, start })
    }

    fn destroy(&self, memory: MockMemory) -> Result<(), Refused<MockMemory, MockError>> {
        let mut state = self.call(Operation::Destroy);
        let destroyed =
            self.same(memory.device, "memory").and_then(|()| state.space.destroy(memory.start));
        destroyed.map_err(|error| Refused { resource: memory, error })
    }

    fn map(&self, range: &MockRange, at: Bytes, memory: &[&MockMemory]) -> Result<(), MockError> {
        let mut state = self.call(Operation::Map);
        self.same(range.device, "range")?;
        memory.iter().try_for_each(|memory| self.same(memory.device, "memory"))?;
        state.space.map(range.span, at, memory.iter().map(|memory| memory.start))
    }

    fn unmap(&self, range: &MockRange, at: Bytes, len: Bytes) -> Result<(), MockError> {
        let mut guard = self.call(Operation::Unmap);
        self.same(range.device, "range")?;
        let State { timeline, space, oracle, .. } = &mut *guard;
        let place = space.unmap(range.span, at, len)?;
        oracle.unmapped(timeline.now(), place, timeline.queued_marks());
        Ok(())
    }

    fn record(&self, stream: MockStream) -> Result<MockEvent, MockError> {
        let state = self.call(Operation::Record);
        self.check(stream)?;
        let position = state.timeline.record(stream.number);
        Ok(MockEvent { device: self.id, position })
    }

    fn query(&self, event: &MockEvent) -> Result<Passed, MockError> {
        let state = self.call(Operation::Query);
        self.same(event.device, "event")?;
        let passed = state.timeline.has_passed(event.position);
        Ok(if passed { Passed::Yes } else { Passed::NotYet })
    }

    fn order_after(&self, stream: MockStream, event: &MockEvent) -> Result<(), MockError> {
        let mut state = self.call(Operation::OrderAfter);
        self.check(stream)?;
        self.same(event.device, "event")?;
        state.enqueue(stream, Item::Wait(event.position));
        Ok(())
    }

    fn host(&self) -> Option<Host<'_, Self>> {
        self.has_host().then_some(self as Host<'_, Self>)
    }
}
