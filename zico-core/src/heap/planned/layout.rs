//! A plan in the form in which allocations follow it.

use alloc::vec::Vec;

use crate::heap::arena::Slot;
use crate::heap::compact::OptionalU32;
use crate::heap::history::Past;
use crate::learn::kinds::Kind;
use crate::learn::predictor::Peak;
use zico_plan::{Block, Plan};

/// How long a block occupies its place, the shortest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LiveRange {
    /// Up to this allocation. The next iteration begins where this one ends.
    Until(u32),
    /// All the time, in each iteration anew.
    Always,
    /// All the time, in one slot and then in the other.
    Alternating,
    /// Longer than the next iteration too, perhaps for good: it has no slot.
    Beyond,
}

impl LiveRange {
    /// Of the allocation with this number among so many; that of the iteration before, if that is
    /// known, has outlived this one, or not.
    pub(super) fn of(past: &Past, number: usize, all: u32, outlives: bool) -> Self {
        match (past.until.get(), past.next_until.get()) {
            (Some(until), _) => Self::Until(until.min(all)),
            (None, None) if outlives => Self::Beyond,
            (None, Some(0)) => Self::Until(all),
            // Gone by the time that its successor is made.
            (None, Some(next)) if next as usize <= number => Self::Always,
            (None, _) => Self::Alternating,
        }
    }

    /// Whether its slots are nobody else's.
    pub(super) const fn is_alone(self) -> bool {
        matches!(self, Self::Always | Self::Alternating)
    }
}

/// What an allocation needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) size: u64,
    pub(super) align: u64,
    pub(super) life: LiveRange,
}

impl Need {
    /// Its block among `all` allocations.
    pub(super) fn block(&self, number: u64, all: u64) -> Block {
        let (lower, upper) = match self.life {
            LiveRange::Until(until) => (number, until.into()),
            LiveRange::Always | LiveRange::Alternating => (0, all),
            LiveRange::Beyond => return Block::new(number, number, 0),
        };
        Block::new(lower, upper, self.size).aligned(self.align)
    }
}

/// The allocations of an iteration, and where each of them goes.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(super) entries: Vec<Entry>,
    /// The second slots of blocks that take turns, which come behind all first ones.
    seconds: Vec<Entry>,
    /// The slots that are nobody else's, by where they begin.
    pub(super) own: Vec<(u64, Slot)>,
    /// The kind of the iteration in which it was learned.
    pub(super) kind: Kind,
    /// How often it has been made anew.
    pub(super) times: u32,
    /// So many pages may have blocks of earlier iterations beside it.
    pub(super) beside: u32,
    pub(super) height: u64,
    pub(super) lower_bound: u64,
    /// The most pages that are in use at one moment ...
    pub(super) peak: u32,
    /// ... and during the first 1, 2, 4 allocations and so on.
    pub(super) starts: Vec<u32>,
    /// The most pages that the slots take which are nobody else's.
    pub(super) own_pages: u32,
    /// The steps that it took to make it.
    pub(super) steps: u64,
}

/// An allocation, and its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) size: u64,
    /// Nothing where no allocation gets the slot at once: in a second one, and where there is none.
    pub(super) align: u64,
    /// Where it begins.
    pub(super) start: u64,
    pub(super) life: LiveRange,
    /// Its second slot, if it has one.
    pub(super) second: OptionalU32,
    /// When it is freed, the pages that it leaves empty stay backed for those who come next.
    pub(super) keeps: bool,
    /// The first slot whose time ends between the previous allocation and this one.
    pub(super) ends: OptionalU32,
    /// The next one that is free from the same allocation on as this slot.
    pub(super) next_end: OptionalU32,
}

impl Entry {
    /// Whether its slots are nobody else's.
    pub(super) const fn is_alone(&self) -> bool {
        self.life.is_alone()
    }
}

impl Layout {
    /// Of these allocations, where the plan puts them.
    pub(super) fn of(needs: &[Need], plan: &Plan) -> Self {
        let all = u32::try_from(needs.len()).unwrap_or(u32::MAX);
        let end = |slot: Slot| match needs[slot as usize].life {
            // Before the first allocation of the next iteration.
            LiveRange::Until(until) if until == all => Some(0),
            LiveRange::Until(until) => Some(until),
            LiveRange::Always | LiveRange::Alternating | LiveRange::Beyond => None,
        };
        let mut second = (all..).zip(&plan.offsets[needs.len()..]);
        let (mut entries, mut seconds) = (Vec::with_capacity(needs.len()), Vec::new());
        for (need, &start) in needs.iter().zip(&plan.offsets) {
            let &Need { size, align, life } = need;
            let align = if life == LiveRange::Beyond { 0 } else { align };
            let (keeps, none) = (false, OptionalU32::NONE);
            let (second_slot, ends, next_end) = (none, none, none);
            let mut entry =
                Entry { size, align, start, life, second: second_slot, keeps, ends, next_end };
            if life == LiveRange::Alternating
                && let Some((slot, &start)) = second.next()
            {
                seconds.push(Entry { align: 0, start, ..entry });
                entry.second = OptionalU32::some(slot);
            }
            entries.push(entry);
        }
        for slot in (0..all).rev() {
            if let Some(end) = end(slot) {
                let first = OptionalU32::some(slot);
                let next = core::mem::replace(&mut entries[end as usize].ends, first);
                entries[slot as usize].next_end = next;
            }
        }
        let slots = (0..).zip(entries.iter().chain(&seconds));
        let own = slots.filter(|(_, entry)| entry.is_alone());
        let mut own: Vec<(u64, Slot)> = own.map(|(slot, entry)| (entry.start, slot)).collect();
        own.sort_unstable();
        let Plan { height, lower_bound, .. } = *plan;
        let (kind, times, beside, own_pages, steps) = (Kind::default(), 0, 0, 0, 0);
        let (peak, starts) = (0, Vec::new());
        Self {
            entries,
            seconds,
            own,
            kind,
            times,
            beside,
            height,
            lower_bound,
            peak,
            starts,
            own_pages,
            steps,
        }
    }

    /// All slots, second ones included.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().chain(&self.seconds)
    }

    /// The slots that are free before an allocation, and were not before the one ahead of it.
    pub(super) fn ends(&self, number: usize) -> impl Iterator<Item = usize> {
        let slot = |slot: OptionalU32| slot.get().map(|slot| slot as usize);
        let first = slot(self.entries[number].ends);
        core::iter::successors(first, move |&last| slot(self.entries[last].next_end))
    }

    /// What iterations that are as planned come to hold, with what may lie beside the plan. So many
    /// pages of that are not held against it: without a plan others lie in them, too.
    pub(crate) fn most(&self, shared: u32) -> Peak {
        let Self { kind, peak, own_pages, beside, ref starts, .. } = *self;
        let with = |pages: u32| pages.saturating_add(beside);
        let within = with(peak.saturating_sub(own_pages)).saturating_sub(shared.min(beside));
        let starts = starts.iter().map(|&start| with(start)).collect();
        Peak { kind, pages: with(peak), within, starts }
    }

    /// Nothing may lie beside it any more.
    pub(crate) const fn leave_alone(&mut self) {
        self.beside = 0;
    }

    /// Whether it places allocations of these sizes.
    pub(super) fn is_of(&self, history: &[Past]) -> bool {
        let mut pairs = history.iter().zip(&self.entries);
        history.len() == self.entries.len() && pairs.all(|(past, entry)| past.size == entry.size)
    }
}
