//! Storages that are on the host between two uses.

use alloc::vec::Vec;

use crate::relief::{Graph, Link, Storage};

/// A time in which nothing uses a storage, so that it can be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::relief) struct Gap {
    pub(in crate::relief) storage: u32,
    pub(in crate::relief) bytes: u64,
    /// The first operation that it is not needed by: the one behind its last use, or the first of
    /// all.
    pub(in crate::relief) from: u32,
    /// The operation that uses it next, or as many as there are.
    pub(in crate::relief) before: u32,
    pub(in crate::relief) ends: Ends,
}

/// Which transfers a storage away takes in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::relief) enum Ends {
    /// It leaves and comes back.
    Both,
    /// It was on the host before the iteration and comes back.
    Back,
    /// It leaves, and is on the host until the next iteration.
    Out,
    /// It is on the host all the time.
    Neither,
}

/// A storage on the host, or encoded: from when to when, in operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relief) struct Move {
    pub(in crate::relief) storage: u32,
    /// It begins to leave before this operation, and has left before that one begins.
    pub(in crate::relief) from: u32,
    pub(in crate::relief) gone: u32,
    /// It begins to come back before this operation, and is needed by that one.
    pub(in crate::relief) back: u32,
    pub(in crate::relief) before: u32,
    pub(in crate::relief) way: Way,
}

/// Where a storage is between two uses, when it is not on the device as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relief) enum Way {
    /// On the host.
    Link(Ends),
    /// On the device, encoded.
    Encoded,
}

impl Ends {
    /// It is on the device when its time away begins.
    pub(in crate::relief) const fn leaves(self) -> bool {
        matches!(self, Self::Both | Self::Out)
    }

    /// It is there when that ends.
    pub(in crate::relief) const fn comes_back(self) -> bool {
        matches!(self, Self::Both | Self::Back)
    }
}

impl Gap {
    /// The move that comes back when it is needed: that waits for it.
    pub(in crate::relief) const fn late(&self) -> Move {
        let &Self { storage, from, before, ends, .. } = self;
        Move { storage, from, gone: before, back: before, before, way: Way::Link(ends) }
    }

    /// The move that frees its bytes as soon and as long as can be.
    pub(in crate::relief) const fn waits(&self) -> Move {
        Move { gone: self.from, ..self.late() }
    }

    /// Encoded as soon as it is not in use, and decoded when it is needed.
    pub(in crate::relief) const fn encoded(&self) -> Move {
        Move { way: Way::Encoded, ..self.waits() }
    }

    /// Of what persists and is not used until later, its time away if it is on the host between
    /// iterations: until it is used first, and from its last use on.
    pub(in crate::relief) fn hosted(&self, graph: &Graph) -> Vec<Gap> {
        let count = u32::try_from(graph.operations.len()).unwrap_or(u32::MAX);
        let Some(last) = graph.last[self.storage as usize] else {
            return alloc::vec![Gap { ends: Ends::Neither, ..*self }];
        };
        let end = Gap { from: last + 1, before: count, ends: Ends::Out, ..*self };
        alloc::vec![Gap { ends: Ends::Back, ..*self }, end]
    }

    /// Whether that can be: it begins with the iteration, and what it is of persists.
    pub(in crate::relief) fn may_be_hosted(&self, graph: &Graph) -> bool {
        self.from == 0 && graph.storages[self.storage as usize].persists()
    }
}

/// All gaps between two uses in which a storage of at least `least` bytes can be away, where what
/// was there before the iteration stays. O(reads).
pub(in crate::relief) fn gaps(graph: &Graph, least: u64) -> Vec<Gap> {
    between(graph, least, |storage| !storage.initial)
}

