//! Where a block goes: as planned, or where it fits best in the arena of its lifetime.

use super::{GROUND, JobHeap, Note};
use crate::heap::history::NONE;
use crate::heap::planned::Placed;
use crate::types::block::{Block, Home, Request};
use crate::types::device::Device;
use crate::types::lifetime::Lifetime;
use crate::types::units::{Addr, Bytes};
use crate::types::want::Needed;
use crate::types::zone::Zone;

impl<D: Device> JobHeap<D> {
    /// Where a block that has no place could go, and the pages to be backed for that: none if another
    /// thread has made room meanwhile. An error says how long the range is that is used up.
    pub(crate) fn want(
        &mut self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
    ) -> Result<Needed, Bytes> {
        let mut pages = core::mem::take(&mut self.wanted);
        if decided.is_none() && self.may_be_planned(request) {
            let ground = (&mut self.history, &mut self.arenas[GROUND]);
            pages = match self.planned.want(ground, size, align, pages) {
                Ok(pages) => return Ok(Needed { zone: Zone::Iteration, pages, planned: true }),
                Err(list) => list,
            };
        }
        let lifetime = decided.unwrap_or_else(|| self.lifetime(request, size));
        let arena = &mut self.arenas[lifetime.index()];
        let len = arena.len();
        let pages = match lifetime {
            Lifetime::Iteration => {
                self.planned.want_elsewhere((&mut self.history, arena), size, align, pages)
            }
            _ => arena.plan(size, align, pages),
        };
        Ok(Needed { zone: lifetime.into(), pages: pages.ok_or(len)?, planned: false })
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, zone: Zone, pages: &[u64]) {
        let arena = &mut self.arenas[zone.index()];
        match zone {
            Zone::Iteration => self.planned.back(arena, pages),
            _ => arena.back(pages),
        }
    }

    /// Allocates where all is backed: as planned, or else where it fits best, in the arena of the lifetime
    /// that was decided for it if pages have been leased there.
    // Inlined, as what it calls: the way of almost all allocations, in one function and mostly in registers.
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
        let (home, address) = self.place(request, size, align, decided, serial)?;
        self.serials.take();
        self.tally.place(bytes, Bytes::new(size));
        if self.history.is_inside() {
            self.signature.push(size);
        }
        if name.is_some() {
            self.notes.insert(serial, Note { name, streams: alloc::vec::Vec::new() });
        }
        Some(Block::new(address, bytes, serial, home))
    }

    /// Places the block that is to have this serial.
    #[inline(always)]
    fn place(
        &mut self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
        serial: u64,
    ) -> Option<(Home, Addr)> {
        let may_be_planned = self.may_be_planned(request);
        if may_be_planned {
            let ground = (&mut self.history, &mut self.arenas[GROUND]);
            if decided.is_none() {
                match self.planned.place(ground, size, align, serial) {
                    Placed::At(slot, start) => {
                        return self.at(Home::new(Zone::Iteration, slot), start);
                    }
                    Placed::Bare => return None,
                    Placed::Elsewhere => {}
                }
            } else {
                // Its arena was decided before this iteration began.
                self.planned.interrupt(ground.0, ground.1);
            }
        }
        let lifetime = decided.unwrap_or_else(|| self.lifetime(request, size));
        let learned = match request.lifetime() {
            None => true,
            Some(told) => self.plans && told != Lifetime::Persistent,
        };
        let number = if learned { self.history.next() } else { NONE };
        let arena = &mut self.arenas[lifetime.index()];
        let (slot, start) = if lifetime == Lifetime::Iteration && !self.planned.is_out() {
            let ground = (&mut self.history, arena);
            self.planned.place_elsewhere(ground, size, align, (serial, number))?
        } else {
            arena.place(size, align, serial, number)?
        };
        self.history.made(number, size, align);
        if lifetime == Lifetime::Persistent {
            self.history.keep(size);
        }
        self.at(Home::new(lifetime.into(), slot), start)
    }

    /// Whether it is one that the plan which is followed may have foreseen.
    #[inline]
    fn may_be_planned(&self, request: Request) -> bool {
        self.planned.follows() && request.lifetime() != Some(Lifetime::Persistent)
    }

    /// Which arena a request goes to now.
    #[inline]
    fn lifetime(&self, request: Request, size: u64) -> Lifetime {
        request.lifetime().unwrap_or_else(|| self.history.lifetime(size))
    }

    /// A range lies within the address space, and a block within its range.
    #[inline]
    fn at(&self, home: Home, start: u64) -> Option<(Home, Addr)> {
        Some((home, self.bases[home.zone().index()].checked_add(Bytes::new(start))?))
    }
}
