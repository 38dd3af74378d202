//! Detection of iterations in a recording without marks.

use std::iter::successors;

use zico_core::{Bytes, Detector};

use crate::import::recording::{Mark, Memory};

/// Iterations that follow each other, each allocating the same sizes as the one before; none if
/// there are no such two, or if they are less than half of all that is allocated.
///
/// The period and where it begins is what the detector of `zico-core` says when it has held for
/// the longest time. A job that runs can only be told what comes; of a recording the iterations
/// before that are known as well, back to the first one that has the same sizes. (The very first
/// one of a job rarely has: the optimizer makes its state in it. It is part of the setup then.)
///
/// `live` is how much is allocated when the recording begins, `end` when it ends.
pub(super) fn detect(memory: &[Memory], mut live: Bytes, end: i64) -> Vec<Mark> {
    let mut detector = Detector::new();
    let mut found = (0, None);
    // Where in `memory` the allocations are, and their sizes.
    let mut allocations = Vec::new();
    for (index, event) in memory.iter().enumerate() {
        let bytes = Bytes::new(event.bytes.unsigned_abs());
        if event.bytes < 0 {
            live = live.saturating_sub(bytes);
            continue;
        }
        detector.push(bytes, live);
        live = live.saturating_add(bytes);
        allocations.push((index, bytes));
        if let (Some(detected), Some(next)) = (detector.detected(), detector.boundary()) {
            let held = detected.repeats.saturating_mul(detected.period.into());
            if held >= found.0 {
                found = (held, Some((detected.period as usize, next)));
            }
        }
    }
    let Some((period, next)) = found.1 else { return Vec::new() };
    let sizes: Vec<Bytes> = allocations.iter().map(|&(_, bytes)| bytes).collect();
    let starts = starts(&sizes, period, next);
    if starts.len() * period * 2 < sizes.len() {
        return Vec::new();
    }
    let Some(&last) = starts.last() else { return Vec::new() };
    let after = allocations.get(last + period).map_or(memory.len(), |&(index, _)| index);
    let starts: Vec<usize> = starts.into_iter().map(|start| allocations[start].0).collect();
    marks(memory, &starts, after, end)
}

/// Marks from each of the events `starts` to the next one. The last iteration ends after as many
/// events as the one before it, and before the event `after`: what is freed beyond that is freed
/// because the job is over.
fn marks(memory: &[Memory], starts: &[usize], after: usize, end: i64) -> Vec<Mark> {
    let [.., before, last] = *starts else { return Vec::new() };
    let after = after.min(last + (last - before));
    let end = memory.get(after).map_or(end.saturating_add(1), |event| event.at);
    let starts = starts.iter().map(|&start| (memory[start].at, memory[start].record));
    let ends = starts.clone().skip(1).map(|(start, _)| start).chain([end]);
    starts.zip(ends).map(|((start, record), end)| Mark { start, end, record }).collect()
}

/// The numbers of the allocations with which iterations of `period` allocations begin, all alike:
/// those on either side of the last one that had been seen whole when the next one was said to
/// begin with allocation `next`.
fn starts(sizes: &[Bytes], period: usize, next: u64) -> Vec<usize> {
    let at = |start: usize| sizes.get(start..start.saturating_add(period));
    let alike = |a: usize, b: usize| at(a).is_some() && at(a) == at(b);
    // Two periods have repeated by then, and `next` is less than one ahead.
    let seen = usize::try_from(next).ok().and_then(|next| next.checked_sub(2 * period));
    let before =
        successors(seen, |&start| start.checked_sub(period).filter(|&before| alike(before, start)));
    let after =
        successors(seen, |&start| Some(start + period).filter(|&after| alike(start, after)));
    let mut starts: Vec<usize> = before.collect();
    starts.reverse();
    starts.extend(after.skip(1));
    starts
}
