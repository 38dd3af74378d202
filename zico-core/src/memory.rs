//! A job's memory: its arenas, its live blocks, and what is known of them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::arena::{Arena, GRANULE, Slot};
use crate::device::Device;
use crate::error::FreeError;
use crate::habits::{Habits, Ordinal};
use crate::lifetime::Lifetime;
use crate::marker::Marker;
use crate::region::JobKey;
use crate::signature::{Mark, Signature};
use crate::stats::{LiveBlock, Stats};
use crate::streams::{Parked, Wait};
use crate::units::{Addr, Bytes};

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub(crate) bytes: Bytes,
    pub(crate) align: Bytes,
    /// None if it is to be learned.
    lifetime: Option<Lifetime>,
    name: Option<&'static str>,
}

impl Request {
    /// `bytes` of memory that lives as long as `lifetime` says, aligned to 512 bytes. Zero bytes
    /// are a block of their own, with an address that no other live block has.
    #[must_use]
    pub const fn new(bytes: Bytes, lifetime: Lifetime) -> Self {
        Self { bytes, align: Bytes::new(GRANULE), lifetime: Some(lifetime), name: None }
    }

    /// `bytes` of memory whose lifetime is learned: what the same allocation of the last iteration
    /// did, by its place in the order of those that are learned. Outside an iteration it persists;
    /// in the first one it does if it has the size of a block that was there before, as optimizer
    /// state has the sizes of parameters.
    #[must_use]
    pub const fn learned(bytes: Bytes) -> Self {
        Self { bytes, align: Bytes::new(GRANULE), lifetime: None, name: None }
    }

    /// None if it is to be learned.
    pub(crate) const fn lifetime(&self) -> Option<Lifetime> {
        self.lifetime
    }

    /// Aligned to at least `align`: a power of two, up to the size of a region.
    #[must_use]
    pub const fn aligned(mut self, align: Bytes) -> Self {
        self.align = align;
        self
    }

    /// By what name people know the block: [`Job::live_blocks`](crate::Job::live_blocks) says it.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }
}

/// A live allocation: where it is and how large. A plain handle; freeing it twice is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    address: Addr,
    bytes: Bytes,
    /// Which of all the job's blocks it is.
    serial: u64,
    job: JobKey,
    home: Home,
}

/// Which arena has a block, in which slot, and whether its lifetime is learned. One word: handles are
/// copied at once after they have been made, and a word that was written in parts stalls whoever
/// reads it whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Home(u64);

impl Home {
    const fn new(lifetime: Lifetime, slot: Slot, learned: bool) -> Self {
        Self((slot as u64) << 3 | (learned as u64) << 2 | lifetime.index() as u64)
    }

    const fn lifetime(self) -> Lifetime {
        match self.0 & 3 {
            0 => Lifetime::Persistent,
            1 => Lifetime::Iteration,
            _ => Lifetime::Transient,
        }
    }

    const fn is_learned(self) -> bool {
        self.0 & 4 != 0
    }

    #[expect(clippy::cast_possible_truncation, reason = "it was a slot when it was put in")]
    const fn slot(self) -> Slot {
        (self.0 >> 3) as Slot
    }
}

impl Block {
    /// The first address.
    #[must_use]
    pub const fn address(&self) -> Addr {
        self.address
    }

    /// The bytes asked for.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }
}

/// What few blocks have beside their place.
struct Note<S> {
    name: Option<&'static str>,
    /// Other streams than the job's own whose work uses the block.
    streams: Vec<S>,
}

/// What a free left behind.
pub(crate) enum Freed<D: Device> {
    /// These pages of this arena are empty.
    Pages(Lifetime, Range<u64>),
    /// The block waits for other streams.
    Parked(Parked<D>),
}

