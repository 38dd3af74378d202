//! A program whose iterations are planned, checked at each step.

use alloc::collections::{BTreeMap, BTreeSet};

use super::*;

/// A job with one arena, in which its iterations are planned.
pub(super) struct Program {
    pub(super) planned: Planned,
    pub(super) arena: Arena,
    pub(super) history: History,
    pub(super) serial: u64,
    pub(super) signature: Signature,
    pub(super) live: Vec<Option<Handle>>,
    /// For each allocation of the last iteration where it was placed, if as planned.
    pub(super) places: Vec<Option<u64>>,
    /// Pages that are backed, and the most that were in the last iteration.
    pub(super) backed: BTreeSet<u64>,
    pub(super) most: usize,
    /// What lies with what persists, by serial: where, how long, and which allocation it was.
    pub(super) beyond: BTreeMap<u64, (u64, u64, OptionalU32)>,
}

/// Where that lies.
pub(super) const BEYOND: u64 = 1 << 50;

impl Program {
    pub(super) fn new() -> Self {
        Self::within(1 << 39)
    }

    /// One with an address range of so many bytes.
    pub(super) fn within(len: u64) -> Self {
        Self {
            planned: Planned::new(PAGE_BYTES, len),
            arena: Arena::new(PAGE_BYTES, 1 << 39),
            history: History::default(),
            serial: 0,
            signature: Signature::default(),
            live: Vec::new(),
            places: Vec::new(),
            backed: BTreeSet::new(),
            most: 0,
            beyond: BTreeMap::new(),
        }
    }

    pub(super) fn begin(&mut self, told: Option<u64>) {
        self.history.begin(self.serial + 1);
        self.planned.begin(told);
        self.signature = Signature::default();
        self.live.clear();
        self.places.clear();
        self.most = self.backed.len();
    }

    pub(super) fn end(&mut self) {
        let parts = (&mut self.history, &mut self.arena);
        let task = self.planned.end(parts, self.signature, self.serial + 1);
        for page in self.planned.give_up_spare(&mut self.arena) {
            assert!(self.backed.remove(&page), "{page} was backed");
        }
        assert_eq!(self.backed, self.touched(), "nothing is kept for the next iteration");
        if let Some(task) = task {
            self.planned.install(task.plan(PAGE_BYTES).unwrap());
        }
    }

    /// The pages of all blocks, parked ones included.
    pub(super) fn touched(&self) -> BTreeSet<u64> {
        let slots = self.planned.slots.iter().filter(|place| place.occupant.serial != 0);
        let slots = slots.map(|place| (place.entry.start, place.entry.size));
        let arena = self.arena.blocks().map(|block| (block.start, block.len));
        let pages =
            |(start, len): (u64, u64)| start / PAGE_BYTES..(start + len).div_ceil(PAGE_BYTES);
        slots.chain(arena).flat_map(pages).collect()
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let beyond = self.beyond.iter().map(|(&serial, &(start, len, _))| (start, len, serial));
        self.planned.blocks().chain(self.arena.live()).chain(beyond)
    }

    pub(super) fn lease(&mut self, pages: &[u64]) {
        pages.iter().for_each(|&page| assert!(self.backed.insert(page), "{page} was bare"));
        self.most = self.most.max(self.backed.len());
        self.planned.back(&mut self.arena, pages);
    }

    pub(super) fn try_alloc(&mut self, size: u64) -> Option<(Slot, u64, bool)> {
        let follows = self.planned.follows();
        if follows {
            let parts = (&mut self.history, &mut self.arena);
            match self.planned.place(parts, size, UNIT, self.serial) {
                Placed::At(slot, start) => return Some((slot, start, true)),
                Placed::Bare => return None,
                Placed::Beyond => {
                    let number = self.planned.next_number();
                    self.planned.placed_beyond();
                    return Some((0, self.keep(size, number), true));
                }
                Placed::Elsewhere => {}
            }
        }
        let named = (self.serial, self.history.next());
        if self.planned.is_out_of_place(&self.history, size) {
            self.history.made(named.1, size, UNIT);
            return Some((0, self.keep(size, named.1), false));
        }
        let parts = (&mut self.history, &mut self.arena);
        let (slot, start) = self.planned.place_elsewhere(parts, size, UNIT, named)?;
        self.history.made(named.1, size, UNIT);
        Some((slot, start, false))
    }

