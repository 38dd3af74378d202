//! A component, its best plan so far, and what is done next to find a lower one.

use alloc::vec::Vec;

use super::Block;
use super::exact::Exact;
use super::greedy::{self, Fit, Order};
use super::online;
use super::problem::Component;
use super::settle::Settled;
use super::skyline::{self, Taste};
use super::squeaky::Wheel;
use super::work::{Work, sorting};

/// More blocks than this are not placed by orders, which takes the square of their number.
const ORDERED: usize = 4096;
/// How many fast plans learn from those before them.
const TURNS_OF_THE_WHEEL: usize = 40;
/// What a fast plan may take, in steps for each block and binary digit of their number. An
/// iteration that has been recorded takes 7; one of random lifetimes 13, or more where ten
/// thousands of blocks live at once.
const FAST: u64 = 128;
/// What the first of them may take where there is no work for it.
const FIRST: u64 = 32;
/// There are no more fast plans.
const OVER: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct Part {
    pub(super) component: Component,
    /// The best plan: none before the first has been made.
    pub(super) best: Vec<u64>,
    pub(super) height: u64,
    /// There is no plan below this: the bound, or more where the search has shown it.
    pub(super) least: u64,
    /// How many of the fast plans have been made.
    fast: usize,
    wheel: Wheel,
    /// Those of the fast plans whose regions are measured.
    settled: Option<Settled>,
    exact: Option<Exact>,
    /// Nothing more can be done.
    stuck: bool,
}

/// What may be done for a lower plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// Fast plans. One that has been begun ends with the work at the latest.
    Fast,
    /// Fast plans, each of which may end once it has been begun, and then the search. Whether
    /// somebody `asked` for the height to be reached.
    All { asked: bool },
}

impl Part {
    pub(super) fn new(component: Component) -> Self {
        Self {
            best: Vec::new(),
            height: u64::MAX,
            least: component.bound,
            fast: 0,
            wheel: Wheel::new(component.len()),
            settled: None,
            exact: None,
            stuck: false,
            component,
        }
    }

    /// What one fast plan may take.
    pub(super) fn allowance(&self) -> u64 {
        sorting(self.component.len()).saturating_mul(FAST)
    }

    /// The same with these means.
    fn within(&self, means: Means, work: &Work) -> u64 {
        match means {
            Means::Fast => self.allowance().min(work.left()),
            Means::All { .. } => self.allowance(),
        }
    }

    /// Makes the first plan, whatever work is left. Where that takes too long, blocks are placed
    /// one after the other as they come: O(n log n).
    pub(super) fn start(&mut self, work: &mut Work) {
        let n = self.component.len();
        if self.best.is_empty() && self.next_fast(sorting(n).saturating_mul(FIRST), work).is_none()
        {
            // With work there may be one after all.
            self.fast = 0;
            work.count(online::steps(n));
            self.keep(online::plan(&self.component));
        }
    }

    /// Whether work could bring it down to `goal`.
    pub(super) fn can_improve(&self, goal: u64) -> bool {
        self.height > goal.max(self.least) && !self.stuck
    }

    /// The next thing to do for a plan of at most `goal`, with these means.
    pub(super) fn improve(&mut self, goal: u64, means: Means, work: &mut Work) {
        if self.next_fast(self.within(means, work), work).is_some() {
            return;
        }
        let Means::All { asked } = means else { return self.stuck = true };
        if self.exact.is_none() {
            self.exact = Exact::new(&self.component, work);
        }
        let Some(exact) = &mut self.exact else { return self.stuck = true };
        let goal = goal.max(self.least);
        let found = exact.search(&self.component, self.height, goal, asked, work);
        self.least = self.least.max(found.least);
        if let Some(offsets) = found.plan {
            self.keep(offsets);
        }
    }

    /// Makes the next fast plan, within an allowance of steps. Nothing if there are no more of
    /// them: if one takes too long, so will the others.
    pub(super) fn next_fast(&mut self, allowance: u64, work: &mut Work) -> Option<()> {
        let which = self.fast;
        let mut steps = Work::new(allowance);
        let made = if which == OVER { None } else { self.make(which, &mut steps) };
        work.count(steps.spent());
        let Some(offsets) = made else {
            self.fast = OVER;
            return None;
        };
        self.fast += 1;
        if let Some(settled) = self.settled.as_mut().filter(|_| which < Taste::ALL.len()) {
            settled.add(&self.component, offsets.clone());
        }
        self.keep(offsets);
        Some(())
    }

    #[cfg(test)]
    pub(super) const fn has_searched(&self) -> bool {
        self.exact.is_some()
    }

    fn make(&mut self, which: usize, work: &mut Work) -> Option<Vec<u64>> {
        let c = &self.component;
        if let Some(&taste) = Taste::ALL.get(which) {
            return skyline::plan(c, taste, &alloc::vec![1; c.len()], work);
        }
        let which = which.checked_sub(Taste::ALL.len())?;
        if which < TURNS_OF_THE_WHEEL {
            return self.wheel.turn(c, work);
        }
        let fit = *[Fit::First, Fit::Best].get(which - TURNS_OF_THE_WHEEL)?;
        if c.len() > ORDERED {
            return None;
        }
        work.spend(sorting(c.len()))?;
        greedy::plan(c, &greedy::order(c, Order::Size), fit, work)
    }

    fn keep(&mut self, offsets: Vec<u64>) {
        let height = self.component.height(&offsets);
        if height < self.height {
            (self.best, self.height) = (offsets, height);
        }
    }
}

/// The preference for plans whose regions empty early.
impl Part {
    /// From now on fast plans are kept to be measured.
    pub(super) fn prefer(&mut self, region: u64) {
        if self.settled.as_ref().is_none_or(|settled| settled.region() != region) {
            self.settled = Some(Settled::new(region));
        }
    }

    /// Makes those fast plans that are measured, as far as there is work.
    pub(super) fn all_tastes(&mut self, means: Means, work: &mut Work) {
        while let Some(kept) = self.settled.as_ref().map(Settled::len)
            && kept < Taste::ALL.len()
            && self.fast != OVER
            && work.left() > 0
        {
            let allowance = self.within(means, work);
            if kept >= self.fast {
                if self.next_fast(allowance, work).is_none() {
                    return;
                }
                continue;
            }
            // It has been made, before it was to be kept.
            let mut steps = Work::new(allowance);
            let made = self.make(kept, &mut steps);
            work.count(steps.spent());
            let Some((offsets, settled)) = made.zip(self.settled.as_mut()) else { return };
            settled.add(&self.component, offsets);
        }
    }

    /// The best plan, or one up to `height` that has fewer regions in use over time.
    pub(super) fn chosen(&mut self, blocks: &[Block], height: u64, work: &mut Work) -> Vec<u64> {
        match &mut self.settled {
            Some(settled) => settled.choose(&self.component, blocks, &self.best, height, work),
            None => self.best.clone(),
        }
    }
}
