//! From the plan's slots to the arena, and back.

use alloc::vec::Vec;

use super::{Keeper, Occupant, Place, Planned, Spot};
use crate::heap::arena::{Arena, Slot, Standing};
use crate::heap::compact::OptionalU32;
use crate::heap::history::History;

impl Planned {
    /// The iteration under way is not as planned: it is noted from here on, and the arena takes
    /// over what lies in the slots.
    #[cold]
    pub(super) fn depart(&mut self, history: &mut History, arena: &mut Arena) {
        self.note(history);
        self.leave_slots(arena);
        self.look_over(arena);
    }

    /// The arena takes over all blocks where they lie, with their pages. O(blocks log blocks +
    /// pages).
    pub(super) fn leave_slots(&mut self, arena: &mut Arena) {
        if !self.in_slots() {
            return;
        }
        self.keeper = Keeper::Arena;
        arena.back(&self.pages.take_backed());
        let occupants = self.slots.iter_mut().filter(|place| place.occupant.serial != 0);
        let mut blocks: Vec<Place> = occupants.map(Place::vacate).collect();
        blocks.sort_unstable_by_key(|block| block.entry.start);
        self.moved.clear();
        let mut last = Arena::FIRST;
        for Place { entry, occupant } in blocks {
            let Occupant { serial, number, parked, .. } = occupant;
            let slot = arena.place_at(last, entry.start, entry.size, (serial, number));
            debug_assert!(slot.is_some(), "a slot with a block is backed, and overlaps no other");
            let Some(slot) = slot else { continue };
            if parked {
                arena.park(slot);
            }
            self.moved.push((serial, slot));
            last = slot;
        }
        self.moved.sort_unstable();
    }

    /// The slots take over what lies in the arena, if each block has one of its own there.
    /// O(pieces), and O(1) if there is nothing.
    pub(super) fn enter_slots(&mut self, arena: &mut Arena) {
        if self.in_slots() {
            return;
        }
        let mut found = Vec::new();
        if !arena.is_empty() {
            for block in arena.blocks() {
                let slot = self.own_slot(block.start, block.len).filter(|_| !block.parked);
                let Some(slot) = slot else { return };
                found.push((block, slot));
            }
            if arena.has_spare() {
                return;
            }
        }
        self.keeper = Keeper::Slots;
        self.moved.clear();
        for (block, slot) in found {
            self.pages.hold(block.start, block.len);
            let Standing { serial, number, .. } = block;
            let occupant = Occupant { serial, number, parked: false, keeps: false };
            self.slots[slot as usize].occupant = occupant;
            self.moved.push((serial, slot));
            // The pages that this leaves empty stay backed.
            arena.free(block.slot);
        }
        self.moved.sort_unstable();
    }

    /// The slot that is for a block which outlives its iteration and lies there.
    fn own_slot(&self, start: u64, len: u64) -> Option<Slot> {
        let layout = self.layout.as_ref()?;
        let at = layout.own.binary_search_by_key(&start, |&(start, _)| start).ok()?;
        let slot = layout.own[at].1;
        (self.slots[slot as usize].entry.size == len).then_some(slot)
    }

    /// From here on the plan is followed in the arena, as far as it has places for blocks that
    /// outlive their iteration: to see whether these are free, all blocks are to be found by their
    /// addresses. O(pieces).
    pub(super) fn look_over(&mut self, arena: &Arena) {
        self.follows &= self.layout.as_ref().is_some_and(|layout| !layout.own.is_empty());
        if self.follows {
            let blocks = arena.blocks().map(|block| (block.start, block.slot));
            self.keeper = Keeper::IndexedArena(blocks.collect());
        }
    }

    /// The plan has no more places in the arena.
    pub(super) fn forget_addresses(&mut self) {
        if let Keeper::IndexedArena(_) = self.keeper {
            self.keeper = Keeper::Arena;
        }
    }

