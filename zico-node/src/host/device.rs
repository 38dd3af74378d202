//! The device: [`Device`] and [`Share`] on files in memory.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zico_core::{Addr, Bytes, Caps, Device, Host, Passed, Refused, Ticks};
use zico_cuda::Share;

use super::config::HostConfig;
use super::error::HostError;
use super::mappings::{no_mapping, take_away, vacant};
use super::registry::{Backing, Place, Registry};
use super::tier::Tier;
use super::{addresses, pieces};

/// A device whose memory is the machine's own. Clones are handles on the same one. See the
/// [module's documentation](super).
///
/// The addresses that it gives out are addresses of this process: whoever has a block may read and
/// write it. When the last handle is gone, so are all ranges and what is mapped in them.
#[derive(Clone)]
pub struct HostDevice {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    caps: Caps,
    started: Instant,
    registry: Mutex<Registry>,
    tier: Tier,
    /// When each stream's work is done.
    streams: Mutex<Vec<Ticks>>,
}

/// A reserved range of addresses of a [`HostDevice`].
#[derive(Debug)]
pub struct HostRange {
    device: u64,
    base: u64,
}

/// A piece of physical memory of a [`HostDevice`]: a file in memory.
#[derive(Debug)]
pub struct HostMemory {
    device: u64,
    pub(super) key: u64,
    file: Arc<OwnedFd>,
}

impl AsFd for HostMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A stream of a [`HostDevice`], by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostStream {
    device: u64,
    number: usize,
}

/// A point in a stream of a [`HostDevice`]: the time at which the work before it is done.
#[derive(Clone, Copy, Debug)]
pub struct HostEvent {
    device: u64,
    at: Ticks,
}

/// Tells handles of different devices apart, nothing else.
static DEVICES: AtomicU64 = AtomicU64::new(0);

impl HostDevice {
    /// A device of its own: two of them share nothing but what one exports and the other imports.
    ///
    /// # Errors
    /// If the configuration cannot be.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        let granularity = config.unit();
        let page = Bytes::new(rustix::param::page_size() as u64);
        if !granularity.value().is_power_of_two() || granularity < page {
            return Err(HostError::BadGranularity { granularity, page });
        }
        let capacity = config.memory();
        let whole = Bytes::new(capacity.value() & !(granularity.value() - 1));
        if whole.is_zero() {
            return Err(HostError::BadCapacity { capacity, granularity });
        }
        let inner = Inner {
            id: DEVICES.fetch_add(1, Ordering::Relaxed),
            caps: Caps::new(granularity, whole),
            started: Instant::now(),
            registry: Mutex::new(Registry::new(granularity, whole)),
            tier: Tier::new(config.tier()),
            streams: Mutex::new(vec![Ticks::ZERO]),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The stream that every device has.
    #[must_use]
    pub fn default_stream(&self) -> HostStream {
        HostStream { device: self.inner.id, number: 0 }
    }

    /// A new stream, with nothing to do. It stays until the device is gone.
    #[must_use]
    pub fn add_stream(&self) -> HostStream {
        let mut streams = self.inner.streams();
        streams.push(Ticks::ZERO);
        HostStream { device: self.inner.id, number: streams.len() - 1 }
    }

    /// Keeps a stream busy for `time` after all that it has to do, as a kernel would that runs
    /// behind the host's back.
    ///
    /// # Errors
    /// If the stream is none of this device's.
    pub fn launch(&self, stream: HostStream, time: Ticks) -> Result<(), HostError> {
        let now = self.now();
        self.with(stream, |done| *done = (*done).max(now).saturating_add(time))
    }

    /// Returns when no stream has anything left to do.
    pub fn synchronize(&self) {
        let last = self.inner.streams().iter().copied().max().unwrap_or_default();
        let rest = last.saturating_sub(self.now());
        if !rest.is_zero() {
            std::thread::sleep(Duration::from_nanos(rest.value()));
        }
    }

    /// What is mapped at the `len` addresses from `at` on, by address: for a process that forks,
    /// whose child has none of it and may want a copy. O(log of all mappings + those found).
    #[must_use]
    pub fn backing(&self, at: Addr, len: Bytes) -> Vec<Backing> {
        self.inner.registry().backing(Place { start: at.value(), len: len.value() })
    }

    /// The books of addresses and memory.
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.inner.registry()
    }

