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

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use crate::arena::Slot;
use crate::habits::{Habits, NONE};
use crate::signature::Signature;
use crate::sync::Arc;
use layout::Entry;
use lesson::Seen;

pub(crate) use kept::Peak;
pub use kept::Planning;
pub(crate) use layout::Layout;
pub(crate) use lesson::Lesson;

/// A page has a region. The other bits count the blocks in it.
const BACKED: u32 = 1 << 31;

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

/// A block where the plan does not expect one.
#[derive(Clone, Copy, Debug)]
struct Late {
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
    page_shift: u32,
    /// The length of the address range.
    len: u64,
    /// The oldest first, each with the iteration in which it was followed last.
    layouts: Vec<(Arc<Layout>, u64)>,
    /// Iterations that have begun.
    iterations: u64,
    /// The one whose slots these are.
    layout: Option<Arc<Layout>>,
    slots: Vec<Tenant>,
    /// An iteration is under way that may be of its kind.
    follows: bool,
    /// One is under way that may be of any of these kinds, a bit for each.
    open: u32,
    /// The last iteration that followed it came to its end.
    complete: bool,
    /// All of it so far was as foreseen, and nothing has been noted of it.
    exact: bool,
    /// The number of the next allocation in the layout.
    cursor: usize,
    /// How many were missed since the last that was as foreseen.
    slip: usize,
    /// How many in the iteration so far.
    misses: usize,
    /// The one at the cursor is as foreseen, and its place is taken.
    taken: bool,
    late: Vec<Late>,
    pages: Vec<u32>,
    /// Pages that are backed and have no blocks.
    spare: u32,
    /// The shape that the job has told of its iteration.
    told: Option<u64>,
    seen: Seen,
    placed: u64,
    missed: u64,
}

