//! Plans: in an iteration that repeats, an allocation has its address by its number.
//!
//! After an iteration has repeated the sizes of its allocations, all its blocks are planned offline
//! ([`zico_plan`]), and the iterations that follow are expected to be like it. Where the n-th
//! allocation has the size that the plan foresaw, it gets the address that the plan has for it: a
//! comparison and an addition (SmartPool, Zhang et al., arXiv 1903.06631).
//!
//! # One arena
//!
//! A plan lays blocks out in the range of the iteration's arena, not in one of its own. As long as
//! an iteration is exactly as planned, its blocks lie in the plan's *slots* and the arena has none.
//! At the first allocation that is not foreseen, or whose place is taken, the arena takes all
//! blocks over where they lie ([`depart`](Planned::depart)), and places what follows as it would
//! without a plan: in what the plan has left free as well.
//!
//! So a plan never makes a job hold more than its iterations do without. What one holds that is as
//! planned is known before it is followed, and a plan of a higher peak than the iteration had that
//! taught it is refused. A plan is for what has come twice: a block that lived longer once is no
//! reason to hold more from then on. In an iteration that is not as planned each allocation is
//! backed by as few pages as there can be.
//!
//! # Why no two blocks overlap
//!
//! The plan keeps blocks apart that are alive together *in the plan*. So before the n-th allocation
//! each block whose time is over by then is looked at, once: if one is still alive, the iteration
//! is not as planned. In the arena all blocks are known.
//!
//! A block that outlives its iteration takes two slots in turn, unless its predecessor is always
//! gone by the time it is made. Those slots are nobody else's, so an iteration that begins with
//! nothing but such blocks in the arena, each in a slot of its own, may be as planned. In an
//! iteration that is not as planned such a block goes where blocks go that persist, whatever the
//! job says of it, and is in no plan's way. So does one that outlives the next iteration as well:
//! it has no slot.
//!
//! Other blocks that earlier iterations have left stay in the arena, where they lie beside the
//! slots, and not in any page of theirs. Where some are in the way, the slots move to addresses at
//! which there is nothing. How many pages such blocks may take is a part of what iterations that
//! are as planned come to hold.
//!
//! A job may have several kinds of iteration. The plan to follow begins with the size of the first
//! allocation, and is for the shape that the job tells, if it tells one: of several the plan of the
//! kind that came after the last kind before, else the one followed last.
//!
//! # Pages
//!
//! As in any arena, a page is backed while a block lies in it. It goes back when none does, unless
//! the plan says that one soon will ([`gaps`]).

mod follow;
mod gaps;
mod kept;
mod layout;
mod pages;
mod planning;
mod task;
mod transfer;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::ops::Range;

use crate::heap::arena::{Arena, Slot};
use crate::heap::compact::OptionalU32;
use crate::heap::history::History;
use crate::learn::kinds::{Kind, RecentlyUsed};
use crate::learn::signature::Signature;
use crate::types::sync::Arc;
use crate::types::tuning::KINDS;
use kept::Plan;
use layout::Entry;
use pages::Pages;
use task::Seen;

pub(crate) use layout::Layout;
pub(crate) use task::PlanTask;

/// What a slot has.
#[derive(Clone, Copy, Debug)]
struct Occupant {
    /// Which of the job's blocks it is; 0 if none.
    serial: u64,
    /// Which allocation of its iteration it was.
    number: OptionalU32,
    /// It has been freed, and other streams may still use it.
    parked: bool,
    /// The pages that it leaves empty stay backed.
    keeps: bool,
}

/// A slot of the plan that is followed: what it is for, and what it has. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Place {
    entry: Entry,
    occupant: Occupant,
}

/// What became of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It is in this slot, of the plan or of the arena, and begins there.
    At(Slot, u64),
    /// Its place has pages that are not backed.
    Bare,
    /// It is foreseen, and goes to what persists.
    Beyond,
    /// It is not one that the plan has foreseen, or its place is taken.
    Elsewhere,
}

