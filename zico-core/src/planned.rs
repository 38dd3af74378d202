//! The planned arena: in an iteration that repeats, an allocation has its address by its number.
//!
//! After an iteration has repeated the sizes of its allocations, all its blocks are planned offline
//! ([`plan`](crate::plan)), and the iterations that follow are expected to be like it. Where the n-th
//! allocation has the size that the plan foresaw, it gets the address that the plan has for it: a
//! comparison and an addition (SmartPool, Zhang et al., arXiv 1903.06631). All else goes the usual way
//! through the other arenas, so a plan can be wrong at any point and nothing but its gain is lost.
//!
//! # Why no two blocks overlap
//!
//! The plan keeps blocks apart that are alive together *in the plan*. So before the n-th allocation each
//! block whose time is over by then is looked at, once: one that is still alive is *late*. Nothing is
//! placed where it would overlap a late block. All others that are alive are so in the plan too. The same
//! holds where allocations are left out, since the numbers only rise. When an iteration ends before its
//! plan does, or another plan is followed, all blocks that are alive are late.
//!
//! A block that outlives its iteration takes two slots in turn, unless its predecessor is always gone by
//! the time it is made. Those slots are nobody else's.
//!
//! # When the sequence is another
//!
//! An allocation that the plan has not foreseen may be one too many, one that has another size, or the
//! first after some that were left out. The next ones are looked for a little further on as well: two
//! more for each that was missed. An iteration of which too many are missed is of another kind, and goes
//! the usual way from there on.
//!
//! A job may have several kinds of iteration. The plan to follow is the one for the shape that it tells;
//! else, if there are several, the one that begins with the sizes so far, once it is the only one: what
//! comes before that goes the usual way. That does not depend on the iterations before, so an iteration of
//! one kind holds the same each time.
//!
//! # Pages
//!
//! As in any arena, a page is backed while a block lies in it. It goes back when none does, unless the plan
//! says that one soon will ([`gaps`]).

mod follow;
mod gaps;
mod kept;
mod layout;
mod lesson;
mod pages;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::ops::Range;

use crate::arena::Slot;
use crate::habits::{Habits, NONE};
use crate::signature::Signature;
use crate::sync::Arc;
use layout::Entry;
use lesson::Seen;
use pages::Pages;

pub(crate) use kept::Peak;
pub use kept::Planning;
pub(crate) use layout::Layout;
pub(crate) use lesson::Lesson;

/// What a slot has, or a late block is.
#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    /// Which of the job's blocks it is; 0 if none.
    serial: u64,
    /// Which allocation of its iteration it was.
    number: u32,
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
    tenant: Tenant,
}

impl Place {
    /// What its block occupies, if it has one.
    fn occupied(&self) -> Occupied {
        let Entry { start, size, .. } = self.entry;
        Occupied { start, len: size, tenant: self.tenant }
    }

    /// The same, and it has none any more.
    fn vacate(&mut self) -> Occupied {
        let occupied = self.occupied();
        self.tenant.serial = 0;
        occupied
    }
}

/// Bytes, and the block that has them: of a slot, or of one that is late.
#[derive(Clone, Copy, Debug)]
struct Occupied {
    start: u64,
    len: u64,
    tenant: Tenant,
}

/// Where an allocation that was foreseen goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    slot: Slot,
    start: u64,
    len: u64,
    keeps: bool,
}

/// What became of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It is in this slot, which begins there.
    At(Slot, u64),
    /// Its place has pages that are not backed.
    Bare,
    /// It is not one that the plan has foreseen, or its place is taken.
    Elsewhere,
}

pub(crate) struct Planned {
    /// The length of the address range.
    len: u64,
    /// The oldest first, each with the iteration in which it was followed last.
    layouts: Vec<(Arc<Layout>, u64)>,
    /// Iterations that have begun.
    iterations: u64,
    /// The one whose slots these are.
    layout: Option<Arc<Layout>>,
    slots: Vec<Place>,
    /// An iteration is under way that may be of its kind.
    follows: bool,
    /// One is under way that may be of any of these kinds, a bit for each.
    open: u32,
    /// The last iteration that followed it came to its end.
    complete: bool,
    /// The iteration under way is of its kind, all of it so far was as foreseen, and nothing has been
    /// noted of it.
    exact: bool,
    /// The number of the next allocation in the layout.
    cursor: usize,
    /// How many were missed since the last that was as foreseen.
    slip: usize,
    /// How many in the iteration so far.
    misses: usize,
    /// The one at the cursor is as foreseen, and its place is taken.
    taken: bool,
    /// Blocks where the plan does not expect any.
    late: Vec<Occupied>,
    pages: Pages,
    /// The shape that the job has told of its iteration.
    told: Option<u64>,
    seen: Seen,
    placed: u64,
    missed: u64,
}

