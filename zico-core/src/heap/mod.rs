//! A job's memory: where its blocks lie ([`placement`]), their names, streams, serials and figures.

pub(crate) mod arena;
pub(crate) mod away;
pub(crate) mod compact;
pub(crate) mod ending;
pub(crate) mod history;
pub(crate) mod parked;
mod placement;
pub(crate) mod planned;
mod serials;
mod tally;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use crate::learn::signature::{Mark, Signature};
use crate::types::block::{Block, Request};
use crate::types::device::Device;
use crate::types::error::FreeError;
use crate::types::lifetime::Lifetime;
use crate::types::pulse::SharedPulse;
use crate::types::report::JobSnapshot;
use crate::types::stats::{LiveBlock, Stats};
use crate::types::tuning::{PATIENCE_FOR_NOTHING, STREAMS_KNOWN};
use crate::types::units::{Addr, Bytes, Ticks};
use crate::types::want::{Needed, Told, Want};
use crate::types::zone::Zone;
use away::Away;
use ending::Ending;
use parked::Parked;
use placement::Placement;
use planned::{Layout, PlanTask};
use serials::Serials;
use tally::Tally;

pub(crate) use arena::GRANULE;

/// What few blocks have beside their place.
struct Note<S> {
    name: Option<&'static str>,
    /// Other streams than the job's own whose work uses the block.
    streams: Vec<S>,
}

pub(crate) struct JobHeap<D: Device> {
    placement: Placement,
    /// Where the blocks lie of a job whose memory is on the host. Nothing can be placed meanwhile.
    away: Option<Box<Away>>,
    page_bytes: Bytes,
    pulse: SharedPulse,
    /// It goes to the host within its own calls only.
    pub(crate) is_cooperative: bool,
    /// A thread is leasing pages; what it gets decides what the next one needs.
    pub(crate) growing: bool,
    /// Another thread has been told to wait for that.
    pub(crate) awaited: bool,
    /// The list of the pages that it leased last, to be used again.
    pub(crate) wanted: Vec<u64>,
    serials: Serials,
    pub(crate) tally: Tally,
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
    /// Streams that use blocks which a thread is looking at just now, once for each use: what is
    /// neither noted nor parked.
    looked_at: Vec<D::Stream>,
    /// The job has left, and has nothing any more.
    pub(crate) closed: bool,
    pub(crate) ending: Ending,
}

impl<D: Device> JobHeap<D> {
    /// Other books count the job's iterations from nothing: the one that runs is the first.
    pub(crate) fn restart_pulse(&mut self, runs: bool) {
        self.pulse.reset();
        if runs {
            self.pulse.restart();
        }
        // Those that wait for other streams wait still.
        self.parked.iter().for_each(|_| self.pulse.park());
    }

    pub(crate) fn new(
        bases: [Addr; Zone::COUNT],
        page_bytes: Bytes,
        len: Bytes,
        plans: bool,
        pulse: SharedPulse,
    ) -> Self {
        Self {
            placement: Placement::new(bases, page_bytes.value(), len.value(), plans),
            away: None,
            page_bytes,
            pulse,
            is_cooperative: false,
            growing: false,
            awaited: false,
            wanted: Vec::new(),
            serials: Serials::new(),
            tally: Tally::default(),
            signature: Signature::default(),
            notes: BTreeMap::new(),
            parked: Vec::new(),
            unparking: 0,
            has_waiters: false,
            streams_known: VecDeque::new(),
            looked_at: Vec::new(),
            closed: false,
            ending: Ending::No,
        }
    }

    /// An iteration begins, of a shape that the job may tell.
    pub(crate) fn begin(&mut self, told: Option<u64>) {
        self.placement.begin(told, self.serials.next());
        self.signature = Signature::default();
    }

    /// The iteration ends. What is to be planned because of it, if anything is.
    pub(crate) fn end(&mut self) -> Option<PlanTask> {
        let (signature, next) = (self.signature, self.serials.next());
        self.lies_mut().end(signature, next)
    }

    /// The iteration is over when the next one begins. Not if none runs.
    pub(crate) fn ends_with_next(&mut self, now: Ticks) -> bool {
        if self.is_inside() && self.ending == Ending::No {
            self.ending = Ending::WithNext { seen: self.pulse.progress(), since: now };
        }
        self.is_inside()
    }

    /// Whether an iteration is over and its job has stood still for so long; not as long if nothing
    /// is left that it may free within it ([`PATIENCE_FOR_NOTHING`]).
    pub(crate) fn is_overdue(&mut self, now: Ticks, patience: Ticks) -> bool {
        let progress = self.pulse.progress();
        if !self.ending.is_overdue(progress, now, patience.min(PATIENCE_FOR_NOTHING)) {
            return false;
        }
        let has_nothing = self.placement.spans(Zone::Iteration).next().is_none();
        has_nothing || self.ending.is_overdue(progress, now, patience)
    }

    /// Follows a plan from the next iteration on.
    pub(crate) fn install(&mut self, layout: Layout) {
        self.lies_mut().install(layout);
    }

    /// Adds to what the books say of the job what it knows of its blocks itself. O(blocks).
    pub(crate) fn report(&self, job: &mut JobSnapshot) {
        job.stats = Stats { reserved: job.stats.reserved, ..self.tally.stats() };
        job.largest_free = self.largest_free();
        let leased = job.held.total().saturating_sub(job.held.draining);
        job.stranded = leased.saturating_sub(job.stats.active.current);
        job.planning = self.lies().planning();
        job.progress = self.pulse.progress();
    }

