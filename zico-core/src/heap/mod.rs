//! A job's memory: its arenas, its live blocks, and what is known of them.

pub(crate) mod arena;
pub(crate) mod history;
pub(crate) mod parked;
mod place;
pub(crate) mod planned;
mod serials;
mod tally;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use crate::learn::signature::{Mark, Signature};
use crate::types::block::{Block, Request};
use crate::types::device::Device;
use crate::types::error::FreeError;
use crate::types::lifetime::Lifetime;
use crate::types::pulse::Pulse;
use crate::types::stats::LiveBlock;
use crate::types::sync::Arc;
use crate::types::units::{Addr, Bytes};
use crate::types::want::{Told, Want};
use crate::types::zone::Zone;
use arena::Arena;
use history::History;
use parked::Parked;
use planned::{Layout, Lesson, Planned};
use serials::Serials;
use tally::Tally;

pub(crate) use arena::GRANULE;
pub use planned::Planning;

/// How many arenas a job has: one for each lifetime.
const ARENAS: usize = Lifetime::ALL.len();
/// The one in which plans lay out an iteration's blocks.
const GROUND: usize = Lifetime::Iteration.index();

/// What few blocks have beside their place.
struct Note<S> {
    name: Option<&'static str>,
    /// Other streams than the job's own whose work uses the block.
    streams: Vec<S>,
}

/// So many streams are remembered to be known to the device.
const STREAMS_KNOWN: usize = 64;

pub(crate) struct JobHeap<D: Device> {
    arenas: [Arena; ARENAS],
    planned: Planned,
    /// Iterations that repeat are to be planned.
    plans: bool,
    page_bytes: Bytes,
    pulse: Arc<Pulse>,
    /// Where the zones begin.
    bases: [Addr; Zone::COUNT],
    /// A thread is leasing pages; what it gets decides what the next one needs.
    pub(crate) growing: bool,
    /// Another thread has been told to wait for that.
    pub(crate) awaited: bool,
    /// The list of the pages that it leased last, to be used again.
    pub(crate) wanted: Vec<u64>,
    serials: Serials,
    pub(crate) tally: Tally,
    history: History,
    /// Of the running iteration's allocations.
    pub(crate) signature: Signature,
    /// By serial.
    notes: BTreeMap<u64, Note<D::Stream>>,
    /// Blocks that have been freed and that other streams may still use.
    pub(crate) parked: Vec<Parked<D>>,
    /// How many threads are looking at parked blocks just now.
    pub(crate) unparking: u32,
    /// A request has been told to wait, and any free may be what it waits for.
    pub(crate) has_waiters: bool,
    /// Other streams that the device is known to know, those used last.
    streams_known: VecDeque<D::Stream>,
    /// Streams that use blocks which a thread is looking at just now, once for each use: what is neither
    /// noted nor parked.
    looked_at: Vec<D::Stream>,
    /// The job has left, and has nothing any more.
    pub(crate) closed: bool,
}

impl<D: Device> JobHeap<D> {
    pub(crate) fn new(
        bases: [Addr; Zone::COUNT],
        page_bytes: Bytes,
        len: Bytes,
        plans: bool,
        pulse: Arc<Pulse>,
    ) -> Self {
        Self {
            arenas: Lifetime::ALL.map(|_| Arena::new(page_bytes.value(), len.value())),
            planned: Planned::new(page_bytes.value(), len.value()),
            plans,
            page_bytes,
            pulse,
            bases,
            growing: false,
            awaited: false,
            wanted: Vec::new(),
            serials: Serials::new(),
            tally: Tally::default(),
            history: History::default(),
            signature: Signature::default(),
            notes: BTreeMap::new(),
            parked: Vec::new(),
            unparking: 0,
            has_waiters: false,
            streams_known: VecDeque::new(),
            looked_at: Vec::new(),
            closed: false,
        }
    }

    /// An iteration begins, of a shape that the job may tell.
    pub(crate) fn begin(&mut self, told: Option<u64>) {
        self.history.begin(self.serials.next());
        self.planned.begin(told);
        self.signature = Signature::default();
    }

    /// The iteration ends. What is to be planned because of it, if anything is.
    pub(crate) fn end(&mut self) -> Option<Lesson> {
        let (signature, next) = (self.signature, self.serials.next());
        let ground = (&mut self.history, &mut self.arenas[GROUND]);
        let lesson = self.planned.end(ground, signature, next);
        lesson.filter(|_| self.plans)
    }

    /// Follows a plan from the next iteration on.
    pub(crate) fn install(&mut self, layout: Layout) {
        self.planned.install(layout);
    }

    /// How the plans serve the job.
    pub(crate) fn planning(&self) -> Planning {
        self.planned.planning()
    }

    /// The job leaves: it has nothing any more. What it had; the [streams](Self::streams) whose work uses
    /// that are still known.
    pub(crate) fn close(&mut self) -> Vec<LiveBlock> {
        let blocks = self.live_blocks();
        self.looked_at = self.streams();
        self.closed = true;
        let (page, len) = (self.page_bytes.value(), self.arenas[0].len().value());
        self.arenas = Lifetime::ALL.map(|_| Arena::new(page, len));
        self.planned = Planned::new(page, len);
        self.notes.clear();
        self.parked.clear();
        self.tally = Tally::default();
        blocks
    }

    /// What is known of how long a block will live that cannot be placed as it is.
    pub(crate) fn told(&self, request: Request) -> Told {
        match request.lifetime() {
            Some(_) => Told::ByTheJob,
            None if self.history.is_before_all() => {
                Told::Guessed { wave: self.history.has_freed() }
            }
            None => Told::Learned,
        }
    }