impl Planned {
    pub(crate) fn new(page_bytes: u64, len: u64) -> Self {
        Self {
            page_shift: page_bytes.trailing_zeros(),
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
            pages: Vec::new(),
            spare: 0,
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
    #[inline]
    pub(crate) fn place(
        &mut self,
        habits: &mut Habits,
        size: u64,
        align: u64,
        serial: u64,
    ) -> Placed {
        let Some(Spot { slot, start, len, keeps }) = self.spot(habits, size, align) else {
            return Placed::Elsewhere;
        };
        let Some(pages) = self.pages.get_mut(pages(self.page_shift, start, len)) else {
            return Placed::Elsewhere;
        };
        if pages.iter().any(|page| page & BACKED == 0) {
            return Placed::Bare;
        }
        for page in pages {
            self.spare -= u32::from(*page == BACKED);
            *page += 1;
        }
        let number = if self.exact { self.number() } else { habits.next() };
        if !self.exact {
            habits.made(number, size, align);
        }
        self.slots[slot as usize] = Tenant { serial, number, parked: false, keeps };
        (self.cursor, self.slip) = (self.cursor + 1, 0);
        self.placed += 1;
        Placed::At(slot, start)
    }

    /// Where the next allocation goes, if it is as foreseen and nothing is in the way. To ask twice is
    /// no different from asking once.
    #[inline]
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
        let layout = self.layout.as_deref()?;
        let (entry, slot) = (&layout.entries[self.cursor], self.number());
        let mut spot = Spot { slot, start: entry.start, len: size, keeps: entry.keeps };
        if self.slots[slot as usize].serial != 0 && entry.second != NONE {
            (spot.slot, spot.start) = (entry.second, layout.place(entry.second).0);
        }
        self.taken = self.slots[spot.slot as usize].serial != 0
            || !self.late.is_empty() && self.late.iter().any(|late| late.is_in(spot));
        if self.taken {
            self.note(habits);
        }
        (!self.taken).then_some(spot)
    }

    /// Pages that a place needs and that are not backed. The list is one to use again.
    pub(crate) fn missing(&self, spot: Spot, mut list: Vec<u64>) -> Vec<u64> {
        let all = pages(self.page_shift, spot.start, spot.len);
        let bare = all.filter(|&page| self.pages.get(page).is_none_or(|page| page & BACKED == 0));
        list.clear();
        list.extend(bare.map(|page| page as u64));
        list
    }

    /// Takes over pages that have been backed.
    pub(crate) fn back(&mut self, pages: &[u64]) {
        for page in pages.iter().filter_map(|&page| usize::try_from(page).ok()) {
            if let Some(page) = self.pages.get_mut(page).filter(|page| **page & BACKED == 0) {
                *page |= BACKED;
                self.spare += 1;
            }
        }
    }

    /// Where the block with this serial begins that was placed in this slot, and its length, if it is
    /// live.
    #[inline]
    pub(crate) fn live(&self, slot: Slot, serial: u64) -> Option<(u64, u64)> {
        match (self.slots.get(slot as usize), &self.layout) {
            (Some(tenant), Some(layout)) if tenant.serial == serial => {
                (!tenant.parked).then(|| layout.place(slot))
            }
            _ => self
                .late(serial)
                .filter(|late| !late.tenant.parked)
                .map(|late| (late.start, late.len)),
        }
    }

    /// A live block has been freed, and its place is not free yet.
    pub(crate) fn park(&mut self, slot: Slot, serial: u64) {
        let tenant = self.slots.get_mut(slot as usize).filter(|tenant| tenant.serial == serial);
        let late = self.late.iter_mut().map(|late| &mut late.tenant);
        let tenant = tenant.or_else(|| late.into_iter().find(|tenant| tenant.serial == serial));
        if let Some(tenant) = tenant {
            tenant.parked = true;
        }
    }

    /// Takes back a block, parked or not. Returns the pages that this left empty, which are backed no
    /// more.
    #[inline]
    pub(crate) fn free(&mut self, habits: &mut Habits, slot: Slot, serial: u64) -> Range<u64> {
        let Some((start, len, tenant)) = self.take(slot, serial) else { return 0..0 };
        if !self.exact {
            habits.freed(tenant.number, serial);
        }
        let keeps = self.follows && tenant.keeps;
        let all = pages(self.page_shift, start, len);
        let (mut first, mut end) = (*all.start(), *all.end() + 1);
        for page in &mut self.pages[all] {
            *page -= 1;
            if *page == BACKED {
                self.spare += u32::from(keeps);
                *page = if keeps { BACKED } else { 0 };
            }
        }
        // Only those at its ends may have other blocks.
        first += usize::from(self.pages[first] != 0);
        end -= usize::from(end > first && self.pages[end - 1] != 0);
        if keeps { 0..0 } else { first as u64..end.max(first) as u64 }
    }

    fn take(&mut self, slot: Slot, serial: u64) -> Option<(u64, u64, Tenant)> {
        if let (Some(tenant), Some(layout)) = (self.slots.get_mut(slot as usize), &self.layout)
            && tenant.serial == serial
        {
            let (start, len) = layout.place(slot);
            return Some((start, len, core::mem::take(tenant)));
        }
        let late = self.late.iter().position(|late| late.tenant.serial == serial)?;
        let Late { start, len, tenant } = self.late.swap_remove(late);
        Some((start, len, Tenant { keeps: false, ..tenant }))
    }

    /// The live blocks in no order: where each begins, its length and its serial.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let slots = self.layout.iter().flat_map(|layout| {
            (0..).zip(&self.slots).map(|(slot, &tenant)| {
                let (start, len) = layout.place(slot);
                Late { start, len, tenant }
            })
        });
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
        if core::mem::take(&mut self.spare) == 0 {
            return Vec::new();
        }
        let spare = (0..).zip(&mut self.pages).filter(|(_, page)| **page == BACKED);
        spare.map(|(number, page)| (*page = 0, number).1).collect()
    }
}

impl Late {
    const fn is_in(&self, spot: Spot) -> bool {
        self.start < spot.start + spot.len && spot.start < self.start + self.len
    }
}

/// The pages that a block touches.
#[expect(clippy::cast_possible_truncation, reason = "a layout has no more pages than a Vec")]
#[inline]
const fn pages(page_shift: u32, start: u64, len: u64) -> RangeInclusive<usize> {
    (start >> page_shift) as usize..=((start + len - 1) >> page_shift) as usize
}
