//! Fault injection: a device that wraps a device.

use std::sync::{Mutex, PoisonError};

use zico_core::{
    Addr, Bytes, Caps, Class, Device, DeviceError, Host, HostMemory, HostTier, Link, Passed,
    Refused, Ticks,
};

use super::operation::{Calls, Operation, Operations};

/// Rules that say which calls fail and how. The first rule that matches a call decides.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    operations: Operations,
    class: Class,
    when: When,
}

#[derive(Clone, Debug)]
enum When {
    /// Calls to go; the one that finds 1 fails, and none after it.
    Nth { left: u64 },
    /// The chance of each call, and the state of the generator.
    Random { permille: u16, state: u64 },
}

impl FaultPlan {
    /// Nothing fails.
    #[must_use]
    pub const fn none() -> Self {
        Self { rules: Vec::new() }
    }

    /// The `n`th call among `operations`, counted together from 1, fails; the others do not.
    #[must_use]
    pub fn nth(self, operations: impl Into<Operations>, n: u64, class: Class) -> Self {
        self.rule(operations.into(), class, When::Nth { left: n })
    }

    /// Each call among `operations` fails with a chance of `permille` in 1000, by a generator that
    /// repeats itself for the same seed and the same calls.
    #[must_use]
    pub fn random(
        self,
        operations: impl Into<Operations>,
        permille: u16,
        seed: u64,
        class: Class,
    ) -> Self {
        self.rule(operations.into(), class, When::Random { permille, state: seed })
    }

    /// Applies every rule for this operation; the first that matches decides.
    fn decide(&mut self, operation: Operation) -> Option<Class> {
        let mut class = None;
        for rule in &mut self.rules {
            if rule.operations.contains(operation.into()) && rule.strikes() {
                class = class.or(Some(rule.class));
            }
        }
        class
    }

    fn rule(mut self, operations: Operations, class: Class, when: When) -> Self {
        self.rules.push(Rule { operations, class, when });
        self
    }
}

impl Rule {
    /// Sees a call of one of its operations and tells whether it fails.
    fn strikes(&mut self) -> bool {
        match &mut self.when {
            When::Nth { left } => {
                let strikes = *left == 1;
                *left = left.saturating_sub(1);
                strikes
            }
            When::Random { permille, state } => split_mix(state) % 1000 < u64::from(*permille),
        }
    }
}

/// Steele, Lea and Flood's SplitMix64: sufficient for choosing which call fails.
const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// An error of a [`Faulty`] device: injected, or the inner device's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultyError<E> {
    /// Injected by the plan; the inner device was not called.
    #[error("injected failure ({class:?}) of call {nth} of {operation}")]
    Injected {
        /// The operation that failed.
        operation: Operation,
        /// Which call of it, counted from 1.
        nth: u64,
        /// The class that it reports.
        class: Class,
    },
    /// The device refused.
    #[error(transparent)]
    Device(E),
}

impl<E: DeviceError> DeviceError for FaultyError<E> {
    fn class(&self) -> Class {
        match self {
            Self::Injected { class, .. } => *class,
            Self::Device(error) => error.class(),
        }
    }
}

/// A device some of whose calls fail by plan. An injected failure does not reach the inner device.
///
/// An injected [`Class::Lost`] stays: from then on every call fails so, until the plan is changed.
#[derive(Debug)]
pub struct Faulty<D> {
    device: D,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: FaultPlan,
    calls: Calls,
    injected: u64,
    lost: bool,
}

impl<D: Device> Faulty<D> {
    /// `device`, failing by `plan`.
    #[must_use]
    pub fn new(device: D, plan: FaultPlan) -> Self {
        let state = State { plan, calls: Calls::default(), injected: 0, lost: false };
        Self { device, state: Mutex::new(state) }
    }

    /// Replaces the plan; counting starts anew, and a device lost by injection works again.
    pub fn set_plan(&self, plan: FaultPlan) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.plan = plan;
        state.lost = false;
    }

    /// How many failures have been injected so far.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).injected
    }

    /// How often each operation has been called so far, failed calls included.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).calls
    }

    /// The device behind.
    pub const fn inner(&self) -> &D {
        &self.device
    }

    /// Returns the inner device.
    pub fn into_inner(self) -> D {
        self.device
    }

    /// Counts a call, and fails it if the plan says so.
    fn pass(&self, operation: Operation) -> Result<(), FaultyError<D::Error>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = state.calls.count(operation);
        let class = if state.lost {
            Class::Lost
        } else {
            match state.plan.decide(operation) {
                Some(class) => class,
                None => return Ok(()),
            }
        };
        state.injected += 1;
        state.lost = class == Class::Lost;
        Err(FaultyError::Injected { operation, nth, class })
    }

    /// As [`pass`](Self::pass) for a call that consumes something.
    fn pass_with<T>(
        &self,
        operation: Operation,
        resource: T,
    ) -> Result<T, Refused<T, FaultyError<D::Error>>> {
        match self.pass(operation) {
            Ok(()) => Ok(resource),
            Err(error) => Err(Refused { resource, error }),
        }
    }
}

