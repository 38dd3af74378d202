//! The board: an engine that goes through the work of two queues, and memory behind a page table.
//!
//! Time is the board's own ticks, in each of which the engine does one piece of work of each queue.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;
use core::ops::Range;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use zico_core::{Addr, Bytes, Caps, Class, Device, DeviceError, Passed, Refused, Ticks};

const PAGE: u64 = 4 << 10;
const QUEUES: usize = 2;
const TICK: Ticks = Ticks::micros(100);

/// The board.
pub struct Board {
    caps: Caps,
    state: SpinMutex<State>,
}

#[derive(Default)]
struct State {
    now: Ticks,
    queues: [Queue; QUEUES],
    used: u64,
    next_address: u64,
    next_memory: u64,
    /// By first address: the end, and which memory.
    mappings: BTreeMap<u64, (u64, u64)>,
}

/// What is enqueued, and how much of it has been done.
#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    done: u64,
}

enum Item {
    Work,
    Wait(Event),
}

/// A queue, and how much of it has to be done.
#[derive(Clone, Copy)]
pub struct Event(usize, u64);

/// A piece of the board's memory: a number and its length.
pub struct Memory(u64, u64);

/// What the board says no to.
#[derive(Debug)]
pub struct BoardError(Class);

impl fmt::Display for BoardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the board refused: {:?}", self.0)
    }
}

impl core::error::Error for BoardError {}

impl DeviceError for BoardError {
    fn class(&self) -> Class {
        self.0
    }
}

const MISUSE: BoardError = BoardError(Class::Misuse);
const FULL: BoardError = BoardError(Class::OutOfMemory);

impl Board {
    /// A board with so much memory.
    #[must_use]
    pub fn new(capacity: Bytes) -> Self {
        let caps = Caps::new(Bytes::new(PAGE), capacity);
        Self { caps, state: SpinMutex::new(State::default()) }
    }

    /// Enqueues a piece of work.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn work(&self, queue: usize) -> Result<(), BoardError> {
        self.enqueue(queue, Item::Work)
    }

    /// Lets the engine go on; whether there was anything to do.
    pub fn tick(&self) -> bool {
        let mut state = self.state();
        state.now = state.now.saturating_add(TICK);
        let before = state.done();
        for queue in 0..QUEUES {
            while let Some(Item::Wait(event)) = state.queues[queue].items.front()
                && state.has_passed(*event)
            {
                state.queues[queue].pop();
            }
            if let Some(Item::Work) = state.queues[queue].items.front() {
                state.queues[queue].pop();
            }
        }
        state.done() > before
    }

    fn enqueue(&self, queue: usize, item: Item) -> Result<(), BoardError> {
        self.state().queues.get_mut(queue).ok_or(MISUSE)?.items.push_back(item);
        Ok(())
    }

    fn state(&self) -> SpinMutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Queue {
    fn pop(&mut self) {
        self.done += u64::from(self.items.pop_front().is_some());
    }
}

impl State {
    fn done(&self) -> u64 {
        self.queues.iter().map(|queue| queue.done).sum()
    }

    fn has_passed(&self, Event(queue, until): Event) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.done >= until)
    }

    /// What is mapped in a place, as a whole or in part.
    fn mapped(&self, place: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<'_> {
        let (start, below) = (place.start, self.mappings.range(..place.end).rev());
        below.map(|(&start, &(end, _))| start..end).take_while(move |span| span.end > start)
    }
}

/// The length, if it is one of whole pages.
fn pages(len: Bytes) -> Result<u64, BoardError> {
    Some(len.value()).filter(|len| *len > 0 && len.is_multiple_of(PAGE)).ok_or(MISUSE)
}

/// The addresses of `len` bytes from `at` in a range.
fn place(range: &Range<u64>, at: Bytes, len: u64) -> Result<Range<u64>, BoardError> {
    let start = range.start.checked_add(at.value()).filter(|start| start.is_multiple_of(PAGE));
    let end = start.and_then(|start| start.checked_add(len)).filter(|end| *end <= range.end);
    start.zip(end).map(|(start, end)| start..end).ok_or(MISUSE)
}

impl Device for Board {
    type Range = Range<u64>;
    type Memory = Memory;
    type Stream = usize;
    type Event = Event;
    type Error = BoardError;

    fn caps(&self) -> Caps {
        self.caps
    }

    fn now(&self) -> Ticks {
        self.state().now
    }

    fn reserve(&self, len: Bytes, align: Bytes) -> Result<Range<u64>, BoardError> {
        let (len, mut state) = (pages(len)?, self.state());
        if !align.value().is_power_of_two() || align.value() < PAGE {
            return Err(MISUSE);
        }
        let start = state.next_address.checked_next_multiple_of(align.value()).ok_or(FULL)?;
        state.next_address = start.checked_add(len).ok_or(FULL)?;
        Ok(start..state.next_address)
    }

    fn base(&self, range: &Range<u64>) -> Addr {
        Addr::new(range.start)
    }

    fn release(&self, range: Range<u64>) -> Result<(), Refused<Range<u64>, BoardError>> {
        let empty = self.state().mapped(&range).next().is_none();
        if empty { Ok(()) } else { Err(Refused { resource: range, error: MISUSE }) }
    }

    fn create(&self, len: Bytes) -> Result<Memory, BoardError> {
        let (len, mut state) = (pages(len)?, self.state());
        let used = state.used.checked_add(len).filter(|used| *used <= self.caps.capacity.value());
        state.used = used.ok_or(FULL)?;
        state.next_memory += 1;
        Ok(Memory(state.next_memory, len))
    }

    fn destroy(&self, memory: Memory) -> Result<(), Refused<Memory, BoardError>> {
        let mut state = self.state();
        if state.mappings.values().any(|mapping| mapping.1 == memory.0) {
            return Err(Refused { resource: memory, error: MISUSE });
        }
        state.used = state.used.saturating_sub(memory.1);
        Ok(())
    }

    fn map(&self, range: &Range<u64>, at: Bytes, memory: &[&Memory]) -> Result<(), BoardError> {
        let place = place(range, at, memory.iter().map(|memory| memory.1).sum())?;
        let mut state = self.state();
        if state.mapped(&place).next().is_some() {
            return Err(MISUSE);
        }
        let mut start = place.start;
        for Memory(number, len) in memory {
            state.mappings.insert(start, (start + len, *number));
            start += len;
        }
        Ok(())
    }

    fn unmap(&self, range: &Range<u64>, at: Bytes, len: Bytes) -> Result<(), BoardError> {
        let (place, mut state) = (place(range, at, pages(len)?)?, self.state());
        let cut = |span: Range<u64>| span.start < place.start || span.end > place.end;
        let covered: u64 = state.mapped(&place).map(|span| span.end - span.start).sum();
        if covered != len.value() || state.mapped(&place).any(cut) {
            return Err(MISUSE);
        }
        state.mappings.retain(|start, _| !place.contains(start));
        Ok(())
    }

    fn record(&self, stream: usize) -> Result<Event, BoardError> {
        let state = self.state();
        let queue = state.queues.get(stream).ok_or(MISUSE)?;
        Ok(Event(stream, queue.done + queue.items.len() as u64))
    }

    fn query(&self, event: &Event) -> Result<Passed, BoardError> {
        Ok(if self.state().has_passed(*event) { Passed::Yes } else { Passed::NotYet })
    }

    fn order_after(&self, stream: usize, event: &Event) -> Result<(), BoardError> {
        self.enqueue(stream, Item::Wait(*event))
    }
}
