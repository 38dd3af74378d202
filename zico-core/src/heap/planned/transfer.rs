//! From the plan's slots to the arena, and back.

use alloc::vec::Vec;

use super::follow::Spot;
use super::layout::Layout;
use super::pages::pages_beside;
use super::{Occupant, Place, Planned};
use crate::heap::arena::{Arena, Slot, Standing};
use crate::heap::compact::OptionalU32;
use crate::heap::history::History;
use crate::types::tuning::OBSTRUCTED;

impl Planned {
    /// The iteration under way is not as planned: it is noted from here on, and the arena takes
    /// over what lies in the slots.
    #[cold]
    pub(super) fn depart(&mut self, history: &mut History, arena: &mut Arena) {
        self.note(history);
        self.leave_slots(arena);
    }

    /// The arena takes over all blocks where they lie, with their pages. O(blocks log blocks +
    /// pages).
    pub(super) fn leave_slots(&mut self, arena: &mut Arena) {
        if !self.in_slots() {
            return;
        }
        self.in_slots = false;
        let beside = core::mem::take(&mut self.moved);
        arena.back(&self.pages.take_backed());
        let occupants = self.slots.iter_mut().filter(|place| place.occupant.serial != 0);
        let mut blocks: Vec<Place> = occupants.map(Place::vacate).collect();
        blocks.sort_unstable_by_key(|block| block.entry.start);
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
        self.keep_moved(beside, arena);
    }

    /// Blocks that lay beside the slots, or do now, are where they had been moved to.
    fn keep_moved(&mut self, beside: Vec<(u64, Slot)>, arena: &Arena) {
        let is_there = |&(serial, slot): &(u64, Slot)| {
            let is_its = arena.live_at(slot, serial).is_some() || arena.is_parked(slot);
            is_its && self.moved_to(serial).is_none()
        };
        let there: Vec<(u64, Slot)> = beside.into_iter().filter(is_there).collect();
        self.moved.extend(there);
        self.moved.sort_unstable();
    }

    /// The slots take over what lies in the arena. Where something is in the way they move first, to
    /// where nothing is.
    pub(super) fn enter_slots_or_move(&mut self, history: &History, arena: &mut Arena) {
        self.enter_slots(history, arena);
        let (is_in, page) = (self.in_slots(), self.pages.bytes());
        let Some(plan) = self.plans.iter_mut().next() else { return };
        if is_in {
            plan.obstructed = 0;
            return;
        }
        plan.obstructed = plan.obstructed.saturating_add(1);
        // After twice as many each time: pages elsewhere are mapped anew.
        if plan.obstructed < OBSTRUCTED << plan.moves.min(16) {
            return;
        }
        let base = free_base(arena, &plan.layout, page, self.len);
        let Some(base) = base.filter(|_| may_stay(history, &plan.layout, page, arena.blocks()))
        else {
            return;
        };
        (plan.base, plan.obstructed) = (base, 0);
        plan.moves += 1;
        self.lay_out(base);
        self.enter_slots(history, arena);
    }

    /// The slots take over what lies in the arena, if each block has one of its own there or lies
    /// beside them. O(pieces), and O(1) if there is nothing.
    fn enter_slots(&mut self, history: &History, arena: &mut Arena) {
        if self.in_slots() {
            return;
        }
        let (mut found, mut beside) = (Vec::new(), Vec::new());
        if !arena.is_empty() {
            for block in arena.blocks() {
                match self.own_slot(block.start, block.len).filter(|_| !block.parked) {
                    Some(slot) => found.push((block, slot)),
                    None if self.is_beside(&block) => beside.push(block),
                    None => return,
                }
            }
            let Some(layout) = &self.layout else { return };
            let page = self.pages.bytes();
            if arena.has_spare() || !may_stay(history, layout, page, beside.into_iter()) {
                return;
            }
        }
        self.in_slots = true;
        let moved = core::mem::take(&mut self.moved);
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
        self.keep_moved(moved, arena);
    }

    /// Whether a block of the arena lies in no page of the slots.
    fn is_beside(&self, block: &Standing) -> bool {
        let height = self.layout.as_ref().map_or(0, |layout| layout.height);
        let end = (self.base + height).next_multiple_of(self.pages.bytes());
        block.start + block.len <= self.base || block.start >= end
    }

    /// The slot that is for a block which outlives its iteration and lies there.
    fn own_slot(&self, start: u64, len: u64) -> Option<Slot> {
        let layout = self.layout.as_ref()?;
        let start = start.checked_sub(self.base)?;
        let at = layout.own.binary_search_by_key(&start, |&(start, _)| start).ok()?;
        let slot = layout.own[at].1;
        (self.slots[slot as usize].entry.size == len).then_some(slot)
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
        arena.place(size, align, serial, number)
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
            Some(Spot::Beyond) => Err(list),
            Some(Spot::Slot { start, len, .. }) => Ok(self.pages.missing(start, len, list)),
        }
    }

    /// Pages that are backed and that nothing has come to lie in: they are backed no more.
    pub(crate) fn give_up_spare(&mut self, arena: &mut Arena) -> Vec<u64> {
        if self.in_slots() { self.pages.give_up_spare() } else { arena.give_up_spare() }
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, arena: &mut Arena, pages: &[u64]) {
        if self.in_slots() {
            self.pages.back(pages);
        } else {
            arena.back(pages);
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

/// Whether blocks that lie beside the slots of a layout take no more pages than they may.
fn may_stay(
    history: &History,
    layout: &Layout,
    page: u64,
    beside: impl Iterator<Item = Standing>,
) -> bool {
    let has_slot = |block: &Standing| {
        let entry = block.number.of_list(&layout.entries);
        let is_its = entry.is_some_and(|entry| entry.is_alone() && entry.size == block.len);
        is_its && !block.parked && history.is_of_last(block.serial)
    };
    pages_beside(beside, has_slot, page) <= layout.beside
}

/// Where slots of a layout may begin in a range of `len` bytes so that they have no page in common
/// with any block of the arena.
fn free_base(arena: &Arena, layout: &Layout, page: u64, len: u64) -> Option<u64> {
    let first = arena.blocks().next().map_or(len, |block| block.start);
    let end = arena.blocks().last().map_or(0, |block| block.start + block.len);
    let needed = layout.height.checked_next_multiple_of(page)?;
    let base = if first >= needed { 0 } else { end.checked_next_multiple_of(page)? };
    (base.checked_add(needed)? <= len).then_some(base)
}
