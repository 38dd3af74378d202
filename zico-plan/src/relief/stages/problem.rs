//! The graph as planners of recomputation see it: units that run as one, and items that one unit
//! makes.

use alloc::vec::Vec;

use crate::relief::Graph;
use crate::relief::swap::{Ends, Gap, Move, Way};

/// Operations that run as one, in one stage; unit 0 stands for what was there before and runs
/// nothing.
#[derive(Debug, Default)]
pub(in crate::relief) struct Unit {
    pub(in crate::relief) operations: Vec<u32>,
    pub(in crate::relief) reads: Vec<u32>,
    pub(in crate::relief) writes: Vec<u32>,
    pub(in crate::relief) cost: u64,
    /// The last stage in which it can be run again; below its own, it cannot be at all.
    pub(in crate::relief) until: u32,
    /// Stages in which it cannot, from the first of each pair to the last: what it reads or makes is
    /// on the host then, or encoded.
    pub(in crate::relief) barred: Vec<(u32, u32)>,
}

/// A storage with one version that counts, which may come and go.
#[derive(Debug)]
pub(in crate::relief) struct Item {
    /// Its storage.
    pub(in crate::relief) storage: u32,
    pub(in crate::relief) bytes: i64,
    pub(in crate::relief) writer: u32,
    pub(in crate::relief) readers: Vec<u32>,
    /// Needed in the end.
    pub(in crate::relief) kept: bool,
    /// The stage after which the recorded program has let go of it.
    pub(in crate::relief) released: u32,
}

/// Units in the recorded order, which is also the order of stages: in stage t some units run again,
/// and then unit t runs for the first time.
#[derive(Debug)]
pub(in crate::relief) struct Problem {
    pub(in crate::relief) units: Vec<Unit>,
    pub(in crate::relief) items: Vec<Item>,
    /// The bytes of all that never goes while in use, during each stage (even) and after it (odd).
    pub(in crate::relief) base: Vec<i64>,
    /// The item of each storage, and the unit of each operation and of the end.
    item: Vec<Option<u32>>,
    unit_of: Vec<u32>,
}

/// Whether a storage is an item: nothing changes it after the unit that makes it.
struct Kinds {
    item: Vec<Option<u32>>,
    unit: Vec<u32>,
    moved: Vec<Vec<Absence>>,
}

/// The stages in which a storage is on the host, or encoded.
#[derive(Clone, Copy, Debug)]
struct Absence {
    first: u32,
    /// The last in which it cannot be read.
    last: u32,
    /// The stage that reads it next: what comes back for it cannot be made again until then.
    before: u32,
}

impl Problem {
    /// O(sizes).
    pub(in crate::relief) fn new(graph: &Graph, moves: &[Move]) -> Self {
        let mut units = fuse(graph);
        let end = u32::try_from(units.len()).unwrap_or(u32::MAX);
        let mut unit = alloc::vec![end; graph.operations.len() + 1];
        for (at, one) in (0..).zip(&units) {
            one.operations.iter().for_each(|&operation| unit[operation as usize] = at);
        }
        let mut items = Vec::new();
        let mut moved = alloc::vec![Vec::new(); graph.storages.len()];
        for one in moves {
            let [back, before] = [one.back, one.before].map(|operation| unit[operation as usize]);
            let first = free_from(&unit, one.from);
            let absence = Absence { first, last: back.saturating_sub(1), before };
            moved[one.storage as usize].push(absence);
        }
        let mut kinds = Kinds { item: alloc::vec![None; graph.storages.len()], unit, moved };
        for (at, storage) in graph.storages.iter().enumerate() {
            let writers = &graph.writers[at];
            let writer = match (writers.first(), writers.last()) {
                _ if storage.alias.is_some() => continue,
                (None, _) if storage.initial && !storage.kept && graph.last[at].is_some() => 0,
                (Some(&first), Some(&last)) if !storage.initial => {
                    let (first, last) = (kinds.unit[first as usize], kinds.unit[last as usize]);
                    if first != last {
                        continue;
                    }
                    first
                }
                _ => continue,
            };
            kinds.item[at] = u32::try_from(items.len()).ok();
            let bytes = i64::try_from(storage.bytes).unwrap_or(i64::MAX);
            let end =
                storage.released.max(graph.last[at]).map_or(0, |last| kinds.unit[last as usize]);
            let (kept, readers) = (storage.kept, Vec::new());
            let Ok(name) = u32::try_from(at) else { continue };
            items.push(Item { storage: name, bytes, writer, readers, kept, released: end });
        }
        for (at, item) in (0..).zip(&items) {
            units[item.writer as usize].writes.push(at);
        }
        for at in 1..units.len() {
            connect(graph, &kinds, at, &mut units, &mut items);
        }
        let base = base(graph, &kinds, units.len(), moves);
        Self { units, items, base, item: kinds.item, unit_of: kinds.unit }
    }