pub(crate) struct Memory<D: Device> {
    job: JobKey,
    arenas: [Arena; 3],
    /// Where their ranges begin.
    bases: [Addr; 3],
    /// A thread is leasing pages; what it gets decides what the next one needs.
    pub(crate) growing: bool,
    /// Another thread has been told to wait for that.
    pub(crate) awaited: bool,
    serial: u64,
    pub(crate) stats: Stats,
    pub(crate) habits: Habits,
    /// Of a job that does not mark its iterations.
    pub(crate) marker: Option<Box<Marker>>,
    /// Of the running iteration's allocations, and the mark that the last one of them has reached.
    pub(crate) signature: Signature,
    pub(crate) mark: Option<Mark>,
    /// Of the blocks whose lifetime is learned, by arena and slot.
    ordinals: [Vec<Ordinal>; 3],
    /// By serial.
    notes: BTreeMap<u64, Note<D::Stream>>,
    /// Blocks that have been freed and that other streams may still use.
    pub(crate) parked: Vec<Parked<D>>,
    /// How many threads are looking at parked blocks just now.
    pub(crate) unparking: u32,
    /// A request has been told to wait, and any free may be what it waits for.
    pub(crate) hungry: bool,
    /// Other streams that the device is known to know.
    pub(crate) streams_known: Vec<D::Stream>,
}

impl<D: Device> Memory<D> {
    pub(crate) fn new(job: JobKey, bases: [Addr; 3], page_bytes: Bytes, len: Bytes) -> Self {
        Self {
            job,
            arenas: Lifetime::ALL.map(|_| Arena::new(page_bytes.value(), len.value())),
            bases,
            growing: false,
            awaited: false,
            serial: 0,
            stats: Stats::default(),
            habits: Habits::default(),
            marker: None,
            signature: Signature::default(),
            mark: None,
            ordinals: [const { Vec::new() }; 3],
            notes: BTreeMap::new(),
            parked: Vec::new(),
            unparking: 0,
            hungry: false,
            streams_known: Vec::new(),
        }
    }

    /// An iteration begins.
    pub(crate) fn begin(&mut self) {
        self.habits.begin();
        (self.signature, self.mark) = (Signature::default(), None);
    }

    /// The first mark of the running iteration, if an allocation of this size is to be its first.
    #[inline]
    pub(crate) fn first_mark(&self, size: u64) -> Option<Mark> {
        self.signature.first(size).filter(|_| self.habits.is_inside())
    }

    /// Which arena a request goes to now.
    #[inline]
    pub(crate) fn lifetime(&self, request: Request, size: u64) -> Lifetime {
        request.lifetime.unwrap_or_else(|| self.habits.lifetime(size))
    }

    pub(crate) fn arena(&self, lifetime: Lifetime) -> &Arena {
        &self.arenas[lifetime.index()]
    }

    /// The longest piece that is free and backed in any arena. O(blocks).
    pub(crate) fn largest_free(&self) -> Bytes {
        self.arenas.iter().map(Arena::largest_free).max().unwrap_or_default()
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, lifetime: Lifetime, pages: &[u64]) {
        self.arenas[lifetime.index()].back(pages);
    }

    #[inline]
    pub(crate) fn place(
        &mut self,
        lifetime: Lifetime,
        request: Request,
        size: u64,
        align: u64,
    ) -> Option<Block> {
        let Request { bytes, .. } = request;
        let (arena, base) = (&mut self.arenas[lifetime.index()], self.bases[lifetime.index()]);
        let serial = self.serial + 1;
        let slot = arena.place(size, align, serial)?;
        self.serial = serial;
        // A range lies within the address space, and the block within the range.
        let address = base.checked_add(Bytes::new(arena.start(slot)))?;
        if let Some(marker) = &mut self.marker {
            marker.made(size, self.stats.allocated.current);
        }
        self.stats.place(bytes, Bytes::new(size));
        if self.habits.is_inside() {
            self.mark = self.signature.push(size);
        }
        let learned = request.lifetime.is_none();
        if learned {
            self.learn(lifetime, slot, size);
        }
        if lifetime == Lifetime::Persistent {
            self.habits.keep(size);
        }
        if request.name.is_some() {
            self.notes.insert(serial, Note { name: request.name, streams: Vec::new() });
        }
        let home = Home::new(lifetime, slot, learned);
        Some(Block { address, bytes, serial, job: self.job, home })
    }

