//! A first plan by a rising price of memory.

use crate::relief::crowd::Crowd;
use crate::relief::search::{Search, Taste};

/// What would be worth it at a price is tried again from this part of it on: until then other
/// changes may have made it cheaper.
const EARLY: f64 = 0.7;

/// After so many steps of work the price rises faster: about 30 milliseconds.
const PATIENT: u64 = 1 << 24;

impl Search<'_> {
    /// Raises the price of memory step by step, by a factor each time. At each price, storages
    /// leave before reads where the bytes that they free in places over the budget are worth more
    /// than making them again. What leaves at a low price is what frees most for its time. Ends
    /// when all fits, when so much work is done, or at a price at which one place over the budget
    /// costs more than everything. The longer it takes, the faster the price rises.
    pub(in crate::relief) fn ascend(&mut self, from: f64, factor: f64, work: u64) {
        let begin = self.timeline.work;
        let until = begin.saturating_add(work);
        let all = self.timeline.cost as f64;
        self.price = from;
        self.patience.fill(0.0);
        while self.timeline.excess > 0 && self.price < all && self.timeline.work < until {
            self.sweep();
            let hurry = 1 + (self.timeline.work - begin) / PATIENT;
            (0..hurry.min(4)).for_each(|_| self.price *= factor);
        }
        self.trim();
    }

    /// Sees which places are over the budget.
    pub(in crate::relief) fn look(&mut self) {
        self.crowd = Crowd::new(self.timeline.crowd());
    }

    /// Each read of each item once, but for those that were tried in vain at a price that was far
    /// too low.
    fn sweep(&mut self) {
        self.look();
        let count = self.chances.len();
        let mut first = 0;
        for at in 0..count {
            let item = self.chances[at].1;
            let problem = self.timeline.problem;
            self.timeline.work += 8;
            let readers = &problem.items[item as usize].readers;
            for (pair, &reader) in (first..).zip(readers) {
                if self.price < self.patience[pair] {
                    continue;
                }
                let mut next = f64::INFINITY;
                for run in 0..self.timeline.runs(reader).len() {
                    let Some(&stage) = self.timeline.runs(reader).get(run) else { break };
                    if self.timeline.excess == 0 {
                        return;
                    }
                    next = next.min(self.attempt(item, stage, reader));
                }
                self.patience[pair] = if next < f64::INFINITY { next * EARLY } else { 0.0 };
            }
            first += readers.len();
        }
    }

    /// An item leaves before a read, if that is worth it. Otherwise the price from which on it
    /// would be; infinite where that is not known.
    fn attempt(&mut self, item: u32, stage: u32, reader: u32) -> f64 {
        let problem = self.timeline.problem;
        let unit = problem.items[item as usize].writer;
        let own = problem.units[unit as usize].cost as f64;
        if own >= self.worth(item, stage, reader) || !self.may_run(stage, unit) {
            return f64::INFINITY;
        }
        let (mark, before) = (self.mark(), self.value());
        let (cost, excess) = (self.timeline.cost, self.timeline.excess);
        self.make(stage, unit, 0, Taste::Greedy);
        if self.value() <= before {
            return 0.0;
        }
        let (spent, freed) =
            (self.timeline.cost as f64 - cost as f64, excess - self.timeline.excess);
        self.undo(mark);
        if freed > 0 { spent / freed as f64 } else { self.price * 4.0 }
    }

    /// What leaving before a read is worth at most.
    pub(in crate::relief) fn worth(&self, item: u32, stage: u32, reader: u32) -> f64 {
        let since = self.timeline.last_use(item, stage, reader);
        let places = self.crowd.between(since, stage);
        f64::from(places) * f64::from(self.timeline.size(item)) * self.price
    }

    /// Leaves out what need not run again, the longest first.
    pub(in crate::relief) fn trim(&mut self) {
        if self.timeline.excess > 0 {
            return;
        }
        let units = &self.timeline.problem.units;
        let mut runs = self.runs();
        runs.sort_by_key(|&(stage, unit)| {
            (core::cmp::Reverse(units[unit as usize].cost), stage, unit)
        });
        for (stage, unit) in runs {
            if self.timeline.has(stage, unit) {
                let mark = self.mark();
                self.leave_out(stage, unit);
                if self.timeline.excess > 0 {
                    self.undo(mark);
                }
            }
        }
    }
}
