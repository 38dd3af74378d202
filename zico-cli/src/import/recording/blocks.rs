//! The lifetime of each block of memory in a recording.

use std::collections::HashMap;

use zico_core::{Bytes, Lifetime};
use zico_mock::trace::{BlockId, Step};

use super::marks::{Marks, Timed};
use super::{Memory, RecordingError};

/// The state of a block at the end of the last iteration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Alive,
    /// Freed before the first iteration.
    Gone,
    Freed,
}

struct Block {
    bytes: Bytes,
    /// The event that allocates it, or frees it if the allocation was not recorded.
    record: u32,
    /// Whether its allocation was recorded.
    seen: bool,
    /// The iteration that allocates it; nothing before the first one.
    iteration: Option<usize>,
    fate: Fate,
}

impl Block {
    /// How long it lives, in a trace of this many iterations.
    fn lifetime(&self, iterations: usize) -> Lifetime {
        match (self.fate, self.iteration) {
            (Fate::Alive, None) => Lifetime::Persistent,
            (Fate::Alive, Some(0)) if iterations > 1 => Lifetime::Persistent,
            _ => Lifetime::Iteration,
        }
    }
}

#[derive(Clone, Copy)]
enum What {
    Alloc,
    Free,
}

/// All blocks, and what happens to them within the iterations.
pub(super) struct History {
    /// In the order in which they are first heard of.
    blocks: Vec<Block>,
    /// Moment, record and block of each allocation and free, in order of time.
    events: Vec<(i64, u32, What, usize)>,
}

impl History {
    /// Follows the memory events, which are in order of time, to the end of the last iteration.
    pub(super) fn of(memory: &[Memory], marks: &Marks) -> Result<Self, RecordingError> {
        let mut history = Self { blocks: Vec::new(), events: Vec::new() };
        // The blocks that are alive, by address.
        let mut live: HashMap<i64, usize> = HashMap::new();
        for event in memory.iter().take_while(|event| event.at < marks.end()) {
            let iteration = marks.owner(event.at);
            let (block, what) = if event.bytes > 0 {
                let block = history.alloc(event, iteration);
                if let Some(earlier) = live.insert(event.address, block) {
                    let earlier = history.blocks[earlier].record;
                    let Memory { record, address, .. } = *event;
                    return Err(RecordingError::InUse { record, address, earlier });
                }
                (block, What::Alloc)
            } else {
                let block = live.remove(&event.address);
                (history.free(event, block, iteration)?, What::Free)
            };
            if iteration.is_some() {
                history.events.push((event.at, event.record, what, block));
            }
        }
        Ok(history)
    }

    fn alloc(&mut self, event: &Memory, iteration: Option<usize>) -> usize {
        let bytes = Bytes::new(event.bytes.unsigned_abs());
        let (record, seen, fate) = (event.record, true, Fate::Alive);
        self.blocks.push(Block { bytes, record, seen, iteration, fate });
        self.blocks.len() - 1
    }

    fn free(
        &mut self,
        event: &Memory,
        block: Option<usize>,
        iteration: Option<usize>,
    ) -> Result<usize, RecordingError> {
        let index = block.unwrap_or_else(|| {
            let index = self.alloc(event, None);
            self.blocks[index].seen = false;
            index
        });
        let block = &mut self.blocks[index];
        let freed = Bytes::new(event.bytes.unsigned_abs());
        if block.bytes != freed {
            return Err(RecordingError::SizeDiffers {
                record: event.record,
                address: event.address,
                freed,
                earlier: block.record,
                allocated: block.bytes,
            });
        }
        block.fate = match iteration {
            None => Fate::Gone,
            Some(_) => Fate::Freed,
        };
        Ok(index)
    }

    /// The bytes of the blocks that are freed without having been allocated.
    pub(super) fn unseen(&self) -> Bytes {
        let unseen = self.blocks.iter().filter(|block| !block.seen);
        unseen.map(|block| block.bytes).fold(Bytes::ZERO, Bytes::saturating_add)
    }

    /// The setup, and all steps within the iterations, of which there are `iterations`. Blocks are
    /// numbered in this order. The first one is of `kept` bytes and persistent, unless it is of
    /// none.
    pub(super) fn steps(&self, iterations: usize, kept: Bytes) -> (Vec<Step>, Vec<Timed>) {
        let mut ids = vec![BlockId::new(0); self.blocks.len()];
        let first = (kept > Bytes::ZERO).then_some(Step::Alloc {
            block: BlockId::new(0),
            bytes: kept,
            lifetime: Lifetime::Persistent,
        });
        let mut next = u32::from(first.is_some());
        let mut alloc = |ids: &mut Vec<BlockId>, index: usize| {
            ids[index] = BlockId::new(next);
            next += 1; // MAX_EVENTS keeps this from overflowing.
            let Block { bytes, .. } = self.blocks[index];
            let lifetime = self.blocks[index].lifetime(iterations);
            Step::Alloc { block: ids[index], bytes, lifetime }
        };
        let mut setup: Vec<_> = (0..self.blocks.len())
            .filter(|&index| {
                let block = &self.blocks[index];
                block.iteration.is_none() && block.fate != Fate::Gone
            })
            .collect();
        // Blocks from before the recording are older than all that it saw.
        setup.sort_by_key(|&index| self.blocks[index].seen);
        let setup = setup.into_iter().map(|index| alloc(&mut ids, index));
        let setup = first.into_iter().chain(setup).collect();
        let timed = self.events.iter().map(|&(at, record, what, index)| {
            let step = match what {
                What::Alloc => alloc(&mut ids, index),
                What::Free => Step::Free { block: ids[index] },
            };
            Timed { at, record, step }
        });
        (setup, timed.collect())
    }
}