    fn learn(&mut self, lifetime: Lifetime, slot: Slot, size: u64) {
        let ordinals = &mut self.ordinals[lifetime.index()];
        let slot = slot as usize;
        if slot >= ordinals.len() {
            ordinals.resize(slot + 1, Ordinal::default());
        }
        ordinals[slot] = self.habits.made(size);
    }

    #[inline]
    pub(crate) fn free(&mut self, block: Block) -> Result<Freed<D>, FreeError> {
        self.check(block)?;
        if let Some(marker) = &mut self.marker {
            marker.freed = true;
        }
        let (lifetime, slot) = (block.home.lifetime(), block.home.slot());
        if block.home.is_learned() {
            let ordinal = self.ordinals[lifetime.index()].get(slot as usize);
            self.habits.freed(ordinal.copied().unwrap_or_default());
        }
        let arena = &mut self.arenas[lifetime.index()];
        let size = Bytes::new(arena.len_of(slot));
        self.stats.free(block.bytes, size);
        if !self.notes.is_empty()
            && let Some(Note { streams, .. }) = self.notes.remove(&block.serial)
            && !streams.is_empty()
        {
            arena.park(slot);
            let waits = streams.into_iter().map(Wait::new).collect();
            return Ok(Freed::Parked(Parked { lifetime, slot, waits }));
        }
        self.stats.release(size);
        Ok(Freed::Pages(lifetime, arena.free(slot)))
    }

    /// What a parked block waited for has passed.
    pub(crate) fn release(&mut self, lifetime: Lifetime, slot: Slot) -> Range<u64> {
        let arena = &mut self.arenas[lifetime.index()];
        self.stats.release(Bytes::new(arena.len_of(slot)));
        arena.free(slot)
    }

    /// Work on this stream uses a live block as well.
    pub(crate) fn use_on(&mut self, block: Block, stream: D::Stream) {
        let note = self.notes.entry(block.serial);
        let note = note.or_insert_with(|| Note { name: None, streams: Vec::new() });
        if !note.streams.contains(&stream) {
            note.streams.push(stream);
        }
    }

    /// All streams whose work uses a live block, or one that is parked.
    pub(crate) fn streams(&self) -> Vec<D::Stream> {
        let live = self.notes.values().flat_map(|note| &note.streams).copied();
        let parked = self.parked.iter().flat_map(|parked| &parked.waits).map(|wait| wait.stream);
        let mut streams: Vec<D::Stream> = Vec::new();
        for stream in live.chain(parked) {
            if !streams.contains(&stream) {
                streams.push(stream);
            }
        }
        streams
    }

    /// The live blocks, in the order of their addresses within each lifetime.
    pub(crate) fn live_blocks(&self) -> Vec<LiveBlock> {
        let mut blocks = Vec::new();
        for lifetime in Lifetime::ALL {
            let base = self.bases[lifetime.index()];
            let live = self.arenas[lifetime.index()].live().map(|(start, len, serial)| LiveBlock {
                name: self.notes.get(&serial).and_then(|note| note.name),
                address: base.checked_add(Bytes::new(start)).unwrap_or(base),
                bytes: Bytes::new(len),
                lifetime,
            });
            let first = blocks.len();
            blocks.extend(live);
            blocks[first..].sort_unstable_by_key(|block| block.address);
        }
        blocks
    }

    /// Whether the block is one of the job's that are live.
    #[inline]
    pub(crate) fn check(&self, block: Block) -> Result<(), FreeError> {
        let Block { address, serial, home, .. } = block;
        let lifetime = home.lifetime().index();
        let at = address.offset_from(self.bases[lifetime]).filter(|_| block.job == self.job);
        let arena = &self.arenas[lifetime];
        if at.is_some_and(|at| arena.holds(home.slot(), serial, at.value())) {
            Ok(())
        } else {
            Err(self.not_live(address))
        }
    }

    /// Why a block that is not there cannot be freed.
    #[cold]
    fn not_live(&self, address: Addr) -> FreeError {
        let is_live = |(arena, &base): (&Arena, &Addr)| {
            address.offset_from(base).is_some_and(|at| arena.is_live(at.value()))
        };
        if self.arenas.iter().zip(&self.bases).any(is_live) {
            FreeError::Stale(address)
        } else {
            FreeError::NotLive(address)
        }
    }
}
