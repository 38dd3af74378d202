//! A first plan by a rising price of memory.

use crate::relief::crowd::Crowd;
use crate::relief::search::{Search, Taste};

impl Search<'_> {
    /// Raises the price of memory step by step, by a factor each time. At each price, storages
    /// leave before reads where the bytes that they free in places over the budget are worth more
    /// than making them again. What leaves at a low price is what frees most for its time. Ends
    /// when all fits, when so much work is done, or at a price at which one place over the budget
    /// costs more than everything.
    pub(in crate::relief) fn ascend(&mut self, from: f64, factor: f64, work: u64) {
        let until = self.timeline.work.saturating_add(work);
        let all = self.timeline.cost as f64;
        self.price = from;
        while self.timeline.excess > 0 && self.price < all && self.timeline.work < until {
            self.sweep();
            self.price *= factor;
        }
        self.trim();
    }

    /// Sees which places are over the budget.
    pub(in crate::relief) fn look(&mut self) {
        self.crowd = Crowd::new(self.timeline.crowd());
    }

    /// Each read of each item once.
    fn sweep(&mut self) {
        self.look();
        let count = self.chances.len();
        for at in 0..count {
            let item = self.chances[at].1;
            let problem = self.timeline.problem;
            let unit = problem.items[item as usize].writer;
            let (readers, cost) =
                (&problem.items[item as usize].readers, problem.units[unit as usize].cost);
            self.timeline.work += 8;
            for &reader in readers {
                for run in 0..self.timeline.runs(reader).len() {
                    let Some(&stage) = self.timeline.runs(reader).get(run) else { break };
                    if self.timeline.excess == 0 {
                        return;
                    }
                    let worth = self.worth(item, stage, reader);
                    if cost as f64 >= worth || !self.may_run(stage, unit) {
                        continue;
                    }
                    let (mark, before) = (self.mark(), self.value());
                    self.make(stage, unit, 0, Taste::Greedy);
                    self.settle(mark, before);
                }
            }
        }
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
