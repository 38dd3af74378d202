//! The planner.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use super::part::{Means, Part};
use super::problem::Component;
use super::work::Work;
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

/// Plans blocks. See the [crate](crate).
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
    pub const WORK: u64 = 3 << 29;

    /// A planner of these blocks. O(n log n).
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

    /// Stop as soon as the height is at most this, or known never to be. Without it the planner
    /// goes for the least height.
    #[must_use]
    pub const fn capacity(mut self, capacity: Option<u64>) -> Self {
        self.capacity = capacity;
        self
    }

    /// How many steps each [run](Self::run) may take. A step is one turn of an inner loop, of the
    /// order of a nanosecond, whatever the size of the problem.
    ///
    /// A run takes more than these to end what it has begun, which for n blocks is one of these:
    ///
    /// * the first plan, which the first run makes in any case: 40 n log2 n at most. It is a fast
    ///   plan or, where that takes longer, blocks are placed as they come;
    /// * any other fast plan: 128 n log2 n at most, or it is given up, and with it all that are
    ///   left;
    /// * one block tried in the exact search, and what that refutes: at most 2^22 to look for
    ///   reasons, and else about as many as there are blocks and no-goods;
    /// * measuring the plans that are new, with [`Self::regions`]: 170 n log2 n at most.
    #[must_use]
    pub const fn work(mut self, steps: u64) -> Self {
        self.budget = steps;
        self
    }

    /// Among plans of one height prefer the one that has fewer regions of this size in use over
    /// time ([`Extent`](crate::Extent)): fast plans are measured, right way up and upside down, as
    /// many as there is work for.
    #[must_use]
    pub const fn regions(mut self, size: Option<u64>) -> Self {
        self.regions = size;
        self
    }

    /// Works, or goes on working, and gives the best plan so far.
    pub fn run(&mut self) -> Plan {
        let mut work = Work::new(self.budget);
        let means = Means::All { asked: self.capacity.is_some() };
        self.prepare();
        self.parts.iter_mut().for_each(|part| part.start(&mut work));
        self.improve(means, &mut work);
        self.plan(work)
    }

    /// The best of the fast plans that can be made within some work; `None` if none can. There is
    /// no exact search. Measuring regions, where [`Self::regions`] asks for it, comes on top.
    pub fn fast(&mut self, mut work: Work) -> Option<Plan> {
        self.prepare();
        for part in &mut self.parts {
            if part.best.is_empty() {
                part.next_fast(part.allowance().min(work.left()), &mut work)?;
            }
        }
        self.improve(Means::Fast, &mut work);
        Some(self.plan(work))
    }

    /// The first fast plan alone; `None` if it takes more than 40 n log2 n steps.
    pub fn first(&mut self) -> Option<Plan> {
        let mut work = Work::new(0);
        for part in &mut self.parts {
            part.next_fast(part.allowance(), &mut work)?;
        }
        Some(self.plan(work))
    }

    /// Whether the exact search has begun.
    #[cfg(test)]
    pub(crate) fn has_searched(&self) -> bool {
        self.parts.iter().any(Part::has_searched)
    }

    fn prepare(&mut self) {
        if let Some(region) = self.regions {
            self.parts.iter_mut().for_each(|part| part.prefer(region));
        }
    }

    /// All parts have a plan by now.
    fn improve(&mut self, means: Means, work: &mut Work) {
        self.parts.iter_mut().for_each(|part| part.all_tastes(means, work));
        let mut least = self.most(|part| part.least);
        // The highest in front.
        let mut open: BinaryHeap<(u64, usize)> =
            self.parts.iter().enumerate().map(|(which, part)| (part.height, which)).collect();
        while work.left() > 0 && self.capacity.is_none_or(|capacity| capacity >= least) {
            // What stays below the highest part anyway need not be lower.
            let goal = self.capacity.unwrap_or(0).max(least);
            let Some((_, which)) = open.pop() else { break };
            let part = &mut self.parts[which];
            // The goal only rises: a part that has reached it is done.
            if part.can_improve(goal) {
                part.improve(goal, means, work);
                least = least.max(part.least);
                open.push((part.height, which));
            }
        }
    }

    fn most(&self, value: impl Fn(&Part) -> u64) -> u64 {
        self.parts.iter().map(value).max().unwrap_or(0)
    }

    fn plan(&mut self, mut work: Work) -> Plan {
        let (height, least) = (self.most(|part| part.height), self.most(|part| part.least));
        let lower_bound = self.most(|part| part.component.bound);
        let mut offsets = alloc::vec![0; self.blocks.len()];
        for part in &mut self.parts {
            let placed = part.chosen(&self.blocks, height, &mut work);
            for (&id, offset) in part.component.ids.iter().zip(placed) {
                offsets[id as usize] = offset;
            }
        }
        self.spent = self.spent.saturating_add(work.spent());
        Plan { offsets, height, lower_bound, least, proven: height == least, work: self.spent }
    }
}