    /// The next block goes to what persists. Where it begins.
    fn keep(&mut self, size: u64, number: OptionalU32) -> u64 {
        let start = BEYOND + self.serial * (1 << 30);
        self.beyond.insert(self.serial, (start, size, number));
        start
    }

    pub(super) fn alloc(&mut self, units: u64) -> Handle {
        let size = units * UNIT;
        self.serial += 1;
        self.signature.push(size);
        let mut placed = self.try_alloc(size);
        if placed.is_none() {
            let parts = (&mut self.history, &mut self.arena);
            let pages = if self.planned.follows() {
                self.planned.want(parts, size, UNIT, Vec::new())
            } else {
                Err(Vec::new())
            };
            let by_plan = pages.is_ok();
            let pages = pages.unwrap_or_else(|list| {
                let parts = (&mut self.history, &mut self.arena);
                self.planned.want_elsewhere(parts, size, UNIT, list).unwrap()
            });
            assert!(!pages.is_empty());
            self.lease(&pages);
            placed = self.try_alloc(size);
            assert!(placed.is_some_and(|placed| placed.2 == by_plan), "as it was wanted");
        }
        let (slot, start, by_plan) = placed.unwrap();
        let handle = (self.serial, slot, start, size);
        let overlaps =
            |&(from, len, _): &(u64, u64, u64)| from < start + size && start < from + len;
        let others = self.blocks().filter(|block| block.2 != self.serial);
        assert_eq!(others.filter(overlaps).count(), 0, "{handle:?}");
        assert_eq!(self.live_at(slot, self.serial), Some((start, size)));
        self.places.push(by_plan.then_some(start));
        self.live.push(Some(handle));
        handle
    }

    /// Where a live block is, and how long.
    fn live_at(&self, slot: Slot, serial: u64) -> Option<(u64, u64)> {
        let beyond = self.beyond.get(&serial).map(|&(start, len, _)| (start, len));
        beyond.or_else(|| self.planned.live(&self.arena, slot, serial))
    }

    pub(super) fn free(&mut self, (serial, slot, start, size): Handle) {
        assert_eq!(self.live_at(slot, serial), Some((start, size)));
        if let Some((_, _, number)) = self.beyond.remove(&serial) {
            self.history.freed(number, serial, self.planned.unnoted());
            return;
        }
        let parts = (&mut self.history, &mut self.arena);
        let (len, pages) = self.planned.free(parts, slot, serial, Some(start)).unwrap();
        assert_eq!(len, size);
        assert_eq!(self.planned.live(&self.arena, slot, serial), None);
        for page in pages {
            assert!(self.backed.remove(&page), "{page} was backed");
        }
        let touched = self.touched();
        assert!(touched.is_subset(&self.backed), "what has blocks stays backed");
        let mut empty = self.backed.difference(&touched);
        let is_kept = |&page: &u64| self.planned.in_slots() && self.planned.pages.is_spare(page);
        assert!(empty.all(is_kept) || self.planned() > 0, "what is empty goes back, or is kept");
    }

    /// Runs an iteration. Returns what is still live in the end.
    pub(super) fn iteration(&mut self, told: Option<u64>, ops: &[Op]) -> Vec<Handle> {
        self.begin(told);
        for &op in ops {
            match op {
                Alloc(size) => {
                    self.alloc(size);
                }
                Free(which) => {
                    let handle = self.live[which].take().unwrap();
                    self.free(handle);
                }
            }
        }
        self.end();
        core::mem::take(&mut self.live).into_iter().flatten().collect()
    }

    pub(super) fn planned(&self) -> usize {
        self.places.iter().flatten().count()
    }
}