    /// The stage in which a gap ends, and the unit that makes the storage, if it is an item.
    pub(in crate::relief) fn place(&self, gap: &Gap) -> Option<(u32, u32)> {
        let item = self.item[gap.storage as usize]?;
        Some((self.unit_of[gap.before as usize], self.items[item as usize].writer))
    }

    /// The item that a storage is, if it is one.
    pub(in crate::relief) fn item(&self, storage: u32) -> Option<u32> {
        self.item.get(storage as usize).copied().flatten()
    }

    /// The stage of an operation.
    pub(in crate::relief) fn stage(&self, operation: u32) -> Option<u32> {
        self.unit_of.get(operation as usize).copied()
    }

    /// The time of each unit once.
    pub(in crate::relief) fn cost(&self) -> u64 {
        self.units.iter().map(|unit| unit.cost).sum()
    }

    /// The bytes of a unit of memory: such that what is in use at once is about 2^23 units at most,
    /// and all items together less than 2^29.
    pub(in crate::relief) fn unit(&self) -> i64 {
        let all: i64 = self.items.iter().map(|item| item.bytes).sum();
        let mut change = alloc::vec![0; self.base.len() + 1];
        for item in &self.items {
            let last = item.readers.last().copied().unwrap_or(item.writer);
            change[2 * item.writer as usize] += item.bytes;
            change[2 * last as usize + 1] -= if item.kept { 0 } else { item.bytes };
        }
        let mut now = 0;
        let mut most = 0;
        for (base, change) in self.base.iter().zip(change) {
            now += change;
            most = most.max(base + now);
        }
        (most >> 23).max(all >> 29) + 1
    }

    /// Whether what never goes fits in so many bytes. Otherwise nothing that runs again helps.
    pub(in crate::relief) fn may_fit(&self, budget: u64) -> bool {
        self.base.iter().all(|&bytes| u64::try_from(bytes).unwrap_or(0) <= budget)
    }

    /// Whether a unit can be run again in a stage.
    pub(in crate::relief) fn repeats(&self, unit: u32, stage: u32) -> bool {
        let unit_of = &self.units[unit as usize];
        let away = |&(first, last): &(u32, u32)| (first..=last).contains(&stage);
        unit < stage && unit_of.until >= stage && !unit_of.barred.iter().any(away)
    }
}

/// An operation that changes in place what the one before it has made runs with it as one.
fn fuse(graph: &Graph) -> Vec<Unit> {
    let mut units = alloc::vec![Unit::default()];
    // The first operation of the last unit that writes anything, and its position.
    let mut open: (u32, usize) = (0, 0);
    for (at, operation) in (0..).zip(&graph.operations) {
        let writers = operation.writes.iter().map(|&storage| &graph.writers[storage as usize]);
        let before = writers
            .filter_map(|all| all[..all.partition_point(|&writer| writer < at)].last().copied());
        let fused = open.1 > 0 && before.into_iter().any(|writer| writer >= open.0);
        if fused {
            let tail: Vec<Unit> = units.drain(open.1 + 1..).collect();
            let unit = &mut units[open.1];
            unit.operations.extend(tail.into_iter().flat_map(|unit| unit.operations));
            unit.operations.push(at);
            continue;
        }
        if !operation.writes.is_empty() {
            open = (at, units.len());
        }
        units.push(Unit { operations: alloc::vec![at], ..Unit::default() });
    }
    units
}

/// The first stage in which what is not needed from an operation on is not in use; the one of what
/// was there before runs nothing.
fn free_from(unit_of: &[u32], operation: u32) -> u32 {
    operation.checked_sub(1).map_or(1, |last| unit_of[last as usize] + 1)
}