fn refused<T, E>(refused: Refused<T, E>) -> Refused<T, FaultyError<E>> {
    Refused { resource: refused.resource, error: FaultyError::Device(refused.error) }
}

impl<D: Device> Device for Faulty<D> {
    type Range = D::Range;
    type Memory = D::Memory;
    type Stream = D::Stream;
    type Event = D::Event;
    type Error = FaultyError<D::Error>;

    fn caps(&self) -> Caps {
        self.device.caps()
    }

    fn now(&self) -> Ticks {
        self.device.now()
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<Self::Range, Self::Error> {
        self.pass(Operation::Reserve)?;
        self.device.reserve(len, align).map_err(FaultyError::Device)
    }

    fn base(&self, range: &Self::Range) -> Addr {
        self.device.base(range)
    }

    fn release(&self, range: Self::Range) -> Result<(), Refused<Self::Range, Self::Error>> {
        let range = self.pass_with(Operation::Release, range)?;
        self.device.release(range).map_err(refused)
    }

    fn create(&self, len: Bytes) -> Result<Self::Memory, Self::Error> {
        self.pass(Operation::Create)?;
        self.device.create(len).map_err(FaultyError::Device)
    }

    fn destroy(&self, memory: Self::Memory) -> Result<(), Refused<Self::Memory, Self::Error>> {
        let memory = self.pass_with(Operation::Destroy, memory)?;
        self.device.destroy(memory).map_err(refused)
    }

    fn map(
        &self,
        range: &Self::Range,
        at: Bytes,
        memory: &[&Self::Memory],
    ) -> Result<(), Self::Error> {
        self.pass(Operation::Map)?;
        self.device.map(range, at, memory).map_err(FaultyError::Device)
    }

    fn unmap(&self, range: &Self::Range, at: Bytes, len: Bytes) -> Result<(), Self::Error> {
        self.pass(Operation::Unmap)?;
        self.device.unmap(range, at, len).map_err(FaultyError::Device)
    }

    fn record(&self, stream: Self::Stream) -> Result<Self::Event, Self::Error> {
        self.pass(Operation::Record)?;
        self.device.record(stream).map_err(FaultyError::Device)
    }

    fn query(&self, event: &Self::Event) -> Result<Passed, Self::Error> {
        self.pass(Operation::Query)?;
        self.device.query(event).map_err(FaultyError::Device)
    }

    fn order_after(&self, stream: Self::Stream, event: &Self::Event) -> Result<(), Self::Error> {
        self.pass(Operation::OrderAfter)?;
        self.device.order_after(stream, event).map_err(FaultyError::Device)
    }

    fn host(&self) -> Option<Host<'_, Self>> {
        self.device.host().map(|_| self as Host<'_, Self>)
    }
}

impl<D: Device> Faulty<D> {
    /// Counts a call of the host tier, fails it if the plan says so, and else has it made.
    fn on_host<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(Host<'_, D>) -> Result<T, D::Error>,
    ) -> Result<T, FaultyError<D::Error>> {
        self.pass(operation)?;
        // It is asked for only where there is one.
        let unsupported = || FaultyError::Injected { operation, nth: 0, class: Class::Unsupported };
        let host = self.device.host().ok_or_else(unsupported)?;
        call(host).map_err(FaultyError::Device)
    }
}

impl<D: Device> HostTier<D::Range, D::Stream, FaultyError<D::Error>> for Faulty<D> {
    fn link(&self) -> Option<Link> {
        self.device.host()?.link()
    }

    fn allocate(&self, len: Bytes) -> Result<HostMemory, FaultyError<D::Error>> {
        self.on_host(Operation::Allocate, |host| host.allocate(len))
    }

    fn free(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, FaultyError<D::Error>>> {
        let memory = self.pass_with(Operation::Free, memory)?;
        match self.device.host() {
            Some(host) => host.free(memory).map_err(refused),
            None => Ok(()),
        }
    }

    fn copy_out(
        &self,
        stream: D::Stream,
        range: &D::Range,
        at: Bytes,
        to: &HostMemory,
    ) -> Result<(), FaultyError<D::Error>> {
        self.on_host(Operation::CopyOut, |host| host.copy_out(stream, range, at, to))
    }

    fn copy_in(
        &self,
        stream: D::Stream,
        range: &D::Range,
        at: Bytes,
        from: &HostMemory,
    ) -> Result<(), FaultyError<D::Error>> {
        self.on_host(Operation::CopyIn, |host| host.copy_in(stream, range, at, from))
    }
}
