//! Operations: launches of which it is known what they read and write.

use std::collections::HashMap;
use std::sync::Arc;

use zico_plan::relief::{Graph, GraphError, Operation, Storage};

use super::{BlockId, Phase, Step, Trace};

/// What a launch reads and writes, so that it can be run again, or its inputs be moved away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it is, as whoever recorded it calls it; may be empty.
    pub name: Arc<str>,
    /// The blocks that it reads.
    pub reads: Vec<BlockId>,
    /// The blocks that it writes: for the first time, or in place.
    pub writes: Vec<BlockId>,
    /// It gives the same result each time: no random numbers, no communication, no effect
    /// elsewhere.
    pub repeatable: bool,
}

/// One iteration as a problem of relief.
#[derive(Clone, Debug)]
pub struct Operations {
    /// The operations and storages. Time is as recorded, in nanoseconds.
    pub graph: Graph,
    /// The block that each storage is.
    pub blocks: Vec<BlockId>,
    /// The name of each operation.
    pub names: Vec<Arc<str>>,
    /// The first operation of the backward pass, if that is marked.
    pub backward: Option<u32>,
}

/// Why an iteration is no such problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationsError {
    /// It is not known what its launches read and write: the recording has no operations, or there
    /// is no such iteration.
    #[error("it does not say what its operations read and write")]
    None,
    /// Its sums are too large.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Trace {
    /// Whether it is known of each launch of each iteration what it reads and writes.
    #[must_use]
    pub fn has_operations(&self) -> bool {
        self.iterations.iter().all(|iteration| !iteration.accesses().is_empty())
    }

    /// The operations of an iteration, counted from zero.
    ///
    /// A block is a storage if it is alive when the iteration starts, or used in it. What is alive
    /// at its start is there before; what is alive at its end stays. O(its steps and accesses).
    ///
    /// # Errors
    /// See [`OperationsError`].
    pub fn operations(&self, iteration: usize) -> Result<Operations, OperationsError> {
        let known = self.iterations.get(iteration).filter(|known| !known.accesses().is_empty());
        let known = known.ok_or(OperationsError::None)?;
        let mut made = Made::default();
        let persistent = self
            .setup
            .iter()
            .chain(self.iterations[..iteration].iter().flat_map(super::Iteration::steps));
        let persistent = persistent.filter_map(|step| match *step {
            Step::Alloc { block, lifetime: zico_core::Lifetime::Persistent, .. } => Some(block),
            _ => None,
        });
        for block in persistent.chain(self.live_at_start(iteration)) {
            made.storage(self, block, Storage::persistent);
        }
        let mut accesses = known.accesses().iter();
        for step in known.steps() {
            match *step {
                Step::Alloc { .. } | Step::Use { .. } => {}
                Step::Free { block } => made.free(block),
                Step::Phase(Phase::Backward) if made.backward.is_none() => {
                    made.backward = u32::try_from(made.operations.len()).ok();
                }
                Step::Phase(_) => {}
                Step::Launch { work } => {
                    if let Some(access) = accesses.next() {
                        made.operation(self, access, work.value());
                    }
                }
            }
        }
        let graph = Graph::new(made.storages, made.operations)?;
        Ok(Operations { graph, blocks: made.blocks, names: made.names, backward: made.backward })
    }
}

#[derive(Default)]
struct Made {
    storages: Vec<Storage>,
    blocks: Vec<BlockId>,
    of: HashMap<BlockId, u32>,
    written: Vec<bool>,
    operations: Vec<Operation>,
    names: Vec<Arc<str>>,
    backward: Option<u32>,
}

impl Made {
    fn storage(&mut self, trace: &Trace, block: BlockId, new: fn(u64) -> Storage) -> u32 {
        *self.of.entry(block).or_insert_with(|| {
            let storage = new(trace.blocks()[block.index()].bytes.value());
            self.written.push(storage.initial);
            // What is never freed stays.
            self.storages.push(Storage { kept: true, ..storage });
            self.blocks.push(block);
            u32::try_from(self.blocks.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn free(&mut self, block: BlockId) {
        if let Some(&storage) = self.of.get(&block) {
            let storage = &mut self.storages[storage as usize];
            storage.kept = false;
            storage.released =
                u32::try_from(self.operations.len()).ok().map(|at| at.saturating_sub(1));
        }
    }

    fn operation(&mut self, trace: &Trace, access: &Access, nanos: u64) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for &block in &access.reads {
            let storage = self.storage(trace, block, Storage::new);
            // What nothing has written yet has whatever contents: this makes them.
            if self.written[storage as usize] { &mut reads } else { &mut writes }.push(storage);
        }
        let written = access.writes.iter().map(|&block| self.storage(trace, block, Storage::new));
        writes.extend(written);
        writes.iter().for_each(|&storage| self.written[storage as usize] = true);
        self.operations.push(Operation { reads, writes, nanos, repeatable: access.repeatable });
        self.names.push(access.name.clone());
    }
}