impl Planned {
    pub(crate) fn new(page_bytes: u64, len: u64) -> Self {
        Self {
            len,
            layouts: Vec::new(),
            iterations: 0,
            layout: None,
            slots: Vec::new(),
            follows: false,
            open: 0,
            complete: true,
            exact: false,
            cursor: 0,
            slip: 0,
            misses: 0,
            taken: false,
            late: Vec::new(),
            pages: Pages::new(page_bytes),
            told: None,
            seen: Seen::default(),
            placed: 0,
            missed: 0,
        }
    }

    /// Whether a plan may have foreseen the next allocation.
    #[inline]
    pub(crate) const fn follows(&self) -> bool {
        self.follows || self.open != 0
    }

    /// Places the next allocation of the iteration if it is as foreseen.
    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        habits: &mut Habits,
        size: u64,
        align: u64,
        serial: u64,
    ) -> Placed {
        // Mostly all of the iteration has been as foreseen, and this is too.
        if self.exact
            && self.late.is_empty()
            && let Some(Place { entry, tenant }) = self.slots.get(self.cursor)
            && (entry.size == size && entry.align >= align && tenant.serial == 0)
            && self.is_on_time(entry.ends)
        {
            let &Entry { start, keeps, .. } = entry;
            let slot = self.number();
            return self.settle(Spot { slot, start, len: size, keeps }, slot, serial);
        }
        self.place_anyhow(habits, size, align, serial)
    }

    /// The same where not all has been as foreseen.
    #[inline(never)]
    fn place_anyhow(&mut self, habits: &mut Habits, size: u64, align: u64, serial: u64) -> Placed {
        let Some(spot) = self.spot(habits, size, align) else { return Placed::Elsewhere };
        let exact = self.exact;
        let number = if exact { self.number() } else { habits.next() };
        let placed = self.settle(spot, number, serial);
        if !exact && matches!(placed, Placed::At(..)) {
            habits.made(number, size, align);
        }
        placed
    }

    /// Places a block where it goes, if all of that is backed.
    #[inline(always)]
    fn settle(
        &mut self,
        Spot { slot, start, len, keeps }: Spot,
        number: u32,
        serial: u64,
    ) -> Placed {
        if !self.pages.enter(start, len) {
            return Placed::Bare;
        }
        self.slots[slot as usize].tenant = Tenant { serial, number, parked: false, keeps };
        (self.cursor, self.slip) = (self.cursor + 1, 0);
        self.placed += 1;
        Placed::At(slot, start)
    }

    /// Where the next allocation goes, if it is as foreseen and nothing is in the way. To ask twice is
    /// no different from asking once.
    pub(crate) fn spot(&mut self, habits: &mut Habits, size: u64, align: u64) -> Option<Spot> {
        if !self.follows && !self.is_decided_by(habits, size) {
            return None;
        }
        let is_it = |entry: &Entry| entry.size == size && entry.align >= align;
        let foreseen = self.layout.as_ref()?.entries.get(self.cursor).is_some_and(is_it);
        if !foreseen {
            // How long it lives may depend on what is noted.
            self.note(habits);
            if !self.find(size, align) {
                return None;
            }
        }
        self.look_at_ends(self.cursor);
        let (Place { entry, tenant }, slot) = (self.slots[self.cursor], self.number());
        let mut spot = Spot { slot, start: entry.start, len: size, keeps: entry.keeps };
        if tenant.serial != 0 && entry.second != NONE {
            (spot.slot, spot.start) = (entry.second, self.slots[entry.second as usize].entry.start);
        }
        self.taken = self.slots[spot.slot as usize].tenant.serial != 0
            || !self.late.is_empty() && self.late.iter().any(|late| late.is_in(spot));
        if self.taken {
            self.note(habits);
        }
        (!self.taken).then_some(spot)
    }

    /// Pages that a place needs and that are not backed. The list is one to use again.
    pub(crate) fn missing(&self, spot: Spot, list: Vec<u64>) -> Vec<u64> {
        self.pages.missing(spot.start, spot.len, list)
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, pages: &[u64]) {
        self.pages.back(pages);
    }

    /// Where the block with this serial begins that was placed in this slot, and its length, if it is
    /// live.
    pub(crate) fn live(&self, slot: Slot, serial: u64) -> Option<(u64, u64)> {
        let Occupied { start, len, tenant } = match self.slots.get(slot as usize) {
            Some(place) if place.tenant.serial == serial => place.occupied(),
            _ => *self.late(serial)?,
        };
        (!tenant.parked).then_some((start, len))
    }

    /// A live block has been freed, and its place is not free yet.
    pub(crate) fn park(&mut self, slot: Slot, serial: u64) {
        let tenant = self.slots.get_mut(slot as usize).map(|place| &mut place.tenant);
        let tenant = tenant.filter(|tenant| tenant.serial == serial);
        let late = self.late.iter_mut().map(|late| &mut late.tenant);
        let tenant = tenant.or_else(|| late.into_iter().find(|tenant| tenant.serial == serial));
        if let Some(tenant) = tenant {
            tenant.parked = true;
        }
    }

    /// Takes back the live block with this serial, if it begins there. Its length, and the pages that this
    /// left empty, which are backed no more.
    #[inline]
    pub(crate) fn free(
        &mut self,
        habits: &mut Habits,
        slot: Slot,
        serial: u64,
        at: Option<u64>,
    ) -> Option<(u64, Range<u64>)> {
        let block = match self.slots.get_mut(slot as usize) {
            Some(place) if place.tenant.serial == serial => {
                let is_live = !place.tenant.parked && Some(place.entry.start) == at;
                is_live.then(|| place.vacate())?
            }
            _ => self.take_late(serial, |late| !late.tenant.parked && Some(late.start) == at)?,
        };
        Some((block.len, self.leave_pages(habits, block)))
    }

    /// Takes back a block that has been parked. The pages that this left empty.
    pub(crate) fn release(&mut self, habits: &mut Habits, slot: Slot, serial: u64) -> Range<u64> {
        let block = match self.slots.get_mut(slot as usize) {
            Some(place) if place.tenant.serial == serial => Some(place.vacate()),
            _ => self.take_late(serial, |_| true),
        };
        block.map_or(0..0, |block| self.leave_pages(habits, block))
    }

    #[inline]
    fn leave_pages(&mut self, habits: &mut Habits, block: Occupied) -> Range<u64> {
        let Occupied { start, len, tenant: Tenant { serial, number, keeps, .. } } = block;
        if !self.exact {
            habits.freed(number, serial);
        }
        self.pages.leave(start, len, keeps && self.follows)
    }

    /// The live blocks in no order: where each begins, its length and its serial.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let slots = self.slots.iter().map(Place::occupied);
        let all = slots.chain(self.late.iter().copied());
        let live = all.filter(|block| block.tenant.serial != 0 && !block.tenant.parked);
        live.map(|block| (block.start, block.len, block.tenant.serial))
    }

    /// The iteration ends, whose allocations come to this signature; the next block has this serial. What
    /// is to be planned because of it, if anything is.
    pub(crate) fn end(
        &mut self,
        habits: &mut Habits,
        signature: Signature,
        serial: u64,
    ) -> Option<Lesson> {
        let all = self.layout.as_ref().map_or(0, |layout| layout.entries.len());
        self.open = 0;
        let follows = core::mem::take(&mut self.follows);
        if follows {
            self.complete = self.cursor == all;
        }
        if self.exact && self.complete {
            habits.end_as_planned();
            return None;
        }
        self.note(habits);
        let lesson = Lesson::of(habits, &self.layouts, &mut self.seen, signature, self.told);
        habits.end(serial);
        lesson
    }

    /// Pages that are backed and that nothing has come to lie in: they are backed no more.
    pub(crate) fn give_up_spare(&mut self) -> Vec<u64> {
        self.pages.give_up_spare()
    }
}

impl Occupied {
    const fn is_in(&self, spot: Spot) -> bool {
        self.start < spot.start + spot.len && spot.start < self.start + self.len
    }
}