    /// The books of the host tier.
    pub(super) fn tier(&self) -> &Tier {
        &self.inner.tier
    }

    /// What lies in a part of a range, all of which is mapped: files, offsets in them, and lengths.
    pub(super) fn files(
        &self,
        range: &HostRange,
        at: Bytes,
        len: Bytes,
    ) -> Result<Vec<(Arc<OwnedFd>, u64, u64)>, HostError> {
        self.same(range.device, "range")?;
        let registry = self.inner.registry();
        let place = registry.place(range.base, at, len)?;
        registry.check_mapped(place.start, place.len)?;
        let files = registry.files(place).into_iter();
        Ok(files.map(|(_, len, file, offset)| (file.clone(), offset, len)).collect())
    }

    /// Whether a stream is this device's.
    pub(super) fn check_stream(&self, stream: HostStream) -> Result<(), HostError> {
        self.with(stream, |_| ())
    }

    fn with<T>(
        &self,
        stream: HostStream,
        look: impl FnOnce(&mut Ticks) -> T,
    ) -> Result<T, HostError> {
        self.same(stream.device, "stream")?;
        let mut streams = self.inner.streams();
        streams.get_mut(stream.number).map(look).ok_or(HostError::Foreign { what: "stream" })
    }

    fn same(&self, device: u64, what: &'static str) -> Result<(), HostError> {
        if device == self.inner.id { Ok(()) } else { Err(HostError::Foreign { what }) }
    }

    fn enter(&self, file: OwnedFd, len: Bytes, own: bool) -> HostMemory {
        let file = Arc::new(file);
        let key = self.inner.registry().add_memory(len, own, file.clone());
        HostMemory { device: self.inner.id, key, file }
    }
}

impl Inner {
    /// A poisoned lock is used: no panic can happen within an update.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Ticks>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for (base, len) in self.registry().ranges() {
            // Nobody is left to be told.
            let _ = addresses::release(base, len);
        }
    }
}

impl fmt::Debug for HostDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostDevice").field("caps", &self.inner.caps).finish_non_exhaustive()
    }
}

impl Device for HostDevice {
    type Range = HostRange;
    type Memory = HostMemory;
    type Stream = HostStream;
    type Event = HostEvent;
    type Error = HostError;

    fn caps(&self) -> Caps {
        self.inner.caps
    }

