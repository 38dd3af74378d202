//! The blocks of an iteration that repeats, as input of a planner.

use zico_core::{Bytes, Lifetime};
use zico_plan::Block as Planned;

use super::{BlockId, Step, Trace};

/// Sizes are rounded up to this, to which every CUDA allocator aligns.
pub const GRAIN: Bytes = Bytes::new(512);

/// What one iteration that repeats for ever needs, from [`Trace::repeating`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeating {
    /// The blocks. Their time is the number of allocations and frees since the iteration began.
    pub blocks: Vec<Planned>,
    /// For each of them which block of the trace it is for; a slot that a block takes in every
    /// other iteration has the block that takes it in the recorded one, or will in the next.
    pub ids: Vec<BlockId>,
    /// The bytes of the persistent blocks by then, which are no part of the plan: they never move,
    /// so they lie side by side.
    pub persistent: Bytes,
}

impl Trace {
    /// The blocks of the last recorded iteration, taken as one that repeats.
    ///
    /// A block that outlives the iteration has, at the beginning of the next, a predecessor of the
    /// same size that is still alive; so it gets two slots for the whole iteration, which it and
    /// its predecessor take in turn (SmartPool, Zhang et al., arXiv 1903.06631). Blocks that are
    /// carried in beyond those keep a slot from the beginning until they are freed.
    #[must_use]
    pub fn repeating(&self) -> Repeating {
        let last = self.iterations.len() - 1;
        let (carried_in, carried_out) = (self.live_at_start(last), self.live_at_start(last + 1));
        let bytes = |id: BlockId| grains(self.blocks[id.index()].bytes);
        let mut lower = vec![0; self.blocks.len()];
        let mut upper = vec![None; self.blocks.len()];
        let mut own: Vec<BlockId> = Vec::new();
        let mut now: u64 = 0;
        for step in self.iterations[last].steps() {
            match *step {
                Step::Alloc { lifetime: Lifetime::Persistent, .. }
                | Step::Launch { .. }
                | Step::Use { .. }
                | Step::Phase(_) => continue,
                Step::Alloc { block, .. } => {
                    lower[block.index()] = now;
                    own.push(block);
                }
                Step::Free { block } => upper[block.index()] = Some(now),
            }
            now += 1;
        }
        let mut all =
            Repeating { blocks: Vec::new(), ids: Vec::new(), persistent: self.persistent() };
        let mut add = |id: BlockId, lower: u64, upper: u64| {
            all.blocks.push(Planned::new(lower, upper, bytes(id)));
            all.ids.push(id);
        };
        for &id in &own {
            if let Some(upper) = upper[id.index()] {
                add(id, lower[id.index()], upper);
            }
        }
        let mut slots: Vec<u64> = Vec::new();
        for id in carried_out {
            for _ in 0..2 {
                add(id, 0, now);
            }
            slots.push(bytes(id));
        }
        for id in carried_in {
            if let Some(taken) = slots.iter().position(|&slot| slot == bytes(id)) {
                slots.swap_remove(taken);
            } else {
                add(id, 0, upper[id.index()].unwrap_or(now));
            }
        }
        all
    }

    fn persistent(&self) -> Bytes {
        let persistent = self.blocks.iter().filter(|block| block.lifetime == Lifetime::Persistent);
        Bytes::new(persistent.map(|block| grains(block.bytes)).sum())
    }
}

fn grains(bytes: Bytes) -> u64 {
    bytes.value().next_multiple_of(GRAIN.value())
}

#[cfg(test)]
mod tests {
    use zico_core::Ticks;

    use super::*;
    use crate::trace::Iteration;

    fn alloc(block: u32, bytes: u64, lifetime: Lifetime) -> Step {
        Step::Alloc { block: BlockId::new(block), bytes: Bytes::new(bytes), lifetime }
    }

    fn free(block: u32) -> Step {
        Step::Free { block: BlockId::new(block) }
    }

    #[test]
    fn a_block_that_outlives_the_iteration_has_two_slots() {
        let setup = vec![alloc(0, 1000, Lifetime::Persistent)];
        let first = vec![
            alloc(1, 600, Lifetime::Iteration),
            alloc(2, 100, Lifetime::Iteration),
            alloc(3, 5000, Lifetime::Iteration),
        ];
        let second = vec![
            alloc(4, 512, Lifetime::Iteration),
            free(1),
            free(4),
            free(3),
            alloc(5, 1024, Lifetime::Iteration),
        ];
        let iterations = [first, second].map(|steps| Iteration::new(steps, Ticks::ZERO)).into();
        let trace =
            Trace::new("job".into(), String::new(), setup, iterations).expect("makes sense");
        let all = trace.repeating();
        let wanted = [
            // Within the iteration.
            (4, Planned::new(0, 2, 512)),
            // Carried out: block 2, which is not freed, and block 5, which takes turns with block
            // 1.
            (2, Planned::new(0, 5, 512)),
            (2, Planned::new(0, 5, 512)),
            (5, Planned::new(0, 5, 1024)),
            (5, Planned::new(0, 5, 1024)),
            // Carried in, and nothing comes in its place.
            (3, Planned::new(0, 3, 5120)),
        ];
        let got: Vec<(u32, Planned)> =
            all.ids.iter().map(|id| id.value()).zip(all.blocks.iter().copied()).collect();
        assert_eq!(got, wanted);
        assert_eq!(all.persistent, Bytes::new(1024));
    }
}
