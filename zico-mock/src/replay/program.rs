//! The sequence of operations of a job: its trace, repeated for any number of iterations.

use std::collections::{BTreeSet, HashMap, HashSet};

use zico_core::{Lifetime, Ticks};

use crate::trace::{Block, BlockId, Step, Trace};

/// One operation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Asks to start an iteration.
    Begin {
        /// What its launches come to, as recorded.
        work: Ticks,
    },
    /// Does what was recorded.
    Step(Step),
    /// All work of the iteration has been enqueued.
    End,
}

/// Plays a trace without end: its setup, its iterations, and from the last iteration again the
/// second one (the first is different: it makes the optimizer's state).
///
/// What the last iteration leaves behind stands for what the second one expects, as far as the
/// sizes are the same: a loss that is replaced in each iteration stays so. Where they are not, the
/// last one frees what it leaves, and allocates what is expected. So a block may have another name
/// than in the trace once iterations are played again: two that are alive never have the same. What
/// persists is there, and is not made again.
#[derive(Clone, Debug)]
pub struct Program<'t> {
    trace: &'t Trace,
    /// The iteration that is played now; none during setup.
    iteration: Option<usize>,
    /// Where in the current list of steps.
    at: usize,
    begun: bool,
    /// All iterations have been played.
    again: bool,
    /// From the end of the last iteration to the start of the one that is played next.
    seam: Seam,
    names: Names,
    /// The recorded work of each iteration.
    work: Vec<Ticks>,
}

impl<'t> Program<'t> {
    /// From the beginning.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        let work = trace.stats().iterations.iter().map(|iteration| iteration.work).collect();
        let (seam, names) = (Seam::new(trace), Names::default());
        Self { trace, iteration: None, at: 0, begun: false, again: false, seam, names, work }
    }

    /// What comes next: there is always something.
    #[expect(clippy::should_implement_trait, reason = "an iterator would have an end")]
    pub fn next(&mut self) -> Op {
        let Some(iteration) = self.iteration else {
            if let Some(&step) = self.trace.setup().get(self.at) {
                self.at += 1;
                return Op::Step(self.names.of(self.trace, step));
            }
            (self.iteration, self.at) = (Some(0), 0);
            return self.next();
        };
        if !self.begun {
            self.begun = true;
            return Op::Begin { work: self.work[iteration] };
        }
        match self.step(iteration) {
            Some(step) => Op::Step(self.names.of(self.trace, step)),
            None => self.end(iteration),
        }
    }

    /// The next step of an iteration that is not to be left out, or of what follows the last one.
    fn step(&mut self, iteration: usize) -> Option<Step> {
        let steps = self.trace.iterations()[iteration].steps();
        let last = iteration + 1 == self.trace.iterations().len();
        let seam: &[Step] = if last { &self.seam.steps } else { &[] };
        let is_there = |step: &Step| {
            self.again && matches!(step, Step::Alloc { lifetime: Lifetime::Persistent, .. })
        };
        let mut left = steps.iter().chain(seam).skip(self.at).enumerate();
        let (skipped, &step) = left.find(|(_, step)| !is_there(step))?;
        self.at += skipped + 1;
        Some(step)
    }

    fn end(&mut self, iteration: usize) -> Op {
        let next = if iteration + 1 < self.trace.iterations().len() {
            iteration + 1
        } else {
            self.names.pass(&self.seam.heirs);
            self.again = true;
            repeat_from(self.trace)
        };
        (self.iteration, self.at, self.begun) = (Some(next), 0, false);
        Op::End
    }
}

/// The iteration that follows the last one.
fn repeat_from(trace: &Trace) -> usize {
    usize::from(trace.iterations().len() > 1)
}

/// How the blocks that are alive at the end of the last iteration become those that are expected by
/// the one that is played next.
#[derive(Clone, Debug, Default)]
struct Seam {
    /// Frees and allocations.
    steps: Vec<Step>,
    /// Blocks that stay, and which expected ones they stand for.
    heirs: Vec<(BlockId, BlockId)>,
}

impl Seam {
    fn new(trace: &Trace) -> Self {
        let mut live = trace.live_at_start(trace.iterations().len());
        let mut expected = trace.live_at_start(repeat_from(trace));
        let both: HashSet<BlockId> =
            live.iter().copied().filter(|block| expected.contains(block)).collect();
        live.retain(|block| !both.contains(block));
        expected.retain(|block| !both.contains(block));
        let mut seam = Self::default();
        let what = |block: BlockId| trace.blocks()[block.index()];
        live.retain(|&old| {
            let heir = expected.iter().position(|&new| what(new) == what(old));
            heir.inspect(|&heir| seam.heirs.push((old, expected.remove(heir)))).is_none()
        });
        seam.steps.extend(live.into_iter().map(|block| Step::Free { block }));
        seam.steps.extend(expected.into_iter().map(|block| {
            let Block { bytes, lifetime } = what(block);
            Step::Alloc { block, bytes, lifetime }
        }));
        seam
    }
}

/// What the blocks of a trace are called while it is played.
#[derive(Clone, Debug, Default)]
struct Names {
    /// Those that are alive and not called as in the trace.
    other: HashMap<BlockId, BlockId>,
    /// How these are called.
    taken: BTreeSet<BlockId>,
}

