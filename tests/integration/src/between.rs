//! A device wrapper: streams can refuse events for a while, and a test's function runs before and
//! after each call.
//!
//! The core holds no lock during a device call. So a call made there on the same thread has the
//! effect of a call by another thread at that point.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zico_core::{
    Addr, Bytes, Caps, Class, Device, DeviceError, Host, HostMemory, HostTier, Link, Passed,
    Refused, Ticks,
};
use zico_mock::Operation;

use crate::hook::When;

/// A stream took no event, or the device behind refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BetweenError<E> {
    /// The stream takes no events just now.
    NoEvents(Operation),
    /// The device behind refused.
    Device(E),
}

impl<E: fmt::Display> fmt::Display for BetweenError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvents(operation) => write!(f, "{operation}: the stream takes no events now"),
            Self::Device(error) => write!(f, "{error}"),
        }
    }
}

impl<E: std::error::Error> std::error::Error for BetweenError<E> {}

impl<E: DeviceError> DeviceError for BetweenError<E> {
    fn class(&self) -> Class {
        match self {
            Self::NoEvents(_) => Class::Transient,
            Self::Device(error) => error.class(),
        }
    }
}

/// What happens at a call.
pub type Step = Arc<dyn Fn(Operation, When) + Send + Sync>;

/// The device.
pub struct Between<D: Device> {
    device: D,
    mute: Mutex<Vec<D::Stream>>,
    step: Mutex<Option<Step>>,
    /// Whether any of that is in use.
    quiet: AtomicBool,
}

impl<D: Device> Between<D> {
    /// A wrapper that does nothing yet.
    #[must_use]
    pub fn new(device: D) -> Self {
        let (mute, step) = (Mutex::new(Vec::new()), Mutex::new(None));
        Self { device, mute, step, quiet: AtomicBool::new(true) }
    }

    /// The device behind.
    pub const fn inner(&self) -> &D {
        &self.device
    }

    /// From now on the stream takes no events, and none can be waited for on it.
    pub fn mute(&self, stream: D::Stream) {
        self.quiet.store(false, Ordering::SeqCst);
        self.mute.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }

    /// The stream takes events again.
    pub fn unmute(&self, stream: D::Stream) {
        self.mute.lock().unwrap_or_else(PoisonError::into_inner).retain(|&other| other != stream);
    }

    /// All streams take events again.
    pub fn unmute_all(&self) {
        self.mute.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether a stream takes no events.
    pub fn is_mute(&self, stream: D::Stream) -> bool {
        self.mute.lock().unwrap_or_else(PoisonError::into_inner).contains(&stream)
    }

    /// From now on this happens before and after each call.
    pub fn at_each_call(&self, step: Step) {
        self.quiet.store(false, Ordering::SeqCst);
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
    }

    fn fire(&self, operation: Operation, when: When) {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(step) = step {
            step(operation, when);
        }
    }

    fn call<T>(
        &self,
        operation: Operation,
        on: Option<D::Stream>,
        call: impl FnOnce(&D) -> Result<T, D::Error>,
    ) -> Result<T, BetweenError<D::Error>> {
        if self.quiet.load(Ordering::Relaxed) {
            return call(&self.device).map_err(BetweenError::Device);
        }
        self.fire(operation, When::Before);
        if on.is_some_and(|stream| self.is_mute(stream)) {
            return Err(BetweenError::NoEvents(operation));
        }
        let result = call(&self.device).map_err(BetweenError::Device);
        self.fire(operation, When::After);
        result
    }
}

/// A refusal of the device behind.
fn refused<T, E>(refused: Refused<T, E>) -> Refused<T, BetweenError<E>> {
    Refused { resource: refused.resource, error: BetweenError::Device(refused.error) }
}

impl<D: Device> Device for Between<D> {
    type Range = D::Range;
    type Memory = D::Memory;
    type Stream = D::Stream;
    type Event = D::Event;
    type Error = BetweenError<D::Error>;

    fn caps(&self) -> Caps {
        self.device.caps()
    }

    fn now(&self) -> Ticks {
        self.device.now()
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<Self::Range, Self::Error> {
        self.call(Operation::Reserve, None, |device| device.reserve(len, align))
    }

    fn base(&self, range: &Self::Range) -> Addr {
        self.device.base(range)
    }

    fn release(&self, range: Self::Range) -> Result<(), Refused<Self::Range, Self::Error>> {
        self.device.release(range).map_err(refused)
    }

    fn create(&self, len: Bytes) -> Result<Self::Memory, Self::Error> {
        self.call(Operation::Create, None, |device| device.create(len))
    }

    fn destroy(&self, memory: Self::Memory) -> Result<(), Refused<Self::Memory, Self::Error>> {
        self.fire(Operation::Destroy, When::Before);
        self.device.destroy(memory).map_err(refused)
    }

    fn map(
        &self,
        range: &Self::Range,
        at: Bytes,
        memory: &[&Self::Memory],
    ) -> Result<(), Self::Error> {
        self.call(Operation::Map, None, |device| device.map(range, at, memory))
    }

    fn unmap(&self, range: &Self::Range, at: Bytes, len: Bytes) -> Result<(), Self::Error> {
        self.call(Operation::Unmap, None, |device| device.unmap(range, at, len))
    }

    fn record(&self, stream: Self::Stream) -> Result<Self::Event, Self::Error> {
        self.call(Operation::Record, Some(stream), |device| device.record(stream))
    }

    fn query(&self, event: &Self::Event) -> Result<Passed, Self::Error> {
        self.call(Operation::Query, None, |device| device.query(event))
    }

    fn order_after(&self, stream: Self::Stream, event: &Self::Event) -> Result<(), Self::Error> {
        self.call(Operation::OrderAfter, Some(stream), |device| device.order_after(stream, event))
    }

    fn host(&self) -> Option<Host<'_, Self>> {
        self.device.host().map(|_| self as Host<'_, Self>)
    }
}

impl<D: Device> Between<D> {
    fn on_host<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(Host<'_, D>) -> Result<T, D::Error>,
    ) -> Result<T, BetweenError<D::Error>> {
        // It is asked for only where there is one.
        let none = BetweenError::NoEvents(operation);
        let host = self.device.host().ok_or(none)?;
        self.call(operation, None, |_| call(host))
    }
}

impl<D: Device> HostTier<D::Range, D::Stream, BetweenError<D::Error>> for Between<D> {
    fn link(&self) -> Option<Link> {
        self.device.host()?.link()
    }

    fn allocate(&self, len: Bytes) -> Result<HostMemory, BetweenError<D::Error>> {
        self.on_host(Operation::Allocate, |host| host.allocate(len))
    }

    fn free(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, BetweenError<D::Error>>> {
        self.fire(Operation::Free, When::Before);
        self.device.host().map_or(Ok(()), |host| host.free(memory).map_err(refused))
    }

    fn copy_out(
        &self,
        stream: D::Stream,
        range: &D::Range,
        at: Bytes,
        to: &HostMemory,
    ) -> Result<(), BetweenError<D::Error>> {
        self.on_host(Operation::CopyOut, |host| host.copy_out(stream, range, at, to))
    }

    fn copy_in(
        &self,
        stream: D::Stream,
        range: &D::Range,
        at: Bytes,
        from: &HostMemory,
    ) -> Result<(), BetweenError<D::Error>> {
        self.on_host(Operation::CopyIn, |host| host.copy_in(stream, range, at, from))
    }
}
