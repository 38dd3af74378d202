//! Where a job's blocks lie: in the slots of a plan, or where they fit best in the arena of their
//! lifetime.
//!
//! The one place in which the two ways to place a block meet. A block's [`Home`] says in which zone
//! it lies. While a plan lays out the zone of the iteration, what lies there is asked of
//! [`Planned`]. All other zones are plain arenas.

use alloc::vec::Vec;
use core::ops::Range;

use super::arena::{Arena, Slot};
use super::compact::OptionalU32;
use super::history::History;
use super::planned::{Layout, Placed, PlanTask, Planned};
use crate::learn::signature::Signature;
use crate::types::block::{Block, Home, Request};
use crate::types::lifetime::Lifetime;
use crate::types::report::Planning;
use crate::types::units::{Addr, Bytes};
use crate::types::want::{Needed, Told};
use crate::types::zone::Zone;

/// The zone that plans lay out.
const PLANNED: usize = Zone::Iteration.index();

/// A job's arenas, its plans, and what its allocations did before.
pub(super) struct Placement {
    /// Where the zones begin.
    bases: [Addr; Zone::COUNT],
    arenas: [Arena; Zone::COUNT],
    planned: Planned,
    history: History,
    /// Iterations that repeat are to be planned.
    plans: bool,
}

impl Placement {
    /// Nothing on address ranges of `len` bytes each.
    pub(super) fn new(bases: [Addr; Zone::COUNT], page: u64, len: u64, plans: bool) -> Self {
        let arenas = Zone::ALL.map(|_| Arena::new(page, len));
        let (planned, history) = (Planned::new(page, len), History::default());
        Self { bases, arenas, planned, history, plans }
    }

    /// One on the same ranges in which nothing has room.
    pub(super) fn stand_in(&self, page: u64) -> Self {
        Self::new(self.bases, page, 0, false)
    }

    /// All blocks and all plans are gone.
    pub(super) fn clear(&mut self, page: u64) {
        let len = self.arenas[PLANNED].len().value();
        self.arenas = Zone::ALL.map(|_| Arena::new(page, len));
        self.planned = Planned::new(page, len);
    }

    /// An iteration begins, of a shape that the job may tell. Its blocks have serials from `first`
    /// on.
    pub(super) fn begin(&mut self, told: Option<u64>, first: u64) {
        self.history.begin(first);
        self.planned.begin(told);
    }

    /// The iteration ends, whose allocations come to this signature; the next block has the serial
    /// `next`. What is to be planned because of it, if anything is.
    pub(super) fn end(&mut self, signature: Signature, next: u64) -> Option<PlanTask> {
        let parts = (&mut self.history, &mut self.arenas[PLANNED]);
        self.planned.end(parts, signature, next).filter(|_| self.plans)
    }

    /// Follows a plan from the next iteration on.
    pub(super) fn install(&mut self, layout: Layout) {
        self.planned.install(layout);
    }

    /// How the plans serve the job.
    pub(super) fn planning(&self) -> Planning {
        self.planned.planning()
    }

    /// An iteration is under way.
    pub(super) const fn is_inside(&self) -> bool {
        self.history.is_inside()
    }

    /// What is known of how long a block will live that cannot be placed as it is, and is to lie in
    /// this zone.
    pub(super) fn told(&self, request: Request, zone: Zone) -> Told {
        match request.lifetime() {
            Some(told) if Zone::from(told) == zone => Told::ByTheJob,
            None if self.history.is_before_all() => {
                Told::Guessed { wave: self.history.has_freed() }
            }
            _ => Told::Learned,
        }
    }

