//! What no schedule can be faster than.

use alloc::vec::Vec;

use crate::relief::{Graph, Link};

/// The operations at which memory is fullest that are looked at.
const LOOKS: usize = 48;

/// No schedule within the budget takes less than so many nanoseconds, in whatever order it runs
/// operations; `None` if none fits at all.
///
/// When an operation runs for the first time, what it needs has been made and what needs it has not
/// run yet. So each storage that one of its ancestors has made and one of its descendants reads is
/// on the device then, or has to come back: its writer runs again, it goes over the link (each way
/// as much as the link carries in the whole time), or it is decoded. What persists and is in use at
/// all comes back once at least, wherever it is before the iteration. Which of them leave is a
/// knapsack, whose relaxation to fractions is a bound. It is taken at the operations with the most
/// such bytes. O(n log n + k m) for k of them and m reads.
///
/// Without a link nothing moves to the host. Encodings count if `encodes`, lossy ones too.
#[must_use]
pub fn lower_bound(graph: &Graph, link: Option<&Link>, encodes: bool, budget: u64) -> Option<u64> {
    let moves = link.is_some() && !graph.resident;
    let least = if moves { graph.working_set() } else { graph.resident_set() };
    if least > budget {
        return None;
    }
    let live = graph.live();
    let mut order: Vec<usize> = (0..live.len()).filter(|&at| live[at] > budget).collect();
    order.sort_by_key(|&at| (core::cmp::Reverse(live[at]), at));
    // Of operations side by side one is enough.
    let mut looks: Vec<usize> = Vec::new();
    let apart = live.len() / (4 * LOOKS);
    for at in order {
        if looks.len() < LOOKS && looks.iter().all(|&other| other.abs_diff(at) > apart) {
            looks.push(at);
        }
    }
    let mut most = graph.nanos();
    for at in looks {
        most = most.max(Cut::new(graph, at, moves, encodes).bound(graph, link, budget)?);
    }
    Some(most)
}

/// What is on both sides of an operation.
struct Cut {
    /// Bytes that are there in any case.
    fixed: u64,
    /// What may leave: bytes that this frees, and the nanoseconds that it takes; by price.
    choices: Vec<(u64, u64)>,
    /// All that may leave over the link and come back.
    movable: u64,
    /// All that persists: it may be on the host before, and only come back.
    persists: u64,
}

impl Cut {
    fn new(graph: &Graph, at: usize, moves: bool, encodes: bool) -> Self {
        let (above, below) = (ancestors(graph, at), descendants(graph, at));
        let mut groups: Vec<(usize, u64)> = Vec::new();
        let mut cut = Self { fixed: 0, choices: Vec::new(), movable: 0, persists: 0 };
        let own = &graph.operations[at];
        for (index, storage) in graph.storages.iter().enumerate() {
            let Ok(name) = u32::try_from(index) else { continue };
            if storage.alias.is_some() || storage.bytes == 0 {
                continue;
            }
            let writers = &graph.writers[index];
            if own.reads.contains(&name)
                || own.writes.contains(&name)
                || storage.persists() && !moves
            {
                cut.fixed += storage.bytes;
                continue;
            }
            // It may be on the host for good.
            if storage.persists() && graph.last[index].is_none() {
                continue;
            }
            let made =
                storage.initial || writers.first().is_some_and(|&first| above[first as usize]);
            if !made || !(storage.kept || below[index]) {
                continue;
            }
            *if storage.persists() { &mut cut.persists } else { &mut cut.movable } += storage.bytes;
            match (writers.as_slice(), storage.initial) {
                (&[writer], false) if graph.operations[writer as usize].repeatable => {
                    groups.push((writer as usize, storage.bytes));
                }
                // Made by several: the cheapest of them runs again at least.
                (all, false) => {
                    let least = all.iter().map(|&one| graph.operations[one as usize].nanos).min();
                    cut.choices.push((storage.bytes, least.unwrap_or(0)));
                }
                _ => {}
            }
            if let Some(encoding) = storage.encoding.filter(|_| encodes) {
                let freed = storage.bytes.saturating_sub(encoding.bytes);
                cut.choices.push((freed, encoding.encode.saturating_add(encoding.decode)));
            }
        }
        groups.sort_unstable();
        for group in groups.chunk_by(|one, other| one.0 == other.0) {
            let bytes = group.iter().map(|one| one.1).sum();
            cut.choices.push((bytes, graph.operations[group[0].0].nanos));
        }
        cut.choices.sort_by(|&(a, x), &(b, y)| {
            (u128::from(x) * u128::from(b)).cmp(&(u128::from(y) * u128::from(a)))
        });
        cut
    }

