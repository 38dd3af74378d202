//! The planner.

use alloc::vec::Vec;

use super::part::Part;
use super::problem::Component;
use super::{Block, PlanError};

/// Offsets for all blocks, and how good they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The offset of each block, in the order in which they were given.
    pub offsets: Vec<u64>,
    /// The end of the highest block.
    pub height: u64,
    /// The largest sum of the bytes alive at one moment.
    pub lower_bound: u64,
    /// No plan is lower than this: the lower bound, or more where the search has shown it.
    pub least: u64,
    /// Whether no plan is lower than this one.
    pub proven: bool,
    /// The steps that the planner has taken so far.
    pub work: u64,
}

impl Plan {
    /// The height over the lower bound: 1 at best, and also where nothing is to be placed.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.lower_bound == 0 { 1.0 } else { self.height as f64 / self.lower_bound as f64 }
    }
}

/// Plans blocks. See the [module](super).
#[derive(Debug)]
pub struct Planner {
    parts: Vec<Part>,
    blocks: Vec<Block>,
    capacity: Option<u64>,
    regions: Option<u64>,
    budget: u64,
    spent: u64,
}

impl Planner {
    /// The work of a run unless told otherwise: of the order of a second.
    pub const WORK: u64 = 1 << 20;

    /// A planner of these blocks, with a first plan: O(n log n) for lifetimes as iterations have them.
    ///
    /// # Errors
    /// A lifetime ends before it begins ([`PlanError::Backwards`]), an alignment is zero
    /// ([`PlanError::Unaligned`]), or sizes and alignments come to more than 64 bits
    /// ([`PlanError::TooLarge`]), or the number of blocks to more than 32 ([`PlanError::TooMany`]).
    pub fn new(blocks: &[Block]) -> Result<Self, PlanError> {
        super::validate(blocks)?;
        Ok(Self {
            parts: Component::all(blocks).into_iter().map(Part::new).collect(),
            blocks: blocks.to_vec(),
            capacity: None,
            regions: None,
            budget: Self::WORK,
            spent: 0,
        })
    }

    /// Stop as soon as the height is at most this, or known never to be. Without it the planner goes
    /// for the least height.
    #[must_use]
    pub const fn capacity(mut self, capacity: Option<u64>) -> Self {
        self.capacity = capacity;
        self
    }

    /// How many steps each [run](Self::run) may take. A step tries one block at one place, of the order of
    /// a microsecond. A run may take a few more to end a fast plan that it has begun.
    #[must_use]
    pub const fn work(mut self, steps: u64) -> Self {
        self.budget = steps;
        self
    }

    /// Among plans of one height prefer the one that has fewer regions of this size in use over time
    /// ([`super::Extent`]): all fast plans are made and measured, right way up and upside down.
    #[must_use]
    pub const fn regions(mut self, size: Option<u64>) -> Self {
        self.regions = size;
        self
    }

    /// Works, or goes on working, and gives the best plan so far.
    pub fn run(&mut self) -> Plan {
        if self.regions.is_some() {
            self.parts.iter_mut().for_each(Part::all_tastes);
        }
        let mut work = self.budget;
        while work > 0 {
            let least = self.parts.iter().map(|part| part.least).max().unwrap_or(0);
            if self.capacity.is_some_and(|capacity| capacity < least) {
                break;
            }
            // What stays below the highest part anyway need not be lower.
            let goal = self.capacity.unwrap_or(0).max(least);
            let open = self.parts.iter_mut().filter(|part| part.can_improve(goal));
            let Some(part) = open.max_by_key(|part| part.height) else { break };
            part.improve(goal, self.capacity.is_some(), &mut work);
        }
        self.spent = self.spent.saturating_add(self.budget - work);
        self.plan()
    }

    fn plan(&self) -> Plan {
        let most = |value: fn(&Part) -> u64| self.parts.iter().map(value).max().unwrap_or(0);
        let (height, lower_bound) = (most(|part| part.height), most(|part| part.bound));
        let least = most(|part| part.least);
        let mut offsets = alloc::vec![0; self.blocks.len()];
        for part in &self.parts {
            let settled = self.regions.map(|region| part.settled(&self.blocks, region, height));
            let placed = settled.as_ref().unwrap_or(&part.best);
            for (&id, &offset) in part.component.ids.iter().zip(placed) {
                offsets[id as usize] = offset;
            }
        }
        Plan { offsets, height, lower_bound, least, proven: height == least, work: self.spent }
    }
}