    /// Places the block that is to have this serial where all is backed: as planned, or else where
    /// it fits best, in the arena of the lifetime that was decided for it if pages have been leased
    /// there. Its home, and where it begins.
    // Inlined, as what it calls: the way of almost all allocations, in one function and mostly in
    // registers.
    #[inline(always)]
    pub(super) fn place(
        &mut self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
        serial: u64,
    ) -> Option<(Home, Addr)> {
        if self.may_be_planned(request) {
            let parts = (&mut self.history, &mut self.arenas[PLANNED]);
            if decided.is_none() {
                match self.planned.place(parts, size, align, serial) {
                    Placed::At(slot, start) => {
                        return self.at(Zone::Iteration, slot, start);
                    }
                    Placed::Bare => return None,
                    Placed::Beyond | Placed::Elsewhere => {}
                }
            }
            if self.is_beyond(request, size, decided) {
                return self.place_beyond(size, align, serial);
            }
            // Its arena was decided before this iteration began, or is another than was foreseen.
            self.planned.interrupt(&mut self.history, &mut self.arenas[PLANNED]);
        }
        let lifetime = decided.unwrap_or_else(|| self.lifetime(request, size));
        let learned = match request.lifetime() {
            None => true,
            Some(told) => self.plans && told != Lifetime::Persistent,
        };
        let number = if learned { self.history.next() } else { OptionalU32::NONE };
        let arena = &mut self.arenas[lifetime.index()];
        let (slot, start) = if lifetime == Lifetime::Iteration && self.planned.in_slots() {
            let parts = (&mut self.history, arena);
            self.planned.place_elsewhere(parts, size, align, (serial, number))?
        } else {
            arena.place(size, align, serial, number)?
        };
        self.history.made(number, size, align);
        if lifetime == Lifetime::Persistent {
            self.history.keep(size);
        }
        self.at(lifetime.into(), slot, start)
    }

    /// Whether a request, if its arena has not been decided otherwise, is the next that a plan has
    /// foreseen, and goes to what persists. Not one whose lifetime the job has told.
    fn is_beyond(&self, request: Request, size: u64, decided: Option<Lifetime>) -> bool {
        let may_be = matches!(decided, None | Some(Lifetime::Persistent));
        may_be && request.lifetime().is_none() && self.planned.is_beyond(size)
    }

    /// Places such a block, if there is room.
    #[cold]
    fn place_beyond(&mut self, size: u64, align: u64, serial: u64) -> Option<(Home, Addr)> {
        let number = self.planned.next_number();
        let arena = &mut self.arenas[Zone::Persistent.index()];
        let (slot, start) = arena.place(size, align, serial, number)?;
        self.planned.placed_beyond();
        self.at(Zone::Persistent, slot, start)
    }

    /// Where a block that has no place could go, and the pages to be backed for that: none if
    /// another thread has made room meanwhile. An error says how long the range is that is used up.
    /// The list is one to use again.
    pub(super) fn want(
        &mut self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
        mut list: Vec<u64>,
    ) -> Result<Needed, Bytes> {
        if decided.is_none() && self.may_be_planned(request) {
            let parts = (&mut self.history, &mut self.arenas[PLANNED]);
            list = match self.planned.want(parts, size, align, list) {
                Ok(pages) => return Ok(Needed { zone: Zone::Iteration, pages, planned: true }),
                Err(list) => list,
            };
        }
        let lifetime = match decided {
            Some(decided) => decided,
            None if self.is_beyond(request, size, None) => Lifetime::Persistent,
            None => self.lifetime(request, size),
        };
        let arena = &mut self.arenas[lifetime.index()];
        let len = arena.len();
        let pages = match lifetime {
            Lifetime::Iteration => {
                self.planned.want_elsewhere((&mut self.history, arena), size, align, list)
            }
            _ => arena.plan(size, align, list),
        };
        Ok(Needed { zone: lifetime.into(), pages: pages.ok_or(len)?, planned: false })
    }

    /// Takes over pages of a zone that have been backed.
    pub(super) fn back(&mut self, zone: Zone, pages: &[u64]) {
        let arena = &mut self.arenas[zone.index()];
        match zone {
            Zone::Iteration => self.planned.back(arena, pages),
            _ => arena.back(pages),
        }
    }

    /// Takes back a live block. Its length, and the pages of its zone that this left empty, which
    /// are backed no more. None if it is not live.
    #[inline(always)]
    pub(super) fn free(&mut self, block: Block) -> Option<(u64, Range<u64>)> {
        let (home, serial) = (block.home(), block.serial());
        let (zone, slot) = (home.zone(), home.slot());
        let at = self.offset(block);
        let arena = &mut self.arenas[zone.index()];
        let is_iteration = zone == Zone::Iteration;
        if is_iteration && self.planned.in_slots() {
            self.planned.free((&mut self.history, arena), slot, serial, at)
        } else if let Some(live) = arena.live_at(slot, serial) {
            (Some(live.start) == at).then(|| {
                self.history.freed(live.number, serial, self.planned.unnoted());
                if zone == Zone::Persistent {
                    self.history.keep_no_more(live.len);
                }
                (live.len, arena.free(slot))
            })
        } else {
            let parts = (&mut self.history, arena);
            is_iteration.then(|| self.planned.free_known(parts, slot, serial, at)).flatten()
        }
    }

