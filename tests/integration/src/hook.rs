//! A device wrapper that runs a test's step at the next call of an operation: one chosen
//! interleaving of two threads.
//!
//! The core holds no lock during a device call. So a step made there on the same thread has the
//! effect of a step by another thread at that point, and the interleaving is the same in each run.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use zico_core::{Addr, Bytes, Caps, Class, Device, DeviceError, Passed, Refused, Ticks};
use zico_mock::{MockDevice, MockError, MockStream, Operation};

/// Before or after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before; the step says whether the call is then to fail.
    Before,
    /// After; what the step says does not matter.
    After,
}

/// A call failed, or was made to.
#[derive(Debug)]
pub enum HookError {
    /// The device refused.
    Device(MockError),
    /// The step said so.
    Made,
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for HookError {}

impl DeviceError for HookError {
    fn class(&self) -> Class {
        match self {
            Self::Device(error) => error.class(),
            Self::Made => Class::Transient,
        }
    }
}

type Step = Box<dyn FnOnce() -> bool + Send>;

/// The device. Clones are handles to the same one.
#[derive(Clone)]
pub struct Hook {
    device: MockDevice,
    steps: Arc<Mutex<Vec<(Operation, When, Step)>>>,
    /// Before an event is recorded on one stream.
    on_streams: Arc<Mutex<Vec<(MockStream, Step)>>>,
}

impl Hook {
    /// A wrapper without a step.
    #[must_use]
    pub fn new(device: MockDevice) -> Self {
        Self { device, steps: Arc::default(), on_streams: Arc::default() }
    }

    /// At the next call of an operation `step` is taken, once. Several steps are queued.
    pub fn on(
        &self,
        operation: Operation,
        when: When,
        step: impl FnOnce() -> bool + Send + 'static,
    ) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push((operation, when, Box::new(step)));
    }

    /// Before the next event is recorded on this stream `step` is taken, once. It says whether that
    /// fails.
    pub fn on_stream(&self, stream: MockStream, step: impl FnOnce() -> bool + Send + 'static) {
        let mut steps = self.on_streams.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push((stream, Box::new(step)));
    }

    fn fire_on_stream(&self, stream: MockStream) -> bool {
        let step = {
            let mut steps = self.on_streams.lock().unwrap_or_else(PoisonError::into_inner);
            let next = steps.iter().position(|(on, _)| *on == stream);
            next.map(|next| steps.remove(next).1)
        };
        step.is_some_and(|step| step())
    }

    fn fire(&self, operation: Operation, when: When) -> bool {
        let step = {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            let next = steps.iter().position(|step| (step.0, step.1) == (operation, when));
            next.map(|next| steps.remove(next).2)
        };
        step.is_some_and(|step| step())
    }

    fn call<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&MockDevice) -> Result<T, MockError>,
    ) -> Result<T, HookError> {
        if self.fire(operation, When::Before) {
            return Err(HookError::Made);
        }
        let result = call(&self.device).map_err(HookError::Device);
        self.fire(operation, When::After);
        result
    }
}

/// A refusal of the mock as one of the hook.
fn refused<T>(refused: Refused<T, MockError>) -> Refused<T, HookError> {
    Refused { resource: refused.resource, error: HookError::Device(refused.error) }
}

impl Device for Hook {
    type Range = <MockDevice as Device>::Range;
    type Memory = <MockDevice as Device>::Memory;
    type Stream = MockStream;
    type Event = <MockDevice as Device>::Event;
    type Error = HookError;

    fn caps(&self) -> Caps {
        self.device.caps()
    }

    fn now(&self) -> Ticks {
        self.device.now()
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<Self::Range, HookError> {
        self.call(Operation::Reserve, |device| device.reserve(len, align))
    }

    fn base(&self, range: &Self::Range) -> Addr {
        self.device.base(range)
    }

    fn release(&self, range: Self::Range) -> Result<(), Refused<Self::Range, HookError>> {
        self.device.release(range).map_err(refused)
    }

    fn create(&self, len: Bytes) -> Result<Self::Memory, HookError> {
        self.call(Operation::Create, |device| device.create(len))
    }

    fn destroy(&self, memory: Self::Memory) -> Result<(), Refused<Self::Memory, HookError>> {
        self.device.destroy(memory).map_err(refused)
    }

    fn map(
        &self,
        range: &Self::Range,
        at: Bytes,
        memory: &[&Self::Memory],
    ) -> Result<(), HookError> {
        self.call(Operation::Map, |device| device.map(range, at, memory))
    }

    fn unmap(&self, range: &Self::Range, at: Bytes, len: Bytes) -> Result<(), HookError> {
        self.call(Operation::Unmap, |device| device.unmap(range, at, len))
    }

    fn record(&self, stream: MockStream) -> Result<Self::Event, HookError> {
        if self.fire_on_stream(stream) {
            return Err(HookError::Made);
        }
        self.call(Operation::Record, |device| device.record(stream))
    }

    fn query(&self, event: &Self::Event) -> Result<Passed, HookError> {
        self.call(Operation::Query, |device| device.query(event))
    }

    fn order_after(&self, stream: MockStream, event: &Self::Event) -> Result<(), HookError> {
        self.call(Operation::OrderAfter, |device| device.order_after(stream, event))
    }
}