    /// The job leaves: it has nothing any more. What it had; the [streams](Self::streams) whose
    /// work uses that are still known.
    pub(crate) fn close(&mut self) -> Vec<LiveBlock> {
        let blocks = self.live_blocks();
        self.looked_at = self.streams();
        self.closed = true;
        self.return_from_away();
        self.placement.clear(self.page_bytes.value());
        self.notes.clear();
        self.parked.clear();
        self.tally = Tally::default();
        blocks
    }

    /// What is known of how long a block will live that cannot be placed as it is, and is to lie in
    /// this zone.
    pub(crate) fn told(&self, request: Request, zone: Zone) -> Told {
        self.placement.told(request, zone)
    }

    /// Whether a block lies in all the pages that have been leased for it.
    pub(crate) fn touches(&self, block: Block, want: &Want) -> bool {
        let zone = block.home().zone();
        let Some(start) = self.placement.offset(block).filter(|_| zone == want.zone) else {
            return false;
        };
        let shift = self.page_bytes.value().trailing_zeros();
        let last = start.saturating_add(block.bytes().value().max(1) - 1);
        let pages = start >> shift..=last >> shift;
        want.pages.iter().all(|page| pages.contains(page))
    }

    /// Pages of an arena that are backed and in which nothing lies.
    pub(crate) fn give_up_spare(&mut self, lifetime: Lifetime) -> Vec<u64> {
        self.placement.give_up_spare(lifetime.into())
    }

    /// An iteration is under way.
    pub(crate) fn is_inside(&self) -> bool {
        self.lies().is_inside()
    }

    /// Whether something has to happen before the next allocation.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.signature.is_empty() && self.placement.is_inside()
    }

    /// The first mark of the running iteration, if an allocation of this size is to be its first.
    pub(crate) fn first_mark(&self, size: u64) -> Option<Mark> {
        self.signature.first(size).filter(|_| self.placement.is_inside())
    }

    /// The longest piece that is free and backed in any arena. O(blocks).
    fn largest_free(&self) -> Bytes {
        Zone::ALL.map(|zone| self.lies().largest_free(zone)).into_iter().max().unwrap_or_default()
    }

    /// The same of one zone; nothing is free in what a plan lays out.
    pub(crate) fn largest_free_in(&self, zone: Zone) -> Bytes {
        self.placement.largest_free(zone)
    }

    /// The mark that the last allocation of the running iteration has reached, if any.
    #[inline]
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.signature.mark().filter(|_| self.placement.is_inside())
    }

    /// Where a block that has no place could go, and the pages to be backed for that: none if
    /// another thread has made room meanwhile. An error says how long the range is that is used up.
    pub(crate) fn want(
        &mut self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
    ) -> Result<Needed, Bytes> {
        let list = core::mem::take(&mut self.wanted);
        self.placement.want(request, size, align, decided, list)
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, zone: Zone, pages: &[u64]) {
        self.placement.back(zone, pages);
    }

    /// Allocates where all is backed, in the arena of the lifetime that was decided for it if pages
    /// have been leased there.
    #[inline(always)]
    pub(crate) fn alloc(
        &mut self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
    ) -> Option<Block> {
        let Request { bytes, name, .. } = request;
        let serial = self.serials.next();
        let (home, address) = self.placement.place(request, size, align, decided, serial)?;
        self.serials.take();
        self.tally.place(bytes, Bytes::new(size));
        if self.placement.is_inside() {
            self.signature.push(size);
        }
        if name.is_some() {
            self.notes.insert(serial, Note { name, streams: Vec::new() });
        }
        Some(Block::new(address, bytes, serial, home))
    }

    /// Whether anything has been noted of any block: such a block is to be
    /// [forgotten](Self::forget) before it is freed.
    #[inline]
    pub(crate) fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// Takes a live block back. The pages of this zone that this leaves empty.
    #[inline]
    pub(crate) fn free(&mut self, block: Block) -> Result<(Zone, Range<u64>), FreeError> {
        let Some((size, pages)) = self.placement.free(block) else {
            return self.free_away(block);
        };
        self.tally.free(block.bytes(), Bytes::new(size));
        Ok((block.home().zone(), pages))
    }

    /// The live blocks, in the order of their addresses within each zone.
    pub(crate) fn live_blocks(&self) -> Vec<LiveBlock> {
        self.numbered_blocks().into_iter().map(|(_, block)| block).collect()
    }

    /// The same with the serial of each.
    pub(crate) fn numbered_blocks(&self) -> Vec<(u64, LiveBlock)> {
        let mut blocks = Vec::new();
        for zone in Zone::ALL {
            let block = |(address, len, serial)| {
                let name = self.notes.get(&serial).and_then(|note| note.name);
                let (bytes, lifetime) = (Bytes::new(len), zone.lifetime());
                (serial, LiveBlock { name, address, bytes, lifetime })
            };
            let first = blocks.len();
            blocks.extend(self.lies().blocks(zone).map(block));
            blocks[first..].sort_unstable_by_key(|(_, block)| block.address);
        }
        blocks
    }

    /// The size of a block that is one of the job's and live.
    pub(crate) fn check(&self, block: Block) -> Result<Bytes, FreeError> {
        let len = self.lies().live(block).map(Bytes::new);
        len.ok_or_else(|| self.not_live(block.address()))
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
