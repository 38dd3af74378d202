//! A device whose memory is the host's: the whole contract of [`Device`] in under 200 lines.
//!
//! Addresses are looked up in a table of mappings, as a memory management unit does it. Streams are
//! threads that go through a queue.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicU8, mpsc};
use std::time::Instant;

use zico_core::{Addr, Bytes, Caps, Class, Device, DeviceError, Passed, Refused, Ticks};

const PAGE: u64 = 64 << 10;

/// The device. Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Host {
    caps: Caps,
    started: Instant,
    tables: Arc<Mutex<Tables>>,
}

#[derive(Default)]
struct Tables {
    memory_used: u64,
    next_address: u64,
    /// What is reached where.
    mappings: BTreeMap<u64, Memory>,
    streams: Vec<mpsc::Sender<Work>>,
}

/// A piece of memory: in use while a mapping shares it.
type Memory = Arc<[AtomicU8]>;
type Work = Box<dyn FnOnce() + Send>;
/// A device, and which of its streams.
pub(crate) type Stream = (usize, usize);

/// What the core acts on, and what people read.
#[derive(Debug, thiserror::Error)]
#[error("{1}")]
pub(crate) struct HostError(Class, &'static str);

impl DeviceError for HostError {
    fn class(&self) -> Class {
        self.0
    }
}

const FULL: HostError = HostError(Class::OutOfMemory, "no more of it");
const fn misuse(what: &'static str) -> HostError {
    HostError(Class::Misuse, what)
}

impl Host {
    pub(crate) fn new(capacity: Bytes) -> Self {
        let caps = Caps::new(Bytes::new(PAGE), capacity);
        let tables = Tables { next_address: PAGE, ..Tables::default() };
        Self { caps, started: Instant::now(), tables: Arc::new(Mutex::new(tables)) }
    }

    pub(crate) fn add_stream(&self) -> Stream {
        let (sender, queue) = mpsc::channel::<Work>();
        std::thread::spawn(move || queue.into_iter().for_each(|work| work()));
        let streams = &mut self.tables().streams;
        streams.push(sender);
        (Arc::as_ptr(&self.tables).addr(), streams.len() - 1)
    }

    pub(crate) fn enqueue(&self, stream: Stream, work: Work) -> Result<(), HostError> {
        let tables = self.tables();
        let own = stream.0 == Arc::as_ptr(&self.tables).addr();
        let sender = tables.streams.get(stream.1).filter(|_| own).ok_or(misuse("no stream"))?;
        sender.send(work).map_err(|_| HostError(Class::Lost, "work has panicked"))
    }

    /// For work: the byte at an address.
    pub(crate) fn with_byte<T>(&self, at: Addr, does: impl FnOnce(&AtomicU8) -> T) -> Option<T> {
        let tables = self.tables();
        let (start, memory) = tables.mappings.range(..=at.value()).next_back()?;
        memory.get(usize::try_from(at.value() - start).ok()?).map(does)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The length, if it is one of whole pages.
fn pages(len: Bytes) -> Result<u64, HostError> {
    let whole = Some(len.value()).filter(|len| *len > 0 && len.is_multiple_of(PAGE));
    whole.ok_or(misuse("no whole pages"))
}

/// The addresses of `len` bytes from `at` in a range.
fn place(range: &Range<u64>, at: Bytes, len: u64) -> Result<Range<u64>, HostError> {
    let start = range.start.checked_add(at.value()).filter(|start| start.is_multiple_of(PAGE));
    let end = start.and_then(|start| start.checked_add(len)).filter(|&end| end <= range.end);
    start.zip(end).map(|(start, end)| start..end).ok_or(misuse("not in the range"))
}

/// What is mapped in a place, as a whole or in part, the last one first.
fn mapped(tables: &Tables, place: &Range<u64>) -> Vec<Range<u64>> {
    let below = tables.mappings.range(..place.end).rev();
    let spans = below.map(|(&start, memory)| start..start + memory.len() as u64);
    spans.take_while(|span| span.end > place.start).collect()
}

impl Device for Host {
    type Range = Range<u64>;
    type Memory = Memory;
    type Stream = Stream;
    type Event = Arc<OnceLock<()>>;
    type Error = HostError;

    fn caps(&self) -> Caps {
        self.caps
    }

    fn now(&self) -> Ticks {
        Ticks::new(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<Range<u64>, HostError> {
        let (len, mut tables) = (pages(len)?, self.tables());
        if !align.value().is_power_of_two() || align.value() < PAGE {
            return Err(misuse("no such alignment"));
        }
        let start = tables.next_address.checked_next_multiple_of(align.value()).ok_or(FULL)?;
        tables.next_address = start.checked_add(len).ok_or(FULL)?;
        Ok(start..tables.next_address)
    }

    fn base(&self, range: &Range<u64>) -> Addr {
        Addr::new(range.start)
    }

    fn release(&self, range: Range<u64>) -> Result<(), Refused<Range<u64>, HostError>> {
        if mapped(&self.tables(), &range).is_empty() { Ok(()) } else { in_use(range) }
    }

    fn create(&self, len: Bytes) -> Result<Memory, HostError> {
        let (len, mut tables) = (pages(len)?, self.tables());
        let used =
            tables.memory_used.checked_add(len).filter(|used| *used <= self.caps.capacity.value());
        tables.memory_used = used.ok_or(FULL)?;
        Ok((0..len).map(|_| AtomicU8::new(0)).collect())
    }

    fn destroy(&self, memory: Memory) -> Result<(), Refused<Memory, HostError>> {
        let mut tables = self.tables();
        let idle = Arc::strong_count(&memory) == 1;
        tables.memory_used -= if idle { memory.len() as u64 } else { 0 };
        if idle { Ok(()) } else { in_use(memory) }
    }

    fn map(&self, range: &Range<u64>, at: Bytes, memory: &[&Memory]) -> Result<(), HostError> {
        let place = place(range, at, memory.iter().map(|memory| memory.len() as u64).sum())?;
        let (mut start, mut tables) = (place.start, self.tables());
        if !mapped(&tables, &place).is_empty() {
            return Err(misuse("something is mapped there"));
        }
        for &memory in memory {
            tables.mappings.insert(start, memory.clone());
            start += memory.len() as u64;
        }
        Ok(())
    }

    fn unmap(&self, range: &Range<u64>, at: Bytes, len: Bytes) -> Result<(), HostError> {
        let (place, mut tables) = (place(range, at, pages(len)?)?, self.tables());
        let spans = mapped(&tables, &place);
        let covered: u64 = spans.iter().map(|span| span.end - span.start).sum();
        if covered != len.value() || spans.first().is_some_and(|last| last.end != place.end) {
            return Err(misuse("not all is mapped, or a mapping would be cut"));
        }
        spans.iter().for_each(|span| drop(tables.mappings.remove(&span.start)));
        Ok(())
    }

    fn record(&self, stream: Stream) -> Result<Self::Event, HostError> {
        let event = Self::Event::default();
        let passes = event.clone();
        self.enqueue(stream, Box::new(move || passes.set(()).unwrap_or_default()))?;
        Ok(event)
    }

    fn query(&self, event: &Self::Event) -> Result<Passed, HostError> {
        Ok(if event.get().is_some() { Passed::Yes } else { Passed::NotYet })
    }

    fn order_after(&self, stream: Stream, event: &Self::Event) -> Result<(), HostError> {
        let event = event.clone();
        self.enqueue(stream, Box::new(move || *event.wait()))
    }
}

fn in_use<T>(resource: T) -> Result<(), Refused<T, HostError>> {
    Err(Refused { resource, error: misuse("in use") })
}