impl Names {
    /// The same step, with the name that its block has now.
    fn of(&mut self, trace: &Trace, step: Step) -> Step {
        match step {
            Step::Alloc { block, bytes, lifetime } if self.taken.contains(&block) => {
                // Beyond those of the trace and those that are taken: there are always enough.
                let blocks = u32::try_from(trace.blocks().len()).unwrap_or(u32::MAX);
                let beyond = BlockId::new(blocks);
                let free = self.taken.last().filter(|&&last| last >= beyond);
                let name = free.map_or(beyond, |last| BlockId::new(last.value().saturating_add(1)));
                self.other.insert(block, name);
                self.taken.insert(name);
                Step::Alloc { block: name, bytes, lifetime }
            }
            Step::Free { block } => {
                let name = self.other.remove(&block).unwrap_or(block);
                self.taken.remove(&name);
                Step::Free { block: name }
            }
            Step::Use { block, stream } => {
                Step::Use { block: self.other.get(&block).copied().unwrap_or(block), stream }
            }
            step => step,
        }
    }

    /// Blocks that stay stand for others from now on.
    fn pass(&mut self, heirs: &[(BlockId, BlockId)]) {
        let names: Vec<_> =
            heirs.iter().map(|&(old, new)| (new, self.other.remove(&old).unwrap_or(old))).collect();
        for (new, name) in names {
            self.taken.insert(name);
            self.other.insert(new, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use zico_core::Bytes;

    use super::*;
    use crate::trace::Iteration;
    use crate::trace::bundled;

    fn alloc(block: u32, bytes: u64) -> Step {
        let (block, lifetime) = (BlockId::new(block), Lifetime::Iteration);
        Step::Alloc { block, bytes: Bytes::new(bytes), lifetime }
    }

    fn free(block: u32) -> Step {
        Step::Free { block: BlockId::new(block) }
    }

    fn trace(setup: Vec<Step>, iterations: Vec<Vec<Step>>) -> Trace {
        let iterations = iterations.into_iter().map(|steps| Iteration::new(steps, Ticks::ZERO));
        Trace::new("job".into(), String::new(), setup, iterations.collect()).unwrap()
    }

    /// The sizes that are allocated (positive) and freed in a number of iterations. Whatever is
    /// freed is alive, and nothing that is alive is allocated.
    fn played(trace: &Trace, iterations: usize) -> Vec<Vec<i64>> {
        let (mut program, mut alive) = (Program::new(trace), HashMap::new());
        let mut all: Vec<Vec<i64>> = Vec::new();
        while all.len() <= iterations {
            let changed = match program.next() {
                Op::Begin { .. } => {
                    all.push(Vec::new());
                    continue;
                }
                Op::Step(Step::Alloc { block, bytes, .. }) => {
                    let bytes = i64::try_from(bytes.value()).unwrap();
                    assert_eq!(alive.insert(block, bytes), None, "{block} has been alive");
                    bytes
                }
                Op::Step(Step::Free { block }) => -alive.remove(&block).unwrap(),
                Op::Step(_) | Op::End => continue,
            };
            all.last_mut().into_iter().for_each(|iteration| iteration.push(changed));
        }
        all.truncate(iterations);
        all
    }

    #[test]
    fn what_is_replaced_in_each_iteration_stays_when_iterations_are_played_again() {
        // The block of 8 is a loss: the next one is made before it goes.
        let first = vec![alloc(0, 5), alloc(1, 8), free(0)];
        let second = vec![alloc(2, 5), alloc(3, 8), free(1), free(2)];
        let third = vec![alloc(4, 5), alloc(5, 8), free(3), free(4)];
        let loss = trace(vec![], vec![first.clone(), second.clone(), third]);
        let again = vec![5, 8, -8, -5];
        assert_eq!(played(&loss, 7)[1..], vec![again.clone(); 6]);
        // One iteration that is played again may meet the block that it left itself.
        let short = trace(vec![], vec![first, second]);
        assert_eq!(played(&short, 7)[1..], vec![again; 6]);
        // One recorded iteration, in which the input takes the place of the one before.
        let input = trace(vec![alloc(0, 3)], vec![vec![alloc(1, 3), free(0)]]);
        assert_eq!(played(&input, 3), vec![vec![3, -3]; 3]);
    }

    #[test]
    fn what_does_not_fit_together_is_freed_and_made_anew() {
        let first = vec![alloc(0, 1), alloc(1, 2)];
        let second = vec![free(0), alloc(2, 1), alloc(3, 7)];
        let other = trace(vec![], vec![first, second]);
        // Block 2 stands for block 0, block 1 is there all along, and block 3 makes room.
        assert_eq!(played(&other, 4)[1..], vec![vec![-1, 1, 7, -7]; 3]);
    }

    #[test]
    fn what_persists_is_made_once() {
        // The optimizer's state is there from its first step on, which is in the third iteration.
        let state = Step::Alloc {
            block: BlockId::new(3),
            bytes: Bytes::new(9),
            lifetime: Lifetime::Persistent,
        };
        let first = vec![alloc(0, 5), free(0)];
        let second = vec![alloc(1, 5), free(1)];
        let third = vec![alloc(2, 5), state, free(2)];
        let late = trace(vec![], vec![first, second, third]);
        let [plain, made] = [vec![5, -5], vec![5, 9, -5]];
        let rest = vec![plain.clone(); 4];
        assert_eq!(played(&late, 7), [vec![plain.clone(), plain, made], rest].concat());
    }

    #[test]
    fn recorded_jobs_are_played_as_they_were_recorded() {
        for name in bundled::names() {
            let trace = bundled::open(name).unwrap();
            let seam = Seam::new(&trace);
            assert!(seam.steps.is_empty() && seam.heirs.is_empty(), "{name}");
            assert_eq!(played(&trace, 5)[1..3], played(&trace, 5)[3..5], "{name}");
        }
    }
}