    /// The last block before a place in the arena, if the place is free.
    pub(super) fn is_free(&self, arena: &Arena, start: u64, len: u64) -> Option<Slot> {
        let Keeper::IndexedArena(blocks) = &self.keeper else { return None };
        let before = blocks.range(..start + len).next_back();
        let &(before, slot) = &before.map_or((0, Arena::FIRST), |(&start, &slot)| (start, slot));
        let is_free = slot == Arena::FIRST || before < start && arena.end_of(slot) <= start;
        is_free.then_some(slot)
    }

    /// Places what the plan has not foreseen, where it fits best.
    #[cold]
    pub(crate) fn place_elsewhere(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        size: u64,
        align: u64,
        (serial, number): (u64, OptionalU32),
    ) -> Option<(Slot, u64)> {
        if self.in_slots() {
            self.depart(history, arena);
        }
        let placed = arena.place(size, align, serial, number)?;
        self.find_later(placed);
        Some(placed)
    }

    /// A block has been placed in the arena.
    pub(super) fn find_later(&mut self, (slot, start): (Slot, u64)) {
        if let Keeper::IndexedArena(blocks) = &mut self.keeper {
            blocks.insert(start, slot);
        }
    }

    /// The pages to be backed for that.
    pub(crate) fn want_elsewhere(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        size: u64,
        align: u64,
        list: Vec<u64>,
    ) -> Option<Vec<u64>> {
        if self.in_slots() {
            self.depart(history, arena);
        }
        arena.plan(size, align, list)
    }

    /// Pages that the place of the next allocation needs and that are not backed, if the allocation
    /// is as foreseen and goes there. The list is one to use again; it comes back if it does not.
    pub(crate) fn want(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        size: u64,
        align: u64,
        list: Vec<u64>,
    ) -> Result<Vec<u64>, Vec<u64>> {
        match self.spot((history, arena), size, align) {
            None => Err(list),
            Some(Spot::Slot { start, len, .. }) => Ok(self.pages.missing(start, len, list)),
            Some(Spot::Arena { before, start, len }) => {
                Ok(arena.pages_at(before, start, len, list))
            }
        }
    }

    /// The handle's slot, or where the block has been moved since.
    #[inline]
    pub(super) fn slot_of(&self, arena: &Arena, slot: Slot, serial: u64) -> Slot {
        match arena.live_at(slot, serial) {
            Some(_) => slot,
            None => self.moved_to(serial).unwrap_or(slot),
        }
    }

    #[cold]
    pub(super) fn moved_to(&self, serial: u64) -> Option<Slot> {
        let at = self.moved.binary_search_by_key(&serial, |&(serial, _)| serial).ok()?;
        Some(self.moved[at].1)
    }

    /// The slot that has this block, as its handle says or where it has been moved since.
    #[inline]
    pub(super) fn occupant(&self, slot: Slot, serial: u64) -> Option<&Place> {
        let is_it = |place: &&Place| place.occupant.serial == serial;
        let here = self.slots.get(slot as usize).filter(is_it);
        here.or_else(|| self.slots.get(self.moved_to(serial)? as usize).filter(is_it))
    }

    #[inline(always)]
    pub(super) fn occupant_mut(&mut self, slot: Slot, serial: u64) -> Option<&mut Place> {
        match self.slots.get(slot as usize) {
            Some(place) if place.occupant.serial == serial => self.slots.get_mut(slot as usize),
            _ => self.moved_occupant(serial),
        }
    }

    #[cold]
    fn moved_occupant(&mut self, serial: u64) -> Option<&mut Place> {
        let slot = self.moved_to(serial)?;
        self.slots.get_mut(slot as usize).filter(|place| place.occupant.serial == serial)
    }

    /// The live blocks in the slots, in no order: where each begins, its length and its serial.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let here = self.slots.iter().filter(|_| self.in_slots());
        let live = here.filter(|place| place.occupant.serial != 0 && !place.occupant.parked);
        live.map(|place| (place.entry.start, place.entry.size, place.occupant.serial))
    }
}