/// What a unit reads and writes, what it costs and until when it repeats.
fn connect(graph: &Graph, kinds: &Kinds, at: usize, units: &mut [Unit], items: &mut [Item]) {
    let own = u32::try_from(at).unwrap_or(u32::MAX);
    let mut unit = core::mem::take(&mut units[at]);
    let mut until = u32::MAX;
    for &item in &unit.writes {
        let absences = &kinds.moved[items[item as usize].storage as usize];
        unit.barred.extend(absences.iter().map(|one| (one.first, one.before)));
    }
    for &operation in &unit.operations {
        let known = &graph.operations[operation as usize];
        unit.cost += known.nanos;
        if !known.repeatable {
            until = 0;
        }
        for &(storage, version) in &graph.needs[operation as usize] {
            let absences = &kinds.moved[storage as usize];
            unit.barred.extend(absences.iter().map(|one| (one.first, one.last)));
            match kinds.item[storage as usize] {
                Some(item) if items[item as usize].writer == own => {}
                Some(item) => unit.reads.push(item),
                None => until = until.min(there_until(graph, kinds, storage, version)),
            }
        }
        for &storage in &known.writes {
            if kinds.item[storage as usize].is_none() {
                until = 0;
            }
        }
    }
    unit.reads.sort_unstable();
    unit.reads.dedup();
    unit.until = until;
    unit.reads.iter().for_each(|&item| items[item as usize].readers.push(own));
    units[at] = unit;
}

/// The last stage in which a version of what is no item is there: until the next one is made, or
/// until the last use if it is not kept.
fn there_until(graph: &Graph, kinds: &Kinds, storage: u32, version: u32) -> u32 {
    let known = &graph.storages[storage as usize];
    let first = u32::from(!known.initial);
    let next = graph.writers[storage as usize].get((version + first) as usize).copied();
    let last = graph.last[storage as usize].filter(|_| !known.kept);
    let end = |operation: u32| kinds.unit[operation as usize];
    next.into_iter().chain(last).map(end).min().unwrap_or(u32::MAX)
}

/// What is no item is there from when it is made to its last use. What moves is not, whatever it
/// is.
fn base(graph: &Graph, kinds: &Kinds, units: usize, moves: &[Move]) -> Vec<i64> {
    let mut change = alloc::vec![0_i64; 2 * units + 1];
    for (at, storage) in graph.storages.iter().enumerate() {
        let from = match graph.writers[at].first() {
            _ if storage.alias.is_some() || kinds.item[at].is_some() => continue,
            _ if storage.initial => 0,
            Some(&writer) => 2 * kinds.unit[writer as usize] as usize,
            None => continue,
        };
        let bytes = i64::try_from(storage.bytes).unwrap_or(i64::MAX);
        change[from] += bytes;
        if let Some(last) = graph.last[at].filter(|_| !storage.kept) {
            change[2 * kinds.unit[last as usize] as usize + 1] -= bytes;
        }
    }
    for one in moves {
        let known = &graph.storages[one.storage as usize];
        let bytes = i64::try_from(known.bytes).unwrap_or(i64::MAX);
        // It comes back before what runs again in the stage.
        let free = free_from(&kinds.unit, one.from);
        let ends = if let Way::Link(ends) = one.way { ends } else { Ends::Both };
        let gone = 2 * free.max(kinds.unit[one.gone as usize]) as usize;
        let from = if ends.leaves() { gone } else { 0 };
        let back = 2 * kinds.unit[one.back as usize] as usize;
        let to = if ends.comes_back() { back - 1 } else { 2 * units };
        if from < to {
            change[from] -= bytes;
            change[to] += bytes;
        }
        // Both forms are there while one is made of the other.
        if let (Way::Encoded, Some(encoding)) = (one.way, known.encoding) {
            let bytes = i64::try_from(encoding.bytes).unwrap_or(i64::MAX);
            change[2 * free as usize - 1] += bytes;
            change[back] -= bytes;
        }
    }
    let mut now = 0;
    let sum = |change: i64| {
        now += change;
        now
    };
    change.into_iter().take(2 * units).map(sum).collect()
}
