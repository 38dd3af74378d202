//! How far an iteration has come in its plan.

use super::layout::{Entry, Layout, LiveRange};
use super::{Occupant, Place, Placed, Plan, Planned};
use crate::heap::arena::{Arena, GRANULE, Slot};
use crate::heap::compact::OptionalU32;
use crate::heap::history::{History, Past};
use crate::types::sync::Arc;
use crate::types::tuning::DOUBTS;

/// Where an allocation that was foreseen goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// To a slot.
    Slot { slot: Slot, start: u64, len: u64, keeps: bool },
    /// To what persists.
    Beyond,
}

impl Planned {
    /// An iteration begins, of a shape that the job may tell. Its first allocation will show which
    /// plan it follows.
    pub(crate) fn begin(&mut self, told: Option<u64>) {
        (self.cursor, self.told) = (0, told);
        (self.is_of_kind, self.exact) = (false, false);
        self.open = self.plans.iter().any(|plan| plan.layout.kind.may_follow(told));
    }

    /// The first allocation of an iteration has this size: follows the plan that begins with it, of
    /// several that of the kind which came last time after the kind before, else the one that was
    /// followed last.
    #[cold]
    fn choose(&mut self, history: &History, arena: &mut Arena, size: u64) {
        let (told, last) = (self.told, self.last);
        let before = self.plans.iter().find(|plan| plan.layout.kind.covers(&last));
        let next = before.and_then(|plan| plan.next);
        let fits = |layout: &Layout| {
            let first = layout.entries.first();
            layout.kind.may_follow(told) && first.is_some_and(|entry| entry.size == size)
        };
        let is_next = |plan: &Plan| next.is_some_and(|next| plan.layout.kind.covers(&next));
        let expected = self.plans.position(|plan| is_next(plan) && fits(&plan.layout));
        let chosen = expected.or_else(|| self.plans.position(|plan| fits(&plan.layout)));
        let Some(plan) = chosen.and_then(|at| self.plans.make_latest(at)) else { return };
        // This iteration is noted instead.
        if plan.doubts >= DOUBTS {
            plan.doubts = 0;
            return;
        }
        let (next, base) = (plan.layout.clone(), plan.base);
        if !self.layout.as_ref().is_some_and(|layout| Arc::ptr_eq(layout, &next)) {
            self.leave_slots(arena);
            self.layout = Some(next);
            self.lay_out(base);
        }
        self.is_of_kind = true;
        self.enter_slots_or_move(history, arena);
        self.exact = self.in_slots();
    }

    /// The slots begin there. Nothing lies in them.
    pub(super) fn lay_out(&mut self, base: u64) {
        let Some(layout) = &self.layout else { return };
        let slot = |&entry: &Entry| {
            let entry = Entry { start: entry.start + base, ..entry };
            Place { entry, occupant: Occupant::NONE }
        };
        self.base = base;
        self.slots.clear();
        self.slots.extend(layout.slots().map(slot));
        self.pages.reach(base + layout.height);
    }

    /// Where the next allocation goes, if it is as foreseen and nothing is in the way. To ask twice
    /// is no different from asking once.
    pub(super) fn spot(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        size: u64,
        align: u64,
    ) -> Option<Spot> {
        if core::mem::take(&mut self.open) && history.so_far().is_empty() {
            self.choose(history, arena, size);
        }
        if !self.exact {
            return None;
        }
        let spot = self.free_slot(size, align);
        if spot.is_none() {
            self.depart(history, arena);
            self.departed += 1;
        }
        spot
    }

    /// The slot of the next allocation, if it is as foreseen, the slot is free, and all whose time
    /// is over are gone.
    fn free_slot(&self, size: u64, align: u64) -> Option<Spot> {
        let Place { entry, occupant } = self.slots.get(self.cursor)?;
        if entry.size != size || !self.is_on_time(entry.ends) {
            return None;
        }
        if entry.life == LiveRange::Beyond {
            return Some(Spot::Beyond);
        }
        if entry.align < align {
            return None;
        }
        let slot = if occupant.serial == 0 { self.number() } else { entry.second.get()? };
        let place = self.slots.get(slot as usize).filter(|place| place.occupant.serial == 0)?;
        let start = place.entry.start;
        Some(Spot::Slot { slot, start, len: size, keeps: entry.keeps })
    }