/// The same of all storages: also of what was there before, from the begin until its first use, and
/// of what is kept, from its last use to the end. Where what persists `hosts`, it is on the host
/// then if it was there in the beginning.
pub(in crate::relief) fn gaps_of_all(graph: &Graph, least: u64, hosts: bool) -> Vec<Gap> {
    let moves = |storage: &Storage| !(graph.resident && storage.initial);
    let mut all = between(graph, least, moves);
    let mut hosted = alloc::vec![false; graph.storages.len()];
    for gap in all.iter().filter(|gap| hosts && gap.may_be_hosted(graph)) {
        hosted[gap.storage as usize] = true;
    }
    let before = u32::try_from(graph.operations.len()).unwrap_or(u32::MAX);
    for (storage, (known, last)) in (0..).zip(graph.storages.iter().zip(&graph.last)) {
        let from = last.map_or(0, |last| last + 1);
        let made = last.is_some() || known.initial && known.alias.is_none();
        let ends = known.kept && made && moves(known) && !hosted[storage as usize];
        if ends && from < before && known.bytes >= least.max(1) {
            all.push(Gap { storage, bytes: known.bytes, from, before, ends: Ends::Both });
        }
    }
    all
}

fn between(graph: &Graph, least: u64, moves: impl Fn(&Storage) -> bool) -> Vec<Gap> {
    let begin = |storage: &Storage| storage.initial.then_some(0);
    // Where each storage is not in use any more.
    let mut free: Vec<Option<u32>> = graph.storages.iter().map(begin).collect();
    let mut all = Vec::new();
    for (before, operation) in (0..).zip(&graph.operations) {
        let mut uses: Vec<u32> = operation.reads.iter().chain(&operation.writes).copied().collect();
        uses.sort_unstable();
        uses.dedup();
        for storage in uses {
            let known = &graph.storages[storage as usize];
            let since = free[storage as usize].replace(before + 1);
            if let Some(from) = since
                && before > from
                && known.bytes >= least.max(1)
                && moves(known)
            {
                all.push(Gap { storage, bytes: known.bytes, from, before, ends: Ends::Both });
            }
        }
    }
    all
}

/// When gaps are moved if each storage leaves as early as its channel has come to it and comes back
/// as late as it can and still be there in time, given when operations begin. `None` for what would
/// have to come back before it has left. O(k log k).
pub(in crate::relief) fn place(
    graph: &Graph,
    link: &Link,
    gaps: &[Gap],
    times: &[u64],
) -> Vec<Option<Move>> {
    let mut order: Vec<usize> = (0..gaps.len()).collect();
    order.sort_by_key(|&at| (gaps[at].from, gaps[at].before, gaps[at].storage));
    let mut left = alloc::vec![0; gaps.len()];
    let mut free = 0;
    for &at in &order {
        if gaps[at].ends.leaves() {
            let start = end_of(graph, times, gaps[at].from).max(free);
            free = start.saturating_add(link.nanos_out(gaps[at].bytes));
            left[at] = free;
        }
    }
    order.sort_by_key(|&at| core::cmp::Reverse((gaps[at].before, gaps[at].from, gaps[at].storage)));
    let mut moves = alloc::vec![None; gaps.len()];
    let mut free = u64::MAX;
    for at in order {
        let gap = gaps[at];
        let mut start = u64::MAX;
        if gap.ends.comes_back() {
            let latest = times[gap.before as usize].min(free);
            let Some(latest) = latest.checked_sub(link.nanos_back(gap.bytes)) else { continue };
            if latest < left[at] {
                continue;
            }
            (start, free) = (latest, latest);
        }
        let stage = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let gone = if gap.ends.leaves() {
            stage(times.partition_point(|&time| time < left[at])).clamp(gap.from, gap.before)
        } else {
            gap.from
        };
        let back = stage(times.partition_point(|&time| time <= start)).saturating_sub(1);
        let back = back.min(gap.before);
        if gone < back || !gap.ends.comes_back() {
            let Gap { storage, from, before, ends, .. } = gap;
            moves[at] = Some(Move { storage, from, gone, back, before, way: Way::Link(ends) });
        }
    }
    moves
}

/// When what comes before an operation has ended.
fn end_of(graph: &Graph, times: &[u64], operation: u32) -> u64 {
    let Some(last) = (operation as usize).checked_sub(1) else { return 0 };
    times[last].saturating_add(graph.operations[last].nanos)
}

/// When each operation begins if each runs once, with the end.
pub(in crate::relief) fn times(graph: &Graph) -> Vec<u64> {
    let mut now = 0;
    let mut all = alloc::vec![0];
    for operation in &graph.operations {
        now += operation.nanos;
        all.push(now);
    }
    all
}
