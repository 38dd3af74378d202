//! Which plan is followed, how far the iteration has come in it, and what is in its way.

use super::layout::{Entry, Layout, Stay};
use super::{Late, Planned, Tenant};
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
        (self.follows, self.open) = (true, 0);
        self.slots.resize(next.slots(), Tenant::default());
        let pages = next.height.div_ceil(1 << self.page_shift);
        let pages = usize::try_from(pages).unwrap_or(usize::MAX).max(self.pages.len());
        self.pages.resize(pages, 0);
        self.layout = Some(next);
    }

    /// All blocks that are alive are late; if the slots stay what they are, but for those in slots of
    /// their own.
    fn leave(&mut self, stays: bool) {
        let Some(layout) = &self.layout else { return };
        for (slot, tenant) in (0..).zip(&mut self.slots).filter(|(_, tenant)| tenant.serial != 0) {
            let own = layout.entries.get(slot as usize).is_none_or(Entry::is_alone);
            if !(stays && own) {
                let (start, len) = layout.place(slot);
                self.late.push(Late { start, len, tenant: core::mem::take(tenant) });
            }
        }
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
    #[inline]
    pub(super) fn look_at_ends(&mut self, number: usize) {
        let Some(layout) = &self.layout else { return };
        for &slot in layout.ends(number) {
            let tenant = &mut self.slots[slot as usize];
            if tenant.serial != 0 {
                let (start, len) = layout.place(slot);
                self.late.push(Late { start, len, tenant: core::mem::take(tenant) });
            }
        }
    }

    /// From here on the iteration is noted, as it was so far.
    pub(super) fn note(&mut self, habits: &mut Habits) {
        let Some(layout) = self.layout.as_ref().filter(|_| core::mem::take(&mut self.exact)) else {
            return;
        };
        let mut alive = alloc::vec![false; self.cursor];
        let late = self.late.iter().map(|late| &late.tenant);
        for tenant in self.slots.iter().chain(late).filter(|tenant| habits.is_of_now(tenant.serial))
        {
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

    #[cold]
    pub(super) fn late(&self, serial: u64) -> Option<&Late> {
        self.late.iter().find(|late| late.tenant.serial == serial)
    }
}