    /// The length of a block, if it is live.
    pub(super) fn live(&self, block: Block) -> Option<u64> {
        let (home, serial) = (block.home(), block.serial());
        let (zone, slot) = (home.zone(), home.slot());
        let arena = &self.arenas[zone.index()];
        let (start, len) = match zone {
            Zone::Iteration => self.planned.live(arena, slot, serial)?,
            _ => arena.live_at(slot, serial).map(|live| (live.start, live.len))?,
        };
        (Some(start) == self.offset(block)).then_some(len)
    }

    /// The live blocks of a zone, in no order: where it begins, the length and the serial of each.
    pub(super) fn spans(&self, zone: Zone) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let planned = (zone == Zone::Iteration).then(|| self.planned.blocks());
        self.arenas[zone.index()].live().chain(planned.into_iter().flatten())
    }

    /// The same with the address in place of where it begins.
    pub(super) fn blocks(&self, zone: Zone) -> impl Iterator<Item = (Addr, u64, u64)> + '_ {
        let base = self.bases[zone.index()];
        self.spans(zone).map(move |(start, len, serial)| {
            (base.checked_add(Bytes::new(start)).unwrap_or(base), len, serial)
        })
    }

    /// A live block has been freed, and its place is not free before it is
    /// [released](Self::release).
    pub(super) fn park(&mut self, home: Home, serial: u64) {
        let (zone, slot) = (home.zone(), home.slot());
        let arena = &mut self.arenas[zone.index()];
        if zone == Zone::Iteration {
            self.planned.park((&mut self.history, arena), slot, serial);
        } else {
            self.history.freed(arena.noted(slot), serial, self.planned.unnoted());
            arena.park(slot);
        }
    }

    /// The place of a parked block of this length is free. The pages of its zone that this leaves
    /// empty.
    pub(super) fn release(&mut self, home: Home, serial: u64, len: u64) -> Range<u64> {
        let (zone, slot) = (home.zone(), home.slot());
        let arena = &mut self.arenas[zone.index()];
        if zone == Zone::Iteration {
            return self.planned.release((&mut self.history, arena), slot, serial);
        }
        self.history.freed(arena.noted(slot), serial, self.planned.unnoted());
        if zone == Zone::Persistent {
            self.history.keep_no_more(len);
        }
        arena.free(slot)
    }

    /// Pages of a zone that are backed and in which nothing lies: they are backed no more.
    pub(super) fn give_up_spare(&mut self, zone: Zone) -> Vec<u64> {
        let arena = &mut self.arenas[zone.index()];
        match zone {
            Zone::Iteration => self.planned.give_up_spare(arena),
            _ => arena.give_up_spare(),
        }
    }

    /// The longest piece of a zone that is free and backed. Nothing is free in what a plan lays
    /// out. O(blocks).
    pub(super) fn largest_free(&self, zone: Zone) -> Bytes {
        self.arenas[zone.index()].largest_free()
    }

    /// Where in its zone a block begins, as it says.
    #[inline]
    pub(super) fn offset(&self, block: Block) -> Option<u64> {
        let base = self.bases[block.home().zone().index()];
        block.address().offset_from(base).map(Bytes::value)
    }

    /// A range lies within the address space, and a block within its range.
    #[inline]
    fn at(&self, zone: Zone, slot: Slot, start: u64) -> Option<(Home, Addr)> {
        let address = self.bases[zone.index()].checked_add(Bytes::new(start))?;
        Some((Home::new(zone, slot), address))
    }

    /// Whether it is one that the plan which is followed may have foreseen.
    #[inline]
    fn may_be_planned(&self, request: Request) -> bool {
        self.planned.follows() && request.lifetime() != Some(Lifetime::Persistent)
    }

    /// Which arena a request goes to now.
    #[inline]
    fn lifetime(&self, request: Request, size: u64) -> Lifetime {
        match request.lifetime() {
            None => self.history.lifetime(size),
            Some(_) if self.planned.is_out_of_place(&self.history, size) => Lifetime::Persistent,
            Some(told) => told,
        }
    }
}

#[cfg(test)]
mod tests;