    /// Whether a block lies in all the pages that have been leased for it.
    pub(crate) fn touches(&self, block: Block, want: &Want) -> bool {
        let zone = block.home().zone();
        let Some(start) = self.offset(block, zone).filter(|_| zone == want.zone) else {
            return false;
        };
        let shift = self.page_bytes.value().trailing_zeros();
        let last = start.saturating_add(block.bytes().value().max(1) - 1);
        let pages = start >> shift..=last >> shift;
        want.pages.iter().all(|page| pages.contains(page))
    }

    /// Pages of an arena that are backed and in which nothing lies.
    pub(crate) fn give_up_spare(&mut self, lifetime: Lifetime) -> Vec<u64> {
        match lifetime {
            Lifetime::Iteration => self.planned.give_up_spare(&mut self.arenas[GROUND]),
            other => self.arenas[other.index()].give_up_spare(),
        }
    }

    /// An iteration is under way.
    pub(crate) const fn is_inside(&self) -> bool {
        self.history.is_inside()
    }

    /// Whether something has to happen before the next allocation.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.signature.is_empty() && self.history.is_inside()
    }

    /// The first mark of the running iteration, if an allocation of this size is to be its first.
    pub(crate) fn first_mark(&self, size: u64) -> Option<Mark> {
        self.signature.first(size).filter(|_| self.history.is_inside())
    }

    /// The longest piece that is free and backed in any arena. O(blocks).
    pub(crate) fn largest_free(&self) -> Bytes {
        self.arenas.iter().map(Arena::largest_free).max().unwrap_or_default()
    }

    /// The same of one zone; nothing is free in what a plan lays out.
    pub(crate) fn largest_free_in(&self, zone: Zone) -> Bytes {
        self.arenas[zone.index()].largest_free()
    }

    /// The mark that the last allocation of the running iteration has reached, if any.
    #[inline]
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.signature.mark().filter(|_| self.history.is_inside())
    }

    /// Whether anything has been noted of any block: such a block is to be [forgotten](Self::forget) before
    /// it is freed.
    #[inline]
    pub(crate) fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// Takes a live block back. The pages of this zone that this leaves empty.
    #[inline]
    pub(crate) fn free(&mut self, block: Block) -> Result<(Zone, Range<u64>), FreeError> {
        let (home, serial, bytes) = (block.home(), block.serial(), block.bytes());
        let zone = home.zone();
        let (slot, at) = (home.slot(), self.offset(block, zone));
        let arena = &mut self.arenas[zone.index()];
        let is_iteration = zone == Zone::Iteration;
        let freed = if is_iteration && !self.planned.is_out() {
            self.planned.free((&mut self.history, arena), slot, serial, at)
        } else if let Some(live) = arena.live_at(slot, serial) {
            (Some(live.start) == at).then(|| {
                self.history.freed(live.number, serial);
                if zone == Zone::Persistent {
                    self.history.keep_no_more(live.len);
                }
                (live.len, arena.free(slot))
            })
        } else {
            let ground = (&mut self.history, arena);
            is_iteration.then(|| self.planned.free_known(ground, slot, serial, at)).flatten()
        };
        let Some((size, pages)) = freed else { return Err(self.not_live(block.address())) };
        self.count_free(bytes, Bytes::new(size));
        Ok((zone, pages))
    }

    /// A block is no longer live of which so many bytes had been asked for, and which took so many.
    #[inline]
    fn count_free(&mut self, bytes: Bytes, size: Bytes) {
        self.tally.free(bytes, size);
    }

    /// The live blocks, in the order of their addresses within each zone.
    pub(crate) fn live_blocks(&self) -> Vec<LiveBlock> {
        let mut blocks = Vec::new();
        for zone in Zone::ALL {
            let base = self.bases[zone.index()];
            let block = |(start, len, serial)| LiveBlock {
                name: self.notes.get(&serial).and_then(|note| note.name),
                address: base.checked_add(Bytes::new(start)).unwrap_or(base),
                bytes: Bytes::new(len),
                lifetime: zone.lifetime(),
            };
            let first = blocks.len();
            blocks.extend(self.arenas[zone.index()].live().map(block));
            if zone == Zone::Iteration {
                blocks.extend(self.planned.blocks().map(block));
            }
            blocks[first..].sort_unstable_by_key(|block| block.address);
        }
        blocks
    }

    /// The size of a block that is one of the job's and live.
    pub(crate) fn check(&self, block: Block) -> Result<Bytes, FreeError> {
        let (address, serial, home) = (block.address(), block.serial(), block.home());
        let (zone, slot) = (home.zone(), home.slot());
        let arena = &self.arenas[zone.index()];
        let live = match zone {
            Zone::Iteration => self.planned.live(arena, slot, serial),
            _ => arena.live_at(slot, serial).map(|live| (live.start, live.len)),
        };
        match live {
            Some((start, len)) if Some(start) == self.offset(block, zone) => Ok(Bytes::new(len)),
            _ => Err(self.not_live(address)),
        }
    }

    /// Where in a zone a block says that it is.
    #[inline]
    fn offset(&self, block: Block, zone: Zone) -> Option<u64> {
        block.address().offset_from(self.bases[zone.index()]).map(Bytes::value)
    }

    /// Why a block that is not there cannot be freed.
    #[cold]
    fn not_live(&self, address: Addr) -> FreeError {
        if self.live_blocks().iter().any(|block| block.address == address) {
            FreeError::Stale(address)
        } else {
            FreeError::NotLive(address)
        }
    }
}