pub(super) struct Planned {
    /// The length of the address range.
    len: u64,
    plans: RecentlyUsed<Plan, KINDS>,
    /// The kind of the last iteration that has ended.
    last: Kind,
    /// The one whose slots these are, and where they begin.
    layout: Option<Arc<Layout>>,
    base: u64,
    slots: Vec<Place>,
    /// The slots have the blocks of the iteration's zone, and the arena what lies beside them, if
    /// anything. Else the arena has all.
    in_slots: bool,
    /// The iteration under way has begun as one of its kind.
    is_of_kind: bool,
    /// An iteration is under way in which nothing has been allocated yet that a plan may know of.
    open: bool,
    /// The iteration under way is of its kind, all of it so far was as foreseen, and nothing has
    /// been noted of it. Then its blocks lie in the slots, or have none and persist.
    exact: bool,
    /// The number of the next allocation in the layout, as long as all is as foreseen.
    cursor: usize,
    /// Of the slots.
    pages: Pages,
    /// Blocks that lie in another slot than their handles say, by serial: of the plan or, where
    /// they lie beside it, of the arena.
    moved: Vec<(u64, Slot)>,
    /// The shape that the job has told of its iteration.
    told: Option<u64>,
    seen: Seen,
    placed: u64,
    departed: u64,
}

impl Planned {
    pub(crate) fn new(page_bytes: u64, len: u64) -> Self {
        Self {
            len,
            plans: RecentlyUsed::default(),
            last: Kind::default(),
            layout: None,
            base: 0,
            slots: Vec::new(),
            in_slots: false,
            is_of_kind: false,
            open: false,
            exact: false,
            cursor: 0,
            pages: Pages::new(page_bytes),
            moved: Vec::new(),
            told: None,
            seen: Seen::default(),
            placed: 0,
            departed: 0,
        }
    }

    /// Whether a plan may have foreseen the next allocation.
    #[inline]
    pub(crate) const fn follows(&self) -> bool {
        self.exact || self.open
    }

