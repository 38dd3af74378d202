//! Validation of the steps of a trace.

use std::fmt;

use zico_core::{Bytes, Lifetime, Ticks};

use super::{Access, Block, BlockId, Iteration, Step};

/// The position of a step in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The iteration, counted from zero; nothing for the setup.
    pub iteration: Option<usize>,
    /// The step in it, counted from zero.
    pub step: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.iteration {
            Some(iteration) => write!(f, "step {} of iteration {iteration}", self.step),
            None => write!(f, "step {} of the setup", self.step),
        }
    }
}

/// Why steps do not form a trace. Iterations and steps are counted from zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is no iteration.
    #[error("a trace needs at least one iteration")]
    NoIterations,
    /// The setup does something else than to allocate.
    #[error("{place}: the setup holds nothing but allocations")]
    NotAnAllocation {
        /// The step that is not an allocation.
        place: Place,
    },
    /// An id is taken, or one was left out.
    #[error("{place}: {found} is allocated where {expected} is next: ids count up from 0")]
    OutOfOrder {
        /// The allocation.
        place: Place,
        /// The id that is next.
        expected: BlockId,
        /// The id it has.
        found: BlockId,
    },
    /// A block has no bytes.
    #[error("{place}: {block} has zero bytes")]
    ZeroBytes {
        /// The allocation.
        place: Place,
        /// The block.
        block: BlockId,
    },
    /// A block is freed that is not alive.
    #[error(
        "{place}: {block} is freed but was {}",
        if *.before { "freed before" } else { "never allocated" }
    )]
    NotAlive {
        /// The free.
        place: Place,
        /// The block.
        block: BlockId,
        /// Whether it was alive before.
        before: bool,
    },
    /// A persistent block is freed.
    #[error("{place}: {block} is persistent and cannot be freed")]
    PersistentFreed {
        /// The free.
        place: Place,
        /// The block.
        block: BlockId,
    },
    /// It is known of some launches what they read and write, and not of others.
    #[error("iteration {iteration} has {launches} launches and says of {accesses} what they use")]
    Accesses {
        /// The iteration.
        iteration: usize,
        /// Its launches.
        launches: usize,
        /// Of how many it is known.
        accesses: usize,
    },
    /// A launch or another stream uses a block that is not alive.
    #[error("{place}: {block} is used and not alive")]
    UsesDead {
        /// The launch or the use.
        place: Place,
        /// The block.
        block: BlockId,
    },
    /// A sum over the trace cannot be represented.
    #[error("{place}: {what} add up to more than can be counted")]
    Overflow {
        /// The step that is too much.
        place: Place,
        /// What is summed up.
        what: &'static str,
    },
}

/// The blocks of a trace with these parts, if they make sense.
pub(super) fn blocks(setup: &[Step], iterations: &[Iteration]) -> Result<Vec<Block>, TraceError> {
    if iterations.is_empty() {
        return Err(TraceError::NoIterations);
    }
    let mut checker = Checker::default();
    for (step, what) in setup.iter().enumerate() {
        let place = Place { iteration: None, step };
        if !matches!(what, Step::Alloc { .. }) {
            return Err(TraceError::NotAnAllocation { place });
        }
        checker.step(place, what)?;
    }
    for (number, iteration) in iterations.iter().enumerate() {
        checker.iteration(number, iteration)?;
    }
    Ok(checker.blocks)
}

#[derive(Default)]
struct Checker {
    blocks: Vec<Block>,
    /// For each block: whether it is alive.
    alive: Vec<bool>,
    /// Bytes of all blocks so far. More than are ever alive at once, so no sum of live bytes can
    /// overflow either.
    bytes: Bytes,
    work: Ticks,
}

impl Checker {
    fn iteration(&mut self, number: usize, iteration: &Iteration) -> Result<(), TraceError> {
        let mut accesses = iteration.accesses().iter();
        let mut launches = 0;
        for (step, what) in iteration.steps().iter().enumerate() {
            let place = Place { iteration: Some(number), step };
            self.step(place, what)?;
            if matches!(what, Step::Launch { .. }) {
                launches += 1;
                self.used(place, accesses.next())?;
            }
        }
        let accesses = iteration.accesses().len();
        if accesses != 0 && accesses != launches {
            return Err(TraceError::Accesses { iteration: number, launches, accesses });
        }
        Ok(())
    }

    /// What a launch uses is alive.
    fn used(&self, place: Place, access: Option<&Access>) -> Result<(), TraceError> {
        let mut used = access.into_iter().flat_map(|one| one.reads.iter().chain(&one.writes));
        used.try_for_each(|&block| self.alive(place, block))
    }

    fn alive(&self, place: Place, block: BlockId) -> Result<(), TraceError> {
        let alive = self.alive.get(block.index()).is_some_and(|&alive| alive);
        if alive { Ok(()) } else { Err(TraceError::UsesDead { place, block }) }
    }

    fn step(&mut self, place: Place, step: &Step) -> Result<(), TraceError> {
        match *step {
            Step::Alloc { block, bytes, lifetime } => {
                self.alloc(place, block, Block { bytes, lifetime })
            }
            Step::Free { block } => self.free(place, block),
            Step::Launch { work } => {
                let sum = self.work.checked_add(work);
                self.work = sum.ok_or(TraceError::Overflow { place, what: "launches" })?;
                Ok(())
            }
            Step::Use { block, .. } => self.alive(place, block),
            Step::Phase(_) => Ok(()),
        }
    }

    fn alloc(&mut self, place: Place, id: BlockId, block: Block) -> Result<(), TraceError> {
        let next = u32::try_from(self.blocks.len());
        let expected = next.map_err(|_| TraceError::Overflow { place, what: "blocks" })?;
        if id.value() != expected {
            let expected = BlockId::new(expected);
            return Err(TraceError::OutOfOrder { place, expected, found: id });
        }
        if block.bytes.is_zero() {
            return Err(TraceError::ZeroBytes { place, block: id });
        }
        let sum = self.bytes.checked_add(block.bytes);
        self.bytes = sum.ok_or(TraceError::Overflow { place, what: "bytes" })?;
        self.blocks.push(block);
        self.alive.push(true);
        Ok(())
    }

    fn free(&mut self, place: Place, id: BlockId) -> Result<(), TraceError> {
        match self.alive.get_mut(id.index()) {
            Some(alive) if *alive => *alive = false,
            other => {
                let before = other.is_some();
                return Err(TraceError::NotAlive { place, block: id, before });
            }
        }
        match self.blocks[id.index()].lifetime {
            Lifetime::Persistent => Err(TraceError::PersistentFreed { place, block: id }),
            Lifetime::Iteration => Ok(()),
        }
    }
}