    /// Whether none of the blocks is alive whose time is over, from the slot of one on.
    #[inline]
    pub(super) fn is_on_time(&self, first: OptionalU32) -> bool {
        let mut next = first;
        while let Some(place) = next.of_list(&self.slots) {
            if place.occupant.serial != 0 {
                return false;
            }
            next = place.entry.next_end;
        }
        true
    }

    /// Places the next allocation where not all has been as foreseen.
    #[inline(never)]
    pub(super) fn place_anyhow(
        &mut self,
        (history, arena): (&mut History, &mut Arena),
        size: u64,
        align: u64,
        serial: u64,
    ) -> Placed {
        match self.spot((history, arena), size, align) {
            None => Placed::Elsewhere,
            Some(Spot::Beyond) => Placed::Beyond,
            Some(Spot::Slot { slot, start, len, keeps }) => {
                self.settle((slot, start, len), keeps, self.number(), serial)
            }
        }
    }

    /// Whether the next allocation is foreseen, if it is of this size, and goes to what persists.
    pub(crate) fn is_beyond(&self, size: u64) -> bool {
        let entry = self.slots.get(self.cursor).map(|place| place.entry);
        let is_next = |entry: Entry| entry.life == LiveRange::Beyond && entry.size == size;
        self.exact && entry.is_some_and(|entry| is_next(entry) && self.is_on_time(entry.ends))
    }

    /// Whether the next allocation, which is not placed as planned, has slots of its own in the
    /// plan with which the iteration began, if it is of this size.
    #[inline]
    pub(crate) fn is_out_of_place(&self, history: &History, size: u64) -> bool {
        let layout = self.layout.as_ref().filter(|_| self.is_of_kind);
        let entry = layout.and_then(|layout| layout.entries.get(history.so_far().len()));
        entry.is_some_and(|entry| entry.size == size && entry.is_alone())
    }

    /// Which allocation of the iteration that is.
    pub(crate) const fn next_number(&self) -> OptionalU32 {
        OptionalU32::some(self.number())
    }

    /// It lies there now.
    pub(crate) const fn placed_beyond(&mut self) {
        self.cursor += 1;
        self.placed += 1;
    }

    /// An allocation goes without the plan, whatever that has foreseen.
    pub(crate) fn interrupt(&mut self, history: &mut History, arena: &mut Arena) {
        self.open = false;
        if self.exact {
            self.depart(history, arena);
        }
    }

    /// From here on the iteration is noted, as it was so far.
    pub(crate) fn note(&mut self, history: &mut History) {
        let Some(layout) = self.layout.as_ref().filter(|_| core::mem::take(&mut self.exact)) else {
            return;
        };
        let mut alive = alloc::vec![false; self.cursor];
        let occupants = self.slots.iter().map(|place| &place.occupant);
        for occupant in occupants.filter(|occupant| history.is_of_now(occupant.serial)) {
            if let Some(alive) = occupant.number.of_list_mut(&mut alive) {
                *alive = true;
            }
        }
        let now = self.number();
        history.catch_up(layout.entries.iter().zip(alive).map(|(entry, alive)| Past {
            size: entry.size,
            align: entry.align.max(GRANULE),
            until: match entry.life {
                _ if alive => OptionalU32::NONE,
                LiveRange::Until(until) => OptionalU32::some(until.min(now)),
                LiveRange::Always | LiveRange::Alternating => OptionalU32::some(now),
                LiveRange::Beyond => OptionalU32::NONE,
            },
            next_until: OptionalU32::NONE,
        }));
    }

    /// The cursor.
    #[expect(clippy::cast_possible_truncation, reason = "a layout's entries have numbers")]
    #[inline]
    pub(super) const fn number(&self) -> u32 {
        self.cursor as u32
    }
}
