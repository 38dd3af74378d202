//! A device that does nothing, at the same small cost whatever it is asked for: what a call takes
//! on it is the pool's own.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use zico_core::{Addr, Bytes, Caps, Class, Device, DeviceError, Passed, Refused, Ticks};

/// The unit of memory of a [`NullDevice`].
pub const GRANULARITY: Bytes = Bytes::mib(2);

/// A device of any number of streams, whose calls all succeed.
pub struct NullDevice {
    capacity: Bytes,
    /// Where the next range begins.
    next: AtomicU64,
    /// Work continues: no event has passed.
    busy: AtomicBool,
    /// How often memory was created, destroyed, mapped or unmapped.
    memory_calls: AtomicU64,
}

impl NullDevice {
    /// A device with so much memory, and nothing to do.
    #[must_use]
    pub const fn new(capacity: Bytes) -> Self {
        Self {
            capacity,
            next: AtomicU64::new(1 << 40),
            busy: AtomicBool::new(false),
            memory_calls: AtomicU64::new(0),
        }
    }

    /// From now on no event passes, or all do.
    pub fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// How often memory was created, destroyed, mapped or unmapped.
    #[must_use]
    pub fn memory_calls(&self) -> u64 {
        self.memory_calls.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.memory_calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// What goes wrong on such a device: nothing.
#[derive(Debug)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Never {}

impl DeviceError for Never {
    fn class(&self) -> Class {
        match *self {}
    }
}

impl Device for NullDevice {
    type Range = Addr;
    type Memory = ();
    type Stream = u64;
    type Event = ();
    type Error = Never;

    fn caps(&self) -> Caps {
        Caps::new(GRANULARITY, self.capacity)
    }

    fn now(&self) -> Ticks {
        Ticks::ZERO
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<Addr, Never> {
        let len = len.value().next_multiple_of(align.value());
        Ok(Addr::new(self.next.fetch_add(len, Ordering::Relaxed)))
    }

    fn base(&self, range: &Addr) -> Addr {
        *range
    }

    fn release(&self, _: Addr) -> Result<(), Refused<Addr, Never>> {
        Ok(())
    }

    fn create(&self, _: Bytes) -> Result<(), Never> {
        self.count();
        Ok(())
    }

    fn destroy(&self, (): ()) -> Result<(), Refused<(), Never>> {
        self.count();
        Ok(())
    }

    fn map(&self, _: &Addr, _: Bytes, _: &[&()]) -> Result<(), Never> {
        self.count();
        Ok(())
    }

    fn unmap(&self, _: &Addr, _: Bytes, _: Bytes) -> Result<(), Never> {
        self.count();
        Ok(())
    }

    fn record(&self, _: u64) -> Result<(), Never> {
        Ok(())
    }

    fn query(&self, (): &()) -> Result<Passed, Never> {
        Ok(if self.busy.load(Ordering::Relaxed) { Passed::NotYet } else { Passed::Yes })
    }

    fn order_after(&self, _: u64, (): &()) -> Result<(), Never> {
        Ok(())
    }
}
