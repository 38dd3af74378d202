//! How far an iteration has come in its plan.

use super::layout::{Entry, Layout, LiveRange};
use super::{Occupant, Place, Placed, Plan, Planned, Spot};
use crate::heap::arena::Arena;
use crate::heap::compact::OptionalU32;
use crate::heap::history::{History, Past};
use crate::types::sync::Arc;

impl Planned {
    /// An iteration begins, of a shape that the job may tell. Its first allocation will show which
    /// plan it follows.
    pub(crate) fn begin(&mut self, told: Option<u64>) {
        (self.cursor, self.told) = (0, told);
        (self.follows, self.exact) = (false, false);
        self.forget_addresses();
        self.open = self.plans.iter().any(|plan| plan.layout.kind.may_follow(told));
    }

    /// The first allocation of an iteration has this size: follows the plan that begins with it, of
    /// several that of the kind which came last time after the kind before, else the one that was
    /// followed last.
    #[cold]
    fn choose(&mut self, arena: &mut Arena, size: u64) {
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
        let next = plan.layout.clone();
        if !self.layout.as_ref().is_some_and(|layout| Arc::ptr_eq(layout, &next)) {
            self.leave_slots(arena);
            let slot = |&entry: &Entry| Place { entry, occupant: Occupant::NONE };
            self.slots.clear();
            self.slots.extend(next.slots().map(slot));
        }
        self.pages.reach(next.height);
        self.layout = Some(next);
        self.follows = true;
        self.enter_slots(arena);
        self.exact = self.in_slots();
        if !self.exact {
            self.look_over(arena);
        }
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
            self.choose(arena, size);
        }
        if !self.follows {
            return None;
        }
        if !self.in_slots() {
            return self.own_place(history, arena, size, align);
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
        if entry.size != size || entry.align < align || !self.is_on_time(entry.ends) {
            return None;
        }
        let slot = if occupant.serial == 0 { self.number() } else { entry.second.get()? };
        let place = self.slots.get(slot as usize).filter(|place| place.occupant.serial == 0)?;
        let start = place.entry.start;
        Some(Spot::Slot { slot, start, len: size, keeps: entry.keeps })
    }

    /// The place in the arena that is for a block which outlives its iteration, if it is free: so
    /// that the next iteration begins as planned.
    fn own_place(&self, history: &History, arena: &Arena, size: u64, align: u64) -> Option<Spot> {
        let entry = self.slots.get(history.so_far().len()).map(|place| place.entry)?;
        if entry.size != size || entry.align < align || !entry.is_alone() {
            return None;
        }
        let second = entry.second.of_list(&self.slots).map(|place| place.entry.start);
        [Some(entry.start), second].into_iter().flatten().find_map(|start| {
            let before = self.is_free(arena, start, size)?;
            Some(Spot::Arena { before, start, len: size })
        })
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
            Some(Spot::Slot { slot, start, len, keeps }) => {
                self.settle((slot, start, len), keeps, self.number(), serial)
            }
            Some(Spot::Arena { before, start, len }) => {
                if arena.missing_at(before, start, len) > 0 {
                    return Placed::Bare;
                }
                let number = history.next();
                let Some(slot) = arena.place_at(before, start, len, (serial, number)) else {
                    return Placed::Elsewhere;
                };
                self.find_later((slot, start));
                history.made(number, size, align);
                self.placed += 1;
                Placed::At(slot, start)
            }
        }
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
            align: entry.align,
            until: match entry.life {
                _ if alive => OptionalU32::NONE,
                LiveRange::Until(until) => OptionalU32::some(until.min(now)),
                LiveRange::Always | LiveRange::Alternating => OptionalU32::some(now),
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