    /// The least time; `None` if even all that can leave is too little.
    fn bound(&self, graph: &Graph, link: Option<&Link>, budget: u64) -> Option<u64> {
        let base = graph.nanos();
        let held = self.fixed.saturating_add(self.movable).saturating_add(self.persists);
        let over = held.saturating_sub(budget);
        let Some(link) = link else { return Some(base.saturating_add(self.relax(over)?)) };
        // The longer it takes, the more can have moved: the time at which that is enough.
        let enough = |nanos: u64| {
            let both = carried(link.out.min(link.back), nanos).min(self.movable);
            let moved = carried(link.back, nanos).min(both.saturating_add(self.persists));
            self.relax(over.saturating_sub(moved))
                .is_some_and(|more| base.saturating_add(more) <= nanos)
        };
        let (mut low, mut high) = (base, 1_u64 << 62);
        if !enough(high) {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if enough(middle) { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

    /// The least time to free so many bytes, by fractions.
    fn relax(&self, mut bytes: u64) -> Option<u64> {
        let mut nanos = 0_u64;
        for &(freed, cost) in &self.choices {
            if bytes == 0 {
                break;
            }
            if freed > bytes {
                let part = u128::from(cost) * u128::from(bytes) / u128::from(freed);
                return nanos.checked_add(u64::try_from(part).ok()?);
            }
            nanos = nanos.saturating_add(cost);
            bytes -= freed;
        }
        (bytes == 0).then_some(nanos)
    }
}

/// The bytes that are carried in so many nanoseconds.
fn carried(per_second: u64, nanos: u64) -> u64 {
    let bytes = u128::from(per_second) * u128::from(nanos) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Which operations have to have run before one does.
fn ancestors(graph: &Graph, at: usize) -> Vec<bool> {
    let mut known = alloc::vec![false; graph.operations.len()];
    let mut open = alloc::vec![at];
    while let Some(operation) = open.pop() {
        for &(storage, version) in &graph.needs[operation] {
            let first = u32::from(!graph.storages[storage as usize].initial);
            let writer = (version + first).checked_sub(1);
            let Some(writer) = writer.and_then(|w| graph.writers[storage as usize].get(w as usize))
            else {
                continue;
            };
            if !core::mem::replace(&mut known[*writer as usize], true) {
                open.push(*writer as usize);
            }
        }
    }
    known
}

/// Which storages are read by an operation that cannot run before another has.
fn descendants(graph: &Graph, at: usize) -> Vec<bool> {
    // The first version of each that depends on it.
    let mut tainted = alloc::vec![u32::MAX; graph.storages.len()];
    let mut read = alloc::vec![false; graph.storages.len()];
    for (operation, needs) in graph.needs.iter().enumerate().skip(at) {
        let depends = |&(storage, version): &(u32, u32)| tainted[storage as usize] <= version;
        if operation != at {
            if !needs.iter().any(depends) {
                continue;
            }
            needs.iter().for_each(|&(storage, _)| read[storage as usize] = true);
        }
        for &(storage, version) in &graph.makes[operation] {
            tainted[storage as usize] = tainted[storage as usize].min(version);
        }
    }
    read
}
