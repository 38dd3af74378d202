//! Storages that are on the host between two uses.

use alloc::vec::Vec;

use crate::relief::{Graph, Link};

/// Two uses of a storage, one after the other in recorded order, between which it can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::relief) struct Gap {
    pub(in crate::relief) storage: u32,
    pub(in crate::relief) bytes: u64,
    /// The operation that uses it last before, and the one that uses it next.
    pub(in crate::relief) after: u32,
    pub(in crate::relief) before: u32,
}

/// A storage on the host, or encoded: from when to when, in operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relief) struct Move {
    pub(in crate::relief) storage: u32,
    /// It begins to leave after this operation, and has left before that one begins.
    pub(in crate::relief) after: u32,
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
    Link,
    /// On the device, encoded.
    Encoded,
}

impl Gap {
    /// The move that comes back when it is needed: that waits for it.
    pub(in crate::relief) const fn late(&self) -> Move {
        let &Self { storage, after, before, .. } = self;
        Move { storage, after, gone: before, back: before, before, way: Way::Link }
    }

    /// The move that frees its bytes as soon and as long as can be.
    pub(in crate::relief) const fn waits(&self) -> Move {
        Move { gone: self.after + 1, ..self.late() }
    }

    /// Encoded as soon as it is not in use, and decoded when it is needed.
    pub(in crate::relief) const fn encoded(&self) -> Move {
        let &Self { storage, after, before, .. } = self;
        Move { storage, after, gone: after + 1, back: before, before, way: Way::Encoded }
    }
}

/// All gaps in which a storage of at least `least` bytes can be away. What was there before the
/// iteration stays: it is the job's state. O(reads).
pub(in crate::relief) fn gaps(graph: &Graph, least: u64) -> Vec<Gap> {
    let mut last: Vec<Option<u32>> = alloc::vec![None; graph.storages.len()];
    let mut all = Vec::new();
    for (before, operation) in (0..).zip(&graph.operations) {
        let mut uses: Vec<u32> = operation.reads.iter().chain(&operation.writes).copied().collect();
        uses.sort_unstable();
        uses.dedup();
        for storage in uses {
            let known = &graph.storages[storage as usize];
            let used = last[storage as usize].replace(before);
            if let Some(after) = used
                && before > after + 1
                && known.bytes >= least.max(1)
                && !known.initial
            {
                all.push(Gap { storage, bytes: known.bytes, after, before });
            }
        }
    }
    all
}

/// The same, and of what is kept the time from its last use to the end, where the operation that
/// uses it next is the one after the last.
pub(in crate::relief) fn gaps_to_end(graph: &Graph, least: u64) -> Vec<Gap> {
    let mut all = gaps(graph, least);
    let before = u32::try_from(graph.operations.len()).unwrap_or(u32::MAX);
    for (storage, (known, last)) in (0..).zip(graph.storages.iter().zip(&graph.last)) {
        let leaves = known.kept && !known.initial && known.bytes >= least.max(1);
        if let Some(after) = last.filter(|&after| leaves && before > after + 1) {
            all.push(Gap { storage, bytes: known.bytes, after, before });
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
    let end = |operation: u32| {
        times[operation as usize].saturating_add(graph.operations[operation as usize].nanos)
    };
    order.sort_by_key(|&at| (gaps[at].after, gaps[at].before, gaps[at].storage));
    let mut left = alloc::vec![0; gaps.len()];
    let mut free = 0;
    for &at in &order {
        let start = end(gaps[at].after).max(free);
        free = start.saturating_add(link.nanos_out(gaps[at].bytes));
        left[at] = free;
    }
    order
        .sort_by_key(|&at| core::cmp::Reverse((gaps[at].before, gaps[at].after, gaps[at].storage)));
    let mut moves = alloc::vec![None; gaps.len()];
    let mut free = u64::MAX;
    for at in order {
        let gap = gaps[at];
        let latest = times[gap.before as usize].min(free);
        let Some(start) = latest.checked_sub(link.nanos_back(gap.bytes)) else { continue };
        if start < left[at] {
            continue;
        }
        free = start;
        let stage = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let gone = stage(times.partition_point(|&time| time < left[at])).max(gap.after + 1);
        let back = stage(times.partition_point(|&time| time <= start)).saturating_sub(1);
        if gone < back {
            let Gap { storage, after, before, .. } = gap;
            moves[at] =
                Some(Move { storage, after, gone, back: back.min(before), before, way: Way::Link });
        }
    }
    moves
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
