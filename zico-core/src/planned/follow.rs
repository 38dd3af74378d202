//! Which plan is followed, how far the iteration has come in it, and what is in its way.

use super::layout::{Entry, Layout, Stay};
use super::{Occupied, Place, Planned, Tenant};
use crate::arena::Slot;
use crate::habits::{Habit, Habits, NONE};
use crate::sync::Arc;

/// One of so many may be missed in an iteration that follows a plan.
const MISSES_PART: usize = 16;

impl Planned {
    /// An iteration begins, of a shape that the job may tell.
    pub(crate) fn begin(&mut self, told: Option<u64>) {
        self.iterations += 1;
        (self.cursor, self.slip, self.misses) = (0, 0, 0);
        (self.taken, self.told) = (false, told);
        self.open = (0..).zip(&self.layouts).fold(0, |open, (which, (layout, _))| {
            open | u32::from(told.is_none() || layout.told == told) << which
        });
        (self.follows, self.exact) = (false, false);
        self.exact = self.decide();
    }

    /// Follows the only plan that is left, if there is only one.
    fn decide(&mut self) -> bool {
        let is_one = self.open.is_power_of_two();
        if is_one {
            self.follow(self.open.trailing_zeros() as usize);
        }
        is_one
    }

    /// The next allocation has gone elsewhere.
    #[cold]
    pub(crate) fn missed(&mut self) {
        if !self.follows {
            return;
        }
        self.missed += 1;
        self.misses += 1;
        if core::mem::take(&mut self.taken) {
            self.cursor += 1;
        } else {
            self.slip += 1;
        }
        if self.misses > self.cursor / MISSES_PART {
            (self.follows, self.complete) = (false, false);
        }
    }

    /// The slots are those of this plan from now on.
    pub(super) fn follow(&mut self, which: usize) {
        let (next, used) = &mut self.layouts[which];
        *used = self.iterations;
        let next = next.clone();
        let same = self.layout.as_ref().is_some_and(|layout| Arc::ptr_eq(layout, &next));
        if !same || !self.complete {
            self.leave(same);
        }
        if !same {
            let slot = |&entry: &Entry| Place { entry, tenant: Tenant::default() };
            self.slots.clear();
            self.slots.extend(next.slots().map(slot));
        }
        (self.follows, self.open) = (true, 0);
        self.pages.reach(next.height);
        self.layout = Some(next);
    }

    /// All blocks that are alive are late; if the slots stay what they are, but for those in slots of
    /// their own.
    fn leave(&mut self, stays: bool) {
        let taken = self.slots.iter_mut().filter(|place| place.tenant.serial != 0);
        let lost = taken.filter(|place| !(stays && place.entry.is_alone()));
        self.late.extend(lost.map(Place::vacate));
    }

    /// Whether a plan is followed from an allocation of this size on, because it is the only one left.
    #[cold]
    pub(super) fn is_decided_by(&mut self, habits: &Habits, size: u64) -> bool {
        let number = habits.so_far().len();
        let is_it = |&(_, (layout, _)): &(u32, &(Arc<Layout>, u64))| {
            layout.entries.get(number).is_some_and(|entry| entry.size == size)
        };
        let fits =
            (0..).zip(&self.layouts).filter(is_it).fold(0, |fits, (which, _)| fits | 1 << which);
        self.open &= fits;
        if !self.decide() {
            return false;
        }
        (0..number).for_each(|number| self.look_at_ends(number));
        self.cursor = number;
        true
    }

    /// Moves the cursor to the allocation that this one may be. Whether there is one.
    #[cold]
    pub(super) fn find(&mut self, size: u64, align: u64) -> bool {
        let Some(layout) = &self.layout else { return false };
        let is_it = |entry: &Entry| entry.size == size && entry.align >= align;
        let further = self.cursor.saturating_add(self.slip.saturating_mul(2));
        let window = layout.entries.iter().enumerate().take(further.saturating_add(1));
        let next = window.skip(self.cursor).find(|(_, entry)| is_it(entry)).map(|(at, _)| at);
        let Some(next) = next else { return false };
        (self.cursor..next).for_each(|number| self.look_at_ends(number));
        self.cursor = next;
        true
    }

    /// Of the blocks whose time is over before an allocation, those that are alive are late.
    pub(super) fn look_at_ends(&mut self, number: usize) {
        let mut next = self.slots[number].entry.ends;
        // There is no slot that has the number for none.
        while let Some(place) = self.slots.get_mut(next as usize) {
            next = place.entry.next_end;
            if place.tenant.serial != 0 {
                self.late.push(place.vacate());
            }
        }
    }

    /// Whether none of them is alive.
    #[inline]
    pub(super) fn is_on_time(&self, first: Slot) -> bool {
        let mut next = first;
        while let Some(place) = self.slots.get(next as usize) {
            if place.tenant.serial != 0 {
                return false;
            }
            next = place.entry.next_end;
        }
        true
    }

    /// From here on the iteration is noted, as it was so far.
    pub(crate) fn note(&mut self, habits: &mut Habits) {
        let Some(layout) = self.layout.as_ref().filter(|_| core::mem::take(&mut self.exact)) else {
            return;
        };
        let mut alive = alloc::vec![false; self.cursor];
        let late = self.late.iter().map(|late| &late.tenant);
        let tenants = self.slots.iter().map(|place| &place.tenant).chain(late);
        for tenant in tenants.filter(|tenant| habits.is_of_now(tenant.serial)) {
            if let Some(alive) = alive.get_mut(tenant.number as usize) {
                *alive = true;
            }
        }
        let now = self.number();
        habits.catch_up(layout.entries.iter().zip(alive).map(|(entry, alive)| Habit {
            size: entry.size,
            align: entry.align,
            until: match entry.stay {
                _ if alive => NONE,
                Stay::Until(until) => until.min(now),
                Stay::Always | Stay::InTurn => now,
            },
            next_until: NONE,
        }));
    }

    /// The cursor.
    #[expect(clippy::cast_possible_truncation, reason = "a layout's entries have numbers")]
    #[inline]
    pub(super) const fn number(&self) -> u32 {
        self.cursor as u32
    }

    /// Takes a late block with this serial off the list. It keeps no pages.
    #[cold]
    pub(super) fn take_late(
        &mut self,
        serial: u64,
        is_it: impl Fn(&Occupied) -> bool,
    ) -> Option<Occupied> {
        let is_it = |late: &Occupied| late.tenant.serial == serial && is_it(late);
        let mut late = self.late.iter().position(is_it).map(|at| self.late.swap_remove(at))?;
        late.tenant.keeps = false;
        Some(late)
    }

    #[cold]
    pub(super) fn late(&self, serial: u64) -> Option<&Occupied> {
        self.late.iter().find(|late| late.tenant.serial == serial)
    }
}
