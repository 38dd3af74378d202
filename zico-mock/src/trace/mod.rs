//! Traces: the use of device memory by one recorded training job.
//!
//! A [`Trace`] is the memory side of a training job with the model taken away: which blocks it
//! allocated and freed, in which order, and how long the device was busy in between. A replay of it
//! can stand for the job in experiments about memory.
//!
//! ```text
//! setup        blocks alive when the first iteration starts: parameters, buffers
//! iteration 0  Phase(Data) Alloc Launch Phase(Forward) Alloc Launch Launch Alloc Free ...
//! iteration 1  ...
//! ```
//!
//! Block ids count up from zero in the order of allocation over the whole trace, the setup first,
//! so data per block can be kept in a vector. An iteration need not free all that it allocated:
//! persistent blocks stay for good, and others may be freed in a later iteration. To run iterations
//! again after the last one, first free what is still alive and not persistent, and allocate
//! [`Trace::live_at_start`] of the iteration to go on with.
//!
//! [`mod@format`] describes the files in which traces are kept.

pub mod bundled;
mod carrying;
mod check;
pub mod format;
mod lifetimes;
mod operations;
mod stats;
mod timed;

use std::fmt;
use std::num::NonZeroU8;

use zico_core::{Bytes, Lifetime, Ticks};

pub use check::{Place, TraceError};
pub use format::ReadError;
pub use lifetimes::{GRAIN, Repeating};
pub use operations::{Access, Operations, OperationsError};
pub use stats::{IterationStats, Stats};

/// One block of memory, named by its place in the order of allocation: 0, 1, 2 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u32);

impl BlockId {
    /// The block that is allocated after `earlier` others.
    #[must_use]
    pub const fn new(earlier: u32) -> Self {
        Self(earlier)
    }

    /// How many blocks are allocated before this one.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The same, to index a table of blocks.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// The properties of a block, except when it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its size as the job asked for it, not rounded to what an allocator hands out.
    pub bytes: Bytes,
    /// How long it lives.
    pub lifetime: Lifetime,
}

/// A part of a training iteration. Only reports look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The input batch is made.
    Data,
    /// The model and its loss.
    Forward,
    /// The gradients.
    Backward,
    /// The parameters are updated.
    Optimizer,
    /// The gradients are dropped.
    ZeroGrad,
}

impl Phase {
    /// All of them, in the order in which an iteration usually has them.
    pub const ALL: [Self; 5] =
        [Self::Data, Self::Forward, Self::Backward, Self::Optimizer, Self::ZeroGrad];

    /// Its name as recordings have it: `data`, `forward`, `backward`, `optimizer`, `zero_grad`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::ZeroGrad => "zero_grad",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing the job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Allocates a block.
    Alloc {
        /// The block, new in the trace.
        block: BlockId,
        /// Its size, never zero.
        bytes: Bytes,
        /// How long it lives.
        lifetime: Lifetime,
    },
    /// Frees a block.
    Free {
        /// The block, alive until here and not persistent.
        block: BlockId,
    },
    /// Gives the device work.
    Launch {
        /// How long that took when it was recorded.
        work: Ticks,
    },
    /// Another stream of the job uses a block from here on: after all that the job's own stream
    /// has been given until now. The block's memory is used again only once that stream has passed
    /// what it has been given when the block is freed.
    Use {
        /// The block, alive.
        block: BlockId,
        /// Which of the job's other streams, from 1 on. Number 0 would be its own.
        stream: NonZeroU8,
    },
    /// The steps up to the next mark belong to this phase.
    Phase(Phase),
}

/// One iteration of training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iteration {
    steps: Vec<Step>,
    recorded: Ticks,
    accesses: Vec<Access>,
}

impl Iteration {
    /// An iteration that took `recorded` of wall time when it was recorded.
    #[must_use]
    pub const fn new(steps: Vec<Step>, recorded: Ticks) -> Self {
        Self { steps, recorded, accesses: Vec::new() }
    }

    /// The same with what each of its launches reads and writes, in their order.
    #[must_use]
    pub fn with_accesses(self, accesses: Vec<Access>) -> Self {
        Self { accesses, ..self }
    }

    /// What each launch reads and writes; nothing where that was not recorded.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// What it does, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The wall time it took when it was recorded, host work between launches included.
    #[must_use]
    pub const fn recorded(&self) -> Ticks {
        self.recorded
    }
}

/// A recorded training job. Its parts fit together: see [`Trace::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    name: String,
    provenance: String,
    setup: Vec<Step>,
    iterations: Vec<Iteration>,
    blocks: Vec<Block>,
}

impl Trace {
    /// Puts a trace together.
    ///
    /// `name` is what reports call it, `provenance` says in free text who made it from what.
    /// `setup` allocates the blocks that are alive when the first iteration starts, in program
    /// order.
    ///
    /// # Errors
    ///
    /// The first place where the steps do not make sense. There has to be an iteration. If it is
    /// known of one launch of an iteration what it reads and writes, it is of all, and these blocks
    /// are alive then. `setup` holds nothing but allocations. Block ids count up from zero in the
    /// order of allocation. No block has zero bytes. Only blocks that are alive and not persistent
    /// are freed. The bytes of all blocks and the work of all launches can each be summed up
    /// without overflow.
    pub fn new(
        name: String,
        provenance: String,
        setup: Vec<Step>,
        iterations: Vec<Iteration>,
    ) -> Result<Self, TraceError> {
        let blocks = check::blocks(&setup, &iterations)?;
        Ok(Self { name, provenance, setup, iterations, blocks })
    }

    /// What reports call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who made it from what, in free text.
    #[must_use]
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    /// The same trace under another name and with another provenance.
    #[must_use]
    pub fn described(self, name: String, provenance: String) -> Self {
        Self { name, provenance, ..self }
    }

    /// The allocations of the blocks that are alive when the first iteration starts.
    #[must_use]
    pub fn setup(&self) -> &[Step] {
        &self.setup
    }

    /// The recorded iterations: at least one.
    #[must_use]
    pub fn iterations(&self) -> &[Iteration] {
        &self.iterations
    }

    /// Every block of the trace; [`BlockId::index`] is its position.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The blocks, other than persistent ones, that are alive when `iteration` (counted from zero)
    /// starts, in the order of their allocation. With the number of iterations for `iteration`:
    /// those alive at the end. Nothing for a larger number.
    #[must_use]
    pub fn live_at_start(&self, iteration: usize) -> Vec<BlockId> {
        let Some(earlier) = self.iterations.get(..iteration) else {
            return Vec::new();
        };
        let mut alive = std::collections::BTreeSet::new();
        for step in self.setup.iter().chain(earlier.iter().flat_map(Iteration::steps)) {
            match *step {
                Step::Alloc { lifetime: Lifetime::Persistent, .. }
                | Step::Launch { .. }
                | Step::Use { .. }
                | Step::Phase(_) => {}
                Step::Alloc { block, .. } => {
                    alive.insert(block);
                }
                Step::Free { block } => {
                    alive.remove(&block);
                }
            }
        }
        alive.into_iter().collect()
    }
}