    /// Places the next allocation of the iteration if it is as foreseen.
    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        size: u64,
        align: u64,
        serial: u64,
    ) -> Placed {
        // Mostly all of the iteration has been as foreseen, and this is too.
        if self.exact
            && let Some(Place { entry, occupant }) = self.slots.get(self.cursor)
            && (entry.size == size && entry.align >= align && occupant.serial == 0)
            && self.is_on_time(entry.ends)
        {
            let &Entry { start, keeps, .. } = entry;
            let slot = self.number();
            return self.settle((slot, start, size), keeps, slot, serial);
        }
        self.place_anyhow((history, arena), size, align, serial)
    }

    /// Puts a block into a slot, if all of that is backed.
    #[inline(always)]
    fn settle(
        &mut self,
        (slot, start, len): (Slot, u64, u64),
        keeps: bool,
        number: u32,
        serial: u64,
    ) -> Placed {
        if !self.pages.enter(start, len) {
            return Placed::Bare;
        }
        let number = OptionalU32::some(number);
        self.slots[slot as usize].occupant = Occupant { serial, number, parked: false, keeps };
        self.cursor += 1;
        self.placed += 1;
        Placed::At(slot, start)
    }

    /// Where a block with this serial and slot lies and its length, if it is live.
    pub(crate) fn live(&self, arena: &Arena, slot: Slot, serial: u64) -> Option<(u64, u64)> {
        if self.in_slots()
            && let Some(Place { entry, occupant }) = self.occupant(slot, serial)
        {
            return (!occupant.parked).then_some((entry.start, entry.size));
        }
        let live = arena.live_at(self.slot_of(arena, slot, serial), serial)?;
        Some((live.start, live.len))
    }

    /// A live block has been freed, and its place is not free yet.
    pub(crate) fn park(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        slot: Slot,
        serial: u64,
    ) {
        if self.in_slots()
            && let Some(place) = self.occupant_mut(slot, serial)
        {
            place.occupant.parked = true;
            return;
        }
        let slot = self.slot_of(arena, slot, serial);
        // It has been freed, though its place is not free before it is released.
        history.freed(arena.noted(slot), serial, self.unnoted());
        arena.park(slot);
    }

    /// How many allocations of the iteration under way have been made as foreseen and not noted.
    #[inline]
    pub(crate) const fn unnoted(&self) -> usize {
        if self.exact { self.cursor } else { 0 }
    }

    /// Whether the slots have the blocks. If not all is the arena's, though a block that has been
    /// moved there is not in the slot that its handle says.
    #[inline]
    pub(super) const fn in_slots(&self) -> bool {
        self.in_slots
    }

    /// Takes back the live block with this serial, if it begins there. Its length, and the pages
    /// that this left empty, which are backed no more.
    #[inline(always)]
    pub(crate) fn free(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        slot: Slot,
        serial: u64,
        at: Option<u64>,
    ) -> Option<(u64, Range<u64>)> {
        if self.in_slots()
            && let Some(place) = self.occupant_mut(slot, serial)
        {
            let is_live = !place.occupant.parked && Some(place.entry.start) == at;
            return is_live.then(|| place.vacate()).map(|gone| self.leave_pages(history, gone));
        }
        self.free_known((history, arena), slot, serial, at)
    }

    /// The same of a block in the arena that may have been moved there.
    #[cold]
    pub(super) fn free_known(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        slot: Slot,
        serial: u64,
        at: Option<u64>,
    ) -> Option<(u64, Range<u64>)> {
        let slot = self.slot_of(arena, slot, serial);
        let live = arena.live_at(slot, serial).filter(|live| Some(live.start) == at)?;
        history.freed(live.number, serial, self.unnoted());
        Some((live.len, arena.free(slot)))
    }

    /// Takes back a block that has been parked. The pages that this left empty.
    pub(crate) fn release(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        slot: Slot,
        serial: u64,
    ) -> Range<u64> {
        if self.in_slots()
            && let Some(gone) = self.occupant_mut(slot, serial).map(Place::vacate)
        {
            return self.leave_pages(history, gone).1;
        }
        let slot = self.moved_to(serial).unwrap_or(slot);
        history.freed(arena.noted(slot), serial, self.unnoted());
        arena.free(slot)
    }

    /// The length of a block that is gone, and the pages that it leaves empty.
    #[inline]
    fn leave_pages(&mut self, history: &mut History, gone: Place) -> (u64, Range<u64>) {
        let Place { entry: Entry { start, size, .. }, occupant } = gone;
        if !self.exact {
            history.freed(occupant.number, occupant.serial, 0);
        }
        (size, self.pages.leave(start, size, occupant.keeps && self.exact))
    }

    /// The iteration ends, whose allocations come to this signature; the next block has this
    /// serial. What is to be planned because of it, if anything is.
    pub(crate) fn end(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        signature: Signature,
        serial: u64,
    ) -> Option<PlanTask> {
        let all = self.layout.as_ref().map_or(0, |layout| layout.entries.len());
        self.open = false;
        let kind = Kind { told: self.told, signature };
        let before = core::mem::replace(&mut self.last, kind);
        if let Some(plan) = self.plans.iter_mut().find(|plan| plan.layout.kind.covers(&before)) {
            plan.next = Some(kind);
        }
        if self.exact && self.cursor == all {
            (self.exact, self.is_of_kind) = (false, false);
            let as_planned = history.end_as_planned();
            if let Some(plan) = self.plans.iter_mut().next() {
                plan.doubts = if as_planned { 0 } else { plan.doubts + 1 };
            }
            return None;
        }
        self.interrupt(history, arena);
        self.is_of_kind = false;
        let mut task = PlanTask::of(history, &self.plans, &mut self.seen, kind);
        if let Some(task) = &mut task {
            task.note_beside(history, arena, self.pages.bytes());
        }
        history.end(serial);
        task
    }
}

impl Occupant {
    const NONE: Self = Self { serial: 0, number: OptionalU32::NONE, parked: false, keeps: false };
}

impl Place {
    /// What its block was and where; it has none any more.
    fn vacate(&mut self) -> Self {
        let gone = *self;
        self.occupant.serial = 0;
        gone
    }
}