    /// The system's monotonic clock, from the device's making on.
    fn now(&self) -> Ticks {
        Ticks::new(u64::try_from(self.inner.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<HostRange, HostError> {
        self.inner.registry().check_length(len)?;
        let granularity = self.inner.caps.granularity;
        if !align.value().is_power_of_two() || align < granularity {
            return Err(HostError::BadAlignment { align, granularity });
        }
        if len.checked_add(align).is_none() {
            return Err(HostError::BeyondRange { at: align, len, range: Bytes::MAX });
        }
        let base = addresses::reserve(len.value(), align.value())
            .map_err(|error| HostError::Kernel { call: "mmap", error })?;
        self.inner.registry().add_range(base, len.value());
        Ok(HostRange { device: self.inner.id, base })
    }

    fn base(&self, range: &HostRange) -> Addr {
        Addr::new(range.base)
    }

    fn release(&self, range: HostRange) -> Result<(), Refused<HostRange, HostError>> {
        let released = self.same(range.device, "range").and_then(|()| {
            let mut registry = self.inner.registry();
            let all = Place { start: range.base, len: registry.range(range.base)? };
            while let Some((place, mapping)) = registry.last_within(all) {
                if !mapping.left_over {
                    return Err(HostError::RangeInUse { mapped: Addr::new(place.start) });
                }
                take_away(&mut registry, place)?;
            }
            addresses::release(all.start, all.len)
                .map_err(|error| HostError::Kernel { call: "munmap", error })?;
            registry.remove_range(range.base);
            Ok(())
        });
        released.map_err(|error| Refused { resource: range, error })
    }

    fn create(&self, len: Bytes) -> Result<HostMemory, HostError> {
        {
            let mut registry = self.inner.registry();
            registry.check_length(len)?;
            registry.take(len)?;
        }
        match pieces::create(len) {
            Ok(file) => Ok(self.enter(file, len, true)),
            Err(error) => {
                self.inner.registry().put_back(len);
                Err(error)
            }
        }
    }

    fn destroy(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, HostError>> {
        let destroyed = self.same(memory.device, "memory").and_then(|()| {
            let mut registry = self.inner.registry();
            while let Some(place) = registry.left_over_of(memory.key) {
                take_away(&mut registry, place)?;
            }
            registry.remove_memory(memory.key)
        });
        destroyed.map_err(|error| Refused { resource: memory, error })
    }

    fn map(&self, range: &HostRange, at: Bytes, memory: &[&HostMemory]) -> Result<(), HostError> {
        self.same(range.device, "range")?;
        memory.iter().try_for_each(|memory| self.same(memory.device, "memory"))?;
        let mut registry = self.inner.registry();
        let places = vacant(&mut registry, range.base, at, memory)?;
        for (i, (&place, piece)) in places.iter().zip(memory).enumerate() {
            if let Err(error) = addresses::map(place.start, place.len, piece.file.as_fd()) {
                for (&place, piece) in places.iter().zip(memory).take(i + 1) {
                    // What cannot be taken back now goes before it is in somebody's way.
                    if addresses::unmap(place.start, place.len).is_err() {
                        registry.mapped(place, piece.key, true);
                    }
                }
                return Err(no_mapping(error, &registry));
            }
        }
        for (place, piece) in places.into_iter().zip(memory) {
            registry.mapped(place, piece.key, false);
        }
        Ok(())
    }

    fn unmap(&self, range: &HostRange, at: Bytes, len: Bytes) -> Result<(), HostError> {
        self.same(range.device, "range")?;
        let mut registry = self.inner.registry();
        registry.check_length(len)?;
        let place = registry.place(range.base, at, len)?;
        registry.check_covered(place)?;
        take_away(&mut registry, place)
    }

    fn record(&self, stream: HostStream) -> Result<HostEvent, HostError> {
        let at = self.with(stream, |done| *done)?;
        Ok(HostEvent { device: self.inner.id, at })
    }

    fn query(&self, event: &HostEvent) -> Result<Passed, HostError> {
        self.same(event.device, "event")?;
        // Most streams have never had anything to do.
        let passed = event.at.is_zero() || event.at <= self.now();
        Ok(if passed { Passed::Yes } else { Passed::NotYet })
    }

    fn order_after(&self, stream: HostStream, event: &HostEvent) -> Result<(), HostError> {
        self.same(event.device, "event")?;
        self.with(stream, |done| *done = (*done).max(event.at))
    }

    fn host(&self) -> Option<Host<'_, Self>> {
        Some(self)
    }
}

impl Share for HostDevice {
    fn export(&self, memory: &HostMemory) -> Result<OwnedFd, HostError> {
        self.same(memory.device, "memory")?;
        pieces::duplicate(memory.file.as_fd())
    }

    /// The memory behind a descriptor that another process has exported. Everything about the
    /// descriptor is checked: that it is a file in memory, exactly so long, and sealed so that this
    /// stays so. What is imported does not count against this device's capacity.
    fn import(&self, descriptor: BorrowedFd<'_>, len: Bytes) -> Result<HostMemory, HostError> {
        self.inner.registry().check_length(len)?;
        let file = pieces::import(descriptor, len)?;
        Ok(self.enter(file, len, false))
    }
}

#[cfg(test)]
mod tests;
