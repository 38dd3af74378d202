//! The order in which a job does what its trace recorded, for as many iterations as asked for.

use std::collections::HashSet;

use zico_core::{Lifetime, Ticks};

use crate::trace::{BlockId, Iteration, Step, Trace};

/// One thing a job does.
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
#[derive(Clone, Debug)]
pub struct Program<'t> {
    trace: &'t Trace,
    /// The iteration that is played now; none during setup.
    iteration: Option<usize>,
    /// Where in the current list of steps.
    at: usize,
    begun: bool,
    /// Steps that bring the live blocks from the end of the last iteration to the start of the one
    /// that is played next, and how many have been done.
    seam: Vec<Step>,
    /// The recorded work of each iteration.
    work: Vec<Ticks>,
}

impl<'t> Program<'t> {
    /// From the beginning.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        let work = trace.stats().iterations.iter().map(|iteration| iteration.work).collect();
        Self { trace, iteration: None, at: 0, begun: false, seam: seam(trace), work }
    }

    /// What comes next: there is always something.
    #[expect(clippy::should_implement_trait, reason = "an iterator would have an end")]
    pub fn next(&mut self) -> Op {
        let Some(iteration) = self.iteration else {
            if let Some(&step) = self.trace.setup().get(self.at) {
                self.at += 1;
                return Op::Step(step);
            }
            (self.iteration, self.at) = (Some(0), 0);
            return self.next();
        };
        if !self.begun {
            self.begun = true;
            return Op::Begin { work: self.work[iteration] };
        }
        let steps = self.trace.iterations()[iteration].steps();
        let last = iteration + 1 == self.trace.iterations().len();
        let seam: &[Step] = if last { &self.seam } else { &[] };
        let step = steps.get(self.at).or_else(|| seam.get(self.at - steps.len())).copied();
        self.at += 1;
        step.map_or_else(|| self.end(iteration), Op::Step)
    }

    fn end(&mut self, iteration: usize) -> Op {
        let next = if iteration + 1 < self.trace.iterations().len() {
            iteration + 1
        } else {
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

/// Frees what the last iteration leaves behind and allocates what the next one expects.
fn seam(trace: &Trace) -> Vec<Step> {
    let steps = || trace.iterations().iter().flat_map(Iteration::steps);
    let mut live: Vec<BlockId> = trace.live_at_start(0);
    let freed: HashSet<BlockId> = steps()
        .filter_map(|step| match step {
            Step::Free { block } => Some(*block),
            _ => None,
        })
        .collect();
    live.extend(steps().filter_map(|step| match step {
        Step::Alloc { block, lifetime, .. } if *lifetime != Lifetime::Persistent => Some(*block),
        _ => None,
    }));
    live.retain(|block| !freed.contains(block));
    let expected = trace.live_at_start(repeat_from(trace));
    let frees =
        live.iter().filter(|block| !expected.contains(block)).map(|&block| Step::Free { block });
    let allocs = expected.iter().filter(|block| !live.contains(block)).filter_map(|&block| {
        let all = trace.setup().iter().chain(steps());
        all.copied().find(|step| matches!(step, Step::Alloc { block: made, .. } if *made == block))
    });
    frees.chain(allocs).collect()
}
