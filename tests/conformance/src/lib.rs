//! The conformance suite: checks of the contract of [`Device`], clause by clause.
//!
//! The suite is generic over the device: the same checks run on the mock, on the CUDA backend with
//! a driver in software, and on a GPU. A check takes a device, which several checks may share, and
//! leaves nothing behind on it. It panics with the name of the clause if the contract is broken.
#![allow(clippy::panic, reason = "a check that fails panics: the suite is called from tests")]

mod host;
mod memory;
mod streams;

use core::cell::Cell;
use core::fmt;
use std::time::Duration;

use zico_core::{Addr, Bytes, Class, Device, DeviceError, Ticks};
use zico_mock::{Access, Faulty, MockDevice, MockStream, Utilisation};
use zico_node::host::{HostConfig, HostDevice, HostStream};

/// What the suite needs beyond [`Device`]: streams, and work for them.
pub trait Workload: Device {
    /// An idle stream.
    fn idle_stream(&self) -> Self::Stream;

    /// A stream that is none of this device's, if such a thing can be made.
    fn foreign_stream(&self) -> Option<Self::Stream>;

    /// Enqueues work that keeps the stream busy for about `time`.
    fn enqueue(&self, stream: Self::Stream, time: Ticks);

    /// Lets about `time` pass.
    fn pass(&self, time: Ticks);

    /// Returns when no stream has anything left to do.
    fn finish(&self);

    /// Enqueues that memory is filled with a pattern: two seeds differ in every part of it. A
    /// device with a [host tier](Device::host) has to do so, and to check it.
    fn fill(&self, _stream: Self::Stream, _at: Addr, _len: Bytes, _seed: u32) {}

    /// Enqueues that memory is checked for a pattern.
    fn check(&self, _stream: Self::Stream, _at: Addr, _len: Bytes, _seed: u32) {}

    /// In how many parts the memory that was checked so far was not as it had to be. All work has
    /// finished.
    fn wrong(&self) -> u64 {
        0
    }
}

impl Workload for MockDevice {
    fn idle_stream(&self) -> MockStream {
        self.add_stream()
    }

    fn foreign_stream(&self) -> Option<MockStream> {
        let config = zico_mock::MockConfig::new(self.caps().capacity);
        MockDevice::new(config).ok().map(|other| other.add_stream())
    }

    fn enqueue(&self, stream: MockStream, time: Ticks) {
        must(self.launch(stream, time, Utilisation::FULL), "a launch");
    }

    fn pass(&self, time: Ticks) {
        self.advance_to(self.now().saturating_add(time));
    }

    fn finish(&self) {
        self.run_until_idle();
    }

    fn fill(&self, stream: MockStream, addr: Addr, len: Bytes, seed: u32) {
        let access = Access { owner: 0, addr, len };
        let claim = must(self.own(stream, 0, addr, len), "a claim");
        must(self.write(stream, access, seed.into()), "a write");
        must(self.disown(stream, claim), "the end of a claim");
    }

    fn check(&self, stream: MockStream, addr: Addr, len: Bytes, seed: u32) {
        let access = Access { owner: 0, addr, len };
        let claim = must(self.own(stream, 0, addr, len), "a claim");
        must(self.expect(stream, access, seed.into()), "a check");
        must(self.disown(stream, claim), "the end of a claim");
    }

    fn wrong(&self) -> u64 {
        self.violation_count()
    }
}

impl Workload for HostDevice {
    fn idle_stream(&self) -> HostStream {
        self.add_stream()
    }

    fn foreign_stream(&self) -> Option<HostStream> {
        HostDevice::new(HostConfig::new()).ok().map(|other| other.add_stream())
    }

    fn enqueue(&self, stream: HostStream, time: Ticks) {
        must(self.launch(stream, time), "a launch");
    }

    fn pass(&self, time: Ticks) {
        std::thread::sleep(Duration::from_nanos(time.value()));
    }

    fn finish(&self) {
        self.synchronize();
    }

    fn fill(&self, _stream: HostStream, at: Addr, len: Bytes, seed: u32) {
        must(HostDevice::fill(self, at, len, seed.into()), "a pattern");
    }

    fn check(&self, _stream: HostStream, at: Addr, len: Bytes, seed: u32) {
        let wrong = u64::from(!must(self.verify(at, len, seed.into()), "a look at a pattern"));
        WRONG.set(WRONG.get() + wrong);
    }

    fn wrong(&self) -> u64 {
        WRONG.take()
    }
}

thread_local! {
    /// How much of host memory was not as it had to be. A check is made by one thread.
    static WRONG: Cell<u64> = const { Cell::new(0) };
}

impl<D: Workload> Workload for Faulty<D> {
    fn idle_stream(&self) -> D::Stream {
        self.inner().idle_stream()
    }

    fn foreign_stream(&self) -> Option<D::Stream> {
        self.inner().foreign_stream()
    }

    fn enqueue(&self, stream: D::Stream, time: Ticks) {
        self.inner().enqueue(stream, time);
    }

    fn pass(&self, time: Ticks) {
        self.inner().pass(time);
    }

    fn finish(&self) {
        self.inner().finish();
    }

    fn fill(&self, stream: D::Stream, at: Addr, len: Bytes, seed: u32) {
        self.inner().fill(stream, at, len, seed);
    }

    fn check(&self, stream: D::Stream, at: Addr, len: Bytes, seed: u32) {
        self.inner().check(stream, at, len, seed);
    }

    fn wrong(&self) -> u64 {
        self.inner().wrong()
    }
}

/// A check of one clause, by its name.
pub type Check<D> = (&'static str, fn(&D));

/// All checks.
#[must_use]
pub fn checks<D: Workload>() -> Vec<Check<D>> {
    let mut checks = memory::checks();
    checks.extend(streams::checks());
    checks.extend(host::checks());
    checks
}

/// Runs every check, each on a device that `make` gives it.
///
/// # Panics
/// If the device does not keep its contract.
pub fn check_all<D: Workload>(make: impl Fn() -> D) {
    for (name, check) in checks() {
        println!("checking that {name}");
        check(&make());
    }
}

/// The value of a call that has to succeed; `what` names the call.
///
/// # Panics
/// If it failed.
pub fn must<T, E: fmt::Display>(result: Result<T, E>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what} must succeed: {error}"))
}

/// The error of a call that has to be refused.
fn must_not<T, E>(result: Result<T, E>, what: &str) -> E {
    match result {
        Ok(_) => panic!("{what} must be refused"),
        Err(error) => error,
    }
}

/// As [`must_not`], and the error has to be of a certain class.
fn must_not_by<T, E: DeviceError>(result: Result<T, E>, class: Class, what: &str) {
    let error = must_not(result, what);
    assert_eq!(error.class(), class, "{what} must be refused as {class:?}: {error}");
}
