//! What an [`AutoJob`] finds of the iterations of a recorded job that does not mark them.

use std::collections::HashMap;
use std::error::Error;

use zico_core::{AutoJob, Block, Bytes, Pool, PoolConfig, Request};
use zico_mock::replay::{Op, Program};
use zico_mock::trace::{BlockId, Step, Trace};
use zico_mock::{MockConfig, MockDevice};

/// What was found, of so many recorded iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The recorded iterations.
    pub iterations: usize,
    /// Allocations in one of them.
    pub allocations: usize,
    /// How many had begun when the first was found: from there on counts what follows.
    pub after: Option<usize>,
    /// Those found to begin with the allocation with which they do ...
    pub exact: usize,
    /// ... and with another one.
    pub shifted: usize,
    /// How many allocations that is away at most.
    pub farthest: usize,
    /// Those not found to begin at all.
    pub missed: usize,
    /// Where one was found to begin that does not.
    pub wrong: usize,
}

/// Takes a job through its recording and on, told nothing but sizes, and compares where iterations
/// were found to begin with where they do: by the number of the allocation. Nothing is launched.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn found(trace: &Trace, iterations: usize) -> Result<Found, Box<dyn Error>> {
    let spare = Bytes::new((4 * trace.stats().peak.value()).next_multiple_of(2 << 20));
    let pool = Pool::new(MockDevice::new(MockConfig::new(spare))?, PoolConfig::new(spare))?;
    let job = AutoJob::new(pool.join(trace.name(), pool.device().add_stream())?);
    let mut blocks: HashMap<BlockId, Block> = HashMap::new();
    let mut program = Program::new(trace);
    // Where iterations begin, and where they were found to: after so many allocations.
    let (mut begun, mut found, mut made) = (Vec::new(), Vec::new(), 0);
    let mut ended = 0;
    while begun.len() <= iterations {
        match program.next() {
            Op::Begin { .. } => begun.push(made),
            Op::Step(Step::Alloc { block, bytes, .. }) => {
                blocks.insert(block, job.alloc(Request::learned(bytes))?);
                let now = job.job().snapshot().iterations;
                if now != ended {
                    found.push(made);
                }
                (ended, made) = (now, made + 1);
            }
            Op::Step(Step::Free { block }) => {
                if let Some(block) = blocks.remove(&block) {
                    job.free(block)?;
                }
                pool.poll()?;
            }
            Op::Step(Step::Launch { .. } | Step::Use { .. } | Step::Phase(_)) | Op::End => {}
        }
    }
    Ok(compared(&begun, &found))
}

/// Each that was found belongs to the beginning that is nearest, if no other does that is nearer.
fn compared(begun: &[usize], found: &[usize]) -> Found {
    let iterations = begun.len() - 1;
    let allocations = (begun[iterations] - begun[0]) / iterations;
    let mut all = Found { iterations, allocations, ..Found::default() };
    let Some(&first) = found.first() else {
        return Found { missed: iterations, ..all };
    };
    let distance = |at: usize, begin: usize| at.abs_diff(begin);
    let nearest = |at: usize| (0..begun.len()).min_by_key(|&i| distance(at, begun[i])).unwrap_or(0);
    let from = nearest(first);
    all.after = Some(from);
    let mut best: Vec<Option<usize>> = vec![None; begun.len()];
    for &at in found {
        let (i, far) = (nearest(at), distance(at, begun[nearest(at)]));
        all.wrong += usize::from(best[i].is_some());
        best[i] = Some(best[i].map_or(far, |other| other.min(far)));
    }
    // The last one has begun as this ended.
    for far in &best[from..iterations] {
        match far {
            Some(0) => all.exact += 1,
            Some(far) => (all.shifted, all.farthest) = (all.shifted + 1, all.farthest.max(*far)),
            None => all.missed += 1,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_compared_with_what_is() {
        let begun = [10, 110, 210, 310, 410];
        let all = Found { iterations: 4, allocations: 100, ..Found::default() };
        assert_eq!(compared(&begun, &[]), Found { missed: 4, ..all });
        let found = Found { after: Some(1), exact: 3, ..all };
        assert_eq!(compared(&begun, &[110, 210, 310]), found);
        let found = Found { after: Some(2), exact: 1, shifted: 1, farthest: 5, wrong: 1, ..all };
        assert_eq!(compared(&begun, &[205, 250, 310]), found);
        let found = Found { after: Some(1), exact: 2, missed: 1, ..all };
        assert_eq!(compared(&begun, &[110, 310]), found);
    }
}
