//! Improving a plan: parts of it are taken out and made anew.

use alloc::vec::Vec;

use crate::relief::dtr::{self, Heuristic};
use crate::relief::search::Search;

impl Search<'_> {
    /// The first plan, or as near to the budget as it comes.
    pub(in crate::relief) fn first(&mut self, work: u64) {
        if self.timeline.excess > 0 {
            let price = self.timeline.cost as f64 / self.timeline.excess as f64 / 256.0;
            self.ascend(price, 1.25, work);
            self.usual = self.price;
            self.lacks = if self.timeline.excess > 0 { self.timeline.lacks() } else { Vec::new() };
        }
        self.changes.clear();
        self.note();
    }

    /// Begins with the runs that DTR comes to, where the first plan does not fit and they do.
    pub(in crate::relief) fn first_online(&mut self, budget: u64) {
        for heuristic in [Heuristic::Eq, Heuristic::Full] {
            if self.best.is_some() {
                return;
            }
            let units = dtr::run(self.timeline.problem, budget, heuristic);
            self.adopt(&units.unwrap_or_default());
            self.trim();
            self.changes.clear();
            self.note();
        }
    }

    /// Takes over an order of runs. What runs twice within a stage does so once.
    fn adopt(&mut self, units: &[u32]) {
        for (stage, unit) in self.runs() {
            self.timeline.remove(stage, unit);
        }
        let mut stage = 0;
        let mut again = Vec::new();
        for &unit in units {
            if unit < stage {
                again.push(unit);
                continue;
            }
            stage = unit + 1;
            for other in again.drain(..) {
                if self.may_run(unit, other) {
                    self.timeline.add(unit, other);
                }
            }
        }
    }

    /// Works on for so many steps, by turns in two ways, each time from the best plan and for
    /// longer: simulated annealing (Kirkpatrick, Gelatt and Vecchi, Science 1983), and large
    /// neighbourhood search (Shaw, CP 1998), where some runs are left out and the price of memory
    /// rises again until all fits. Ends sooner after so many turns in a row that found nothing.
    pub(in crate::relief) fn improve(&mut self, work: u64, in_vain: usize) {
        /// In times of a unit; 0 stands for the other way.
        const HEATS: [f64; 6] = [0.0, 0.3, 3.0, 0.0, 0.1, 1.0];
        let problem = self.timeline.problem;
        let until = self.timeline.work.saturating_add(work);
        let mean = problem.cost() as f64 / problem.units.len() as f64;
        let least = problem.cost();
        let mut gained = self.turns;
        while self.timeline.work < until
            && self.turns - gained < in_vain
            && self.best.as_ref().is_none_or(|best| best.0 > least)
        {
            let before = self.best.as_ref().map(|best| best.0);
            let heat = HEATS[self.turns % HEATS.len()];
            let growth = 1 << (self.turns / 3).min(20);
            let slice = (self.timeline.places() as u64 * 4096).saturating_mul(growth);
            let slice = slice.min(until - self.timeline.work);
            self.turns += 1;
            self.timeline.work += 64;
            if self.best.is_none() {
                self.force(mean, slice);
            } else if heat > 0.0 {
                self.price = self.usual;
                self.anneal(heat * mean, slice);
            } else {
                let end = self.timeline.work + slice;
                while self.timeline.work < end {
                    self.timeline.work += 64;
                    self.round(until.saturating_sub(self.timeline.work));
                }
            }
            self.restore();
            if self.best.as_ref().map(|best| best.0) != before {
                gained = self.turns;
            }
        }
    }

    /// Looks for any plan that fits, at prices that rise.
    fn force(&mut self, mean: f64, work: u64) {
        self.price = self.price.max(self.usual / 16.0);
        self.anneal(mean, work);
        self.ascend(self.price / 16.0, 1.25, work);
        self.changes.clear();
        self.note();
        self.usual = self.usual.max(self.price);
    }

    /// One round of leaving out and making anew.
    fn round(&mut self, work: u64) {
        let before = self.timeline.cost;
        self.ruin();
        if self.timeline.excess > 0 {
            let factor = 1.05 + 0.05 * self.random.below(12) as f64;
            let start = [4.0, 16.0, 64.0][self.random.below(3)];
            self.ascend(self.usual / start, factor, work);
        }
        if self.timeline.excess > 0 || self.timeline.cost > before {
            self.undo(0);
            return;
        }
        self.changes.clear();
        self.note();
    }

    /// Leaves out runs: in one part of the iteration, or here and there.
    fn ruin(&mut self) {
        let runs = self.runs();
        if runs.is_empty() {
            return;
        }
        let (centre_stage, centre) = runs[self.random.below(runs.len())];
        let span = 2_u32 << self.random.below(7);
        let kind = self.random.below(3);
        let share = 8 + 24 * self.random.below(4) as u64;
        for (stage, unit) in runs {
            let out = match kind {
                0 => self.random.chance(share),
                1 => unit.abs_diff(centre) < span,
                _ => stage.abs_diff(centre_stage) < span,
            };
            if out && self.timeline.has(stage, unit) {
                self.leave_out(stage, unit);
            }
        }
    }
}
