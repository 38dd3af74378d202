//! Jobs that carry a block over from one iteration to the next.

use zico_core::{Bytes, Lifetime};

use super::{Access, BlockId, Iteration, Phase, Step, Trace, TraceError};

impl Trace {
    /// The same job with one more block of `bytes` in each iteration, which outlives it: in the
    /// next iteration it is freed once its successor has been made. A training loop with `loss =
    /// model(batch)` does so: the old loss and its graph are freed when the name is bound to the
    /// new loss.
    ///
    /// The block is made where the first backward phase begins, or at the end of an iteration that
    /// marks none. That of the last iteration stays. The job's name and provenance are as before.
    ///
    /// # Errors
    /// If that makes no trace: `bytes` are none, or more than can be counted.
    ///
    /// ```
    /// use zico_core::Bytes;
    /// use zico_mock::bundled;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let plain = bundled::open("resnet50")?;
    /// let carrying = plain.carrying(Bytes::mib(8))?;
    /// let kept = |trace: &zico_mock::trace::Trace| trace.stats().iterations[2].live_at_start;
    /// assert_eq!(kept(&carrying), kept(&plain).saturating_add(Bytes::mib(8)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn carrying(&self, bytes: Bytes) -> Result<Self, TraceError> {
        let mut made = Made { names: Vec::with_capacity(self.blocks.len()), blocks: 0 };
        let setup = self.setup.iter().map(|&step| made.again(step)).collect();
        let mut carried = None;
        let iterations = self.iterations.iter().map(|iteration| {
            let steps = iteration.steps();
            let at = steps.iter().position(|step| *step == Step::Phase(Phase::Backward));
            let (before, after) = steps.split_at(at.unwrap_or(steps.len()));
            let mut all: Vec<Step> = before.iter().map(|&step| made.again(step)).collect();
            let block = made.block();
            all.push(Step::Alloc { block, bytes, lifetime: Lifetime::Iteration });
            all.extend(carried.replace(block).map(|block| Step::Free { block }));
            all.extend(after.iter().map(|&step| made.again(step)));
            let accesses = iteration.accesses().iter().map(|access| made.access(access)).collect();
            Iteration::new(all, iteration.recorded()).with_accesses(accesses)
        });
        let iterations = iterations.collect();
        Self::new(self.name.clone(), self.provenance.clone(), setup, iterations)
    }
}

/// Blocks, numbered anew.
struct Made {
    /// What each block of the recorded job is called now, in their order.
    names: Vec<BlockId>,
    /// How many there are, others included.
    blocks: u32,
}

impl Made {
    fn block(&mut self) -> BlockId {
        // Where there are more than can be counted, the trace is refused.
        let block = BlockId::new(self.blocks);
        self.blocks = self.blocks.saturating_add(1);
        block
    }

    fn access(&self, access: &Access) -> Access {
        let names = |all: &[BlockId]| all.iter().map(|block| self.names[block.index()]).collect();
        let (reads, writes) = (names(&access.reads), names(&access.writes));
        Access { reads, writes, ..access.clone() }
    }

    fn again(&mut self, step: Step) -> Step {
        match step {
            Step::Alloc { bytes, lifetime, .. } => {
                let block = self.block();
                self.names.push(block);
                Step::Alloc { block, bytes, lifetime }
            }
            Step::Free { block } => Step::Free { block: self.names[block.index()] },
            Step::Use { block, stream } => Step::Use { block: self.names[block.index()], stream },
            Step::Launch { .. } | Step::Phase(_) => step,
        }
    }
}
