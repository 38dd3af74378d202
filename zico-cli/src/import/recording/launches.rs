//! Launches derived from the operators, for recordings without device activities.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Op;
use crate::import::SHORTEST_LAUNCH;

/// A stretch of time in which the device is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) struct Launch {
    pub(in crate::import) start: i64,
    pub(in crate::import) work: u64,
}

/// The launches, in order of time: stretches in which the same operator is the innermost one, cut
/// at the moments `cuts`.
///
/// Operators of one thread nest. Of several threads' operators, the one that started last counts
/// as innermost: threads that launch work take turns, and a thread that waits for another one has
/// started earlier.
pub(in crate::import) fn of_operators(ops: &[Op], cuts: impl Iterator<Item = i64>) -> Vec<Launch> {
    let mut running = BTreeSet::new();
    let mut launches = Vec::new();
    // The operator that is innermost since some moment.
    let mut innermost = None;
    for (at, change) in changes(ops, cuts) {
        let op = |index: usize| (ops[index].start, Reverse(ops[index].end), index);
        match change {
            Change::End(index) => {
                running.remove(&op(index));
            }
            Change::Start(index) => {
                running.insert(op(index));
            }
            Change::Cut => {}
        }
        let now = running.last().map(|&(_, _, index)| index);
        match innermost {
            Some((before, _)) if now == Some(before) && change != Change::Cut => continue,
            Some((_, start)) => {
                let work = at.abs_diff(start);
                if work >= SHORTEST_LAUNCH.value() {
                    launches.push(Launch { start, work });
                }
            }
            None => {}
        }
        innermost = now.map(|index| (index, at));
    }
    launches
}

/// What happens at one moment, in the order in which it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    End(usize),
    Start(usize),
    Cut,
}

/// All changes in order of time.
fn changes(ops: &[Op], cuts: impl Iterator<Item = i64>) -> Vec<(i64, Change)> {
    let mut changes: Vec<_> = cuts.map(|at| (at, Change::Cut)).collect();
    for (index, op) in ops.iter().enumerate().filter(|(_, op)| op.start < op.end) {
        changes.push((op.start, Change::Start(index)));
        changes.push((op.end, Change::End(index)));
    }
    changes.sort_unstable();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(start: i64, end: i64) -> Op {
        Op { start, end }
    }

    fn of(ops: &[Op], cuts: &[i64]) -> Vec<(i64, u64)> {
        let launches = of_operators(ops, cuts.iter().copied());
        launches.into_iter().map(|launch| (launch.start, launch.work)).collect()
    }

    #[test]
    fn the_innermost_operator_is_what_runs() {
        let ops = [op(0, 100_000), op(20_000, 50_000), op(30_000, 40_000)];
        let expected =
            [(0, 20_000), (20_000, 10_000), (30_000, 10_000), (40_000, 10_000), (50_000, 50_000)];
        assert_eq!(of(&ops, &[]), expected);
    }

    #[test]
    fn memory_events_cut_and_short_pieces_are_dropped() {
        let ops = [op(0, 30_000), op(30_000, 39_999), op(50_000, 60_000)];
        assert_eq!(
            of(&ops, &[12_000, 12_500, 45_000]),
            [(0, 12_000), (12_500, 17_500), (50_000, 10_000)]
        );
    }

    #[test]
    fn the_last_to_start_wins_among_threads() {
        // The first thread waits while the second one works, and goes on after it.
        let ops = [op(0, 60_000), op(20_000, 40_000), op(25_000, 80_000)];
        assert_eq!(of(&ops, &[]), [(0, 20_000), (25_000, 55_000)]);
    }

    #[test]
    fn operators_without_length_leave_no_trace() {
        assert_eq!(of(&[op(0, 30_000), op(10_000, 10_000)], &[]), [(0, 30_000)]);
        // The same times twice: an operator that does nothing but to call another one.
        assert_eq!(of(&[op(0, 30_000), op(0, 30_000)], &[]), [(0, 30_000)]);
    }
}
