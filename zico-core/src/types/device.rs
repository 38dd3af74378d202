//! The seam to a device: what a backend implements and what the core may rely on.
//!
//! A [`Device`] is one accelerator with its own virtual address space, an instance and not a set of
//! statics, so that several can live in one process. The core calls it through `&self` and never
//! while holding a lock; a backend is therefore free to block, and two calls may run at once.
//!
//! Addresses are numbers ([`Addr`]). The core never dereferences one, keeps all its metadata out of
//! band and is safe Rust throughout; a backend that needs `unsafe` to speak to its driver keeps it
//! on its own side of this trait.

use core::fmt;

use crate::types::host::HostTier;
use crate::types::refused::Refused;
use crate::types::units::{Addr, Bytes, Ticks};

/// The fixed properties of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caps {
    /// The unit of physical allocation and of mapping, a power of two (2 MiB on CUDA).
    pub granularity: Bytes,
    /// The physical memory that the device has. A budget can never be larger.
    pub capacity: Bytes,
}

impl Caps {
    /// The properties of a device with `capacity` bytes of memory in units of `granularity`.
    #[must_use]
    pub const fn new(granularity: Bytes, capacity: Bytes) -> Self {
        Self { granularity, capacity }
    }
}

/// What a caller can do about a device's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The device is out of physical memory or address space now; later it may not be.
    OutOfMemory,
    /// This device will never be able to do that.
    Unsupported,
    /// The call failed this time; the same call may succeed when repeated.
    Transient,
    /// The device is gone and everything on it with it.
    Lost,
    /// The call broke the contract of [`Device`]: a defect in the core or in the backend.
    Misuse,
}

/// An error of a backend, in its own words, with the class that the core acts on.
pub trait DeviceError: core::error::Error + Send + Sync + 'static {
    /// What can be done about it.
    fn class(&self) -> Class;
}

/// Whether the device has passed an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passed {
    /// All work enqueued on the stream before the event has finished. It stays so.
    Yes,
    /// Some of it has not.
    NotYet,
}

/// One accelerator, as the core needs it.
///
/// # Contract
///
/// * Physical memory ([`create`](Self::create)) is reachable only where it is mapped. An address
///   has at most one mapping; a piece of memory may have several at a time, as with CUDA's virtual
///   memory management: a region stays mapped wherever it was, and comes back there by book-keeping
///   alone.
/// * Work is enqueued on streams and runs in order within one. An event recorded on a stream has
///   passed once all work enqueued on that stream *before* it has finished.
/// * A range lies within the addresses that [`Addr`] can hold, its end included.
/// * Any call may fail at any time and then has changed nothing. A call that would consume a
///   resource gives it back ([`Refused`]).
/// * No call waits for work on a stream to finish.
/// * [`now`](Self::now) never goes backwards.
///
/// The conformance suite in the workspace's `tests` crate checks all of this of any device.
pub trait Device: Send + Sync {
    /// A reserved range of virtual addresses.
    type Range: Send + Sync;
    /// A piece of physical memory.
    type Memory: Send + Sync;
    /// A queue of work that runs in order.
    type Stream: Copy + Eq + fmt::Debug + Send + Sync;
    /// A point in a stream's queue.
    type Event: Send + Sync;
    /// What goes wrong.
    type Error: DeviceError;

    /// The device's fixed properties.
    fn caps(&self) -> Caps;

    /// The clock by which profiles are measured and iterations are timed, and by which others lose
    /// patience with a job that does nothing: it goes on where the device is idle.
    fn now(&self) -> Ticks;

    /// Reserves `len` bytes of addresses, starting at a multiple of `align`. `len` is a multiple of
    /// the granularity, `align` a power of two and at least the granularity.
    ///
    /// # Errors
    /// If there is no such range, or the arguments are none.
    fn reserve(&self, len: Bytes, align: Bytes) -> Result<Self::Range, Self::Error>;

    /// The first address of a range.
    fn base(&self, range: &Self::Range) -> Addr;

    /// Gives a range back. Nothing may be mapped in it.
    ///
    /// # Errors
    /// If something is mapped in it, or the device refuses.
    fn release(&self, range: Self::Range) -> Result<(), Refused<Self::Range, Self::Error>>;

    /// Allocates `len` bytes of physical memory, a multiple of the granularity.
    ///
    /// # Errors
    /// If the device has not that much left, or refuses.
    fn create(&self, len: Bytes) -> Result<Self::Memory, Self::Error>;

    /// Gives physical memory back. It may be mapped nowhere.
    ///
    /// # Errors
    /// If it is mapped somewhere, or the device refuses.
    fn destroy(&self, memory: Self::Memory) -> Result<(), Refused<Self::Memory, Self::Error>>;

    /// Makes the whole of each piece of memory readable and writable, side by side from `at` bytes
    /// into `range` on: one call, since a driver takes longest for what it does once per call. No
    /// pieces are nothing to do.
    ///
    /// # Errors
    /// If something is mapped there already, they do not fit, or the device refuses; then none of
    /// them is mapped there.
    fn map(
        &self,
        range: &Self::Range,
        at: Bytes,
        memory: &[&Self::Memory],
    ) -> Result<(), Self::Error>;

    /// Takes away the mappings in the `len` bytes from `at`, which covers whole mappings only. No
    /// enqueued work may still use them.
    ///
    /// # Errors
    /// If there is nothing mapped, a mapping would be cut, or the device refuses.
    fn unmap(&self, range: &Self::Range, at: Bytes, len: Bytes) -> Result<(), Self::Error>;

    /// Puts an event at the end of a stream's queue.
    ///
    /// # Errors
    /// If the stream is none of this device's, or the device refuses.
    fn record(&self, stream: Self::Stream) -> Result<Self::Event, Self::Error>;

    /// Whether the device has passed an event. Does not wait.
    ///
    /// # Errors
    /// If the device refuses.
    fn query(&self, event: &Self::Event) -> Result<Passed, Self::Error>;

    /// Makes work enqueued on `stream` from now on wait, on the device, until `event` has passed.
    ///
    /// # Errors
    /// If the stream is none of this device's, or the device refuses.
    fn order_after(&self, stream: Self::Stream, event: &Self::Event) -> Result<(), Self::Error>;

    /// The device's host tier: memory of the host, and copies to it and back. A device without one
    /// has nothing to do.
    fn host(&self) -> Option<Host<'_, Self>>
    where
        Self: Sized,
    {
        None
    }
}

/// The host tier of a device `D`.
pub type Host<'a, D> =
    &'a dyn HostTier<<D as Device>::Range, <D as Device>::Stream, <D as Device>::Error>;
