//! Our planner of recomputation: simulated annealing on timelines.

use alloc::vec::Vec;

use crate::relief::crowd::Crowd;
use crate::relief::problem::Problem;
use crate::relief::random::Random;
use crate::relief::timeline::Timeline;

/// A change of a timeline that can be undone.
#[derive(Clone, Copy, Debug)]
pub(in crate::relief) enum Change {
    Added(u32, u32),
    Removed(u32, u32),
}

/// Runs again: stage and unit.
pub(in crate::relief) type Runs = Vec<(u32, u32)>;

/// Looks for the runs that take the least time within a budget.
#[derive(Debug)]
pub(in crate::relief) struct Search<'a> {
    pub(in crate::relief) timeline: Timeline<'a>,
    pub(in crate::relief) random: Random,
    pub(in crate::relief) changes: Vec<Change>,
    /// Items by chance: each as often as it is large, and each at least now and then.
    pub(in crate::relief) chances: Vec<(u64, u32)>,
    /// Of each read of these items, in their order, the price from which on leaving before it is
    /// tried in an ascent.
    pub(in crate::relief) patience: Vec<f64>,
    /// What a byte over the budget costs at one place, in nanoseconds.
    pub(in crate::relief) price: f64,
    /// The price at which the first plan fitted.
    pub(in crate::relief) usual: f64,
    /// How many turns of improving there have been.
    pub(in crate::relief) turns: usize,
    pub(in crate::relief) best: Option<(u64, Runs)>,
    pub(in crate::relief) crowd: Crowd,
    /// Where the first plan does not fit: the bytes over the budget in each stage.
    pub(in crate::relief) lacks: Vec<u64>,
}

/// How to choose what else is made when something is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relief) enum Taste {
    Chance,
    Greedy,
}

impl<'a> Search<'a> {
    pub(in crate::relief) fn new(problem: &'a Problem, budget: u64) -> Self {
        let timeline = Timeline::new(problem, budget);
        let mut sum = 0;
        let candidates: Vec<u32> = (0_u32..)
            .zip(&problem.items)
            .filter(|(_, item)| {
                item.bytes > 0
                    && problem.units[item.writer as usize].until > item.writer
                    && (!item.readers.is_empty() || item.kept)
            })
            .map(|(at, _)| at)
            .collect();
        let all: i64 = candidates.iter().map(|&at| problem.items[at as usize].bytes).sum();
        let least = u64::try_from(all).unwrap_or(0) / (4 * candidates.len().max(1) as u64) + 1;
        let chance = |at: u32| {
            sum += problem.items[at as usize].bytes.unsigned_abs() + least;
            (sum, at)
        };
        let reads = candidates.iter().map(|&at| problem.items[at as usize].readers.len()).sum();
        let chances = candidates.into_iter().map(chance).collect();
        let price =
            if timeline.excess > 0 { timeline.cost as f64 / timeline.excess as f64 } else { 0.0 };
        let mut search = Self {
            timeline,
            random: Random::new(1),
            changes: Vec::new(),
            chances,
            patience: alloc::vec![0.0; reads],
            price,
            usual: price,
            turns: 0,
            best: None,
            crowd: Crowd::default(),
            lacks: Vec::new(),
        };
        search.note();
        search
    }

    /// The runs again of the timeline.
    pub(in crate::relief) fn runs(&self) -> Runs {
        let stages = 0..u32::try_from(self.timeline.problem.units.len()).unwrap_or(u32::MAX);
        stages
            .flat_map(|stage| self.timeline.again(stage).iter().map(move |&unit| (stage, unit)))
            .collect()
    }

    /// Keeps the timeline if it is the best that fits.
    pub(in crate::relief) fn note(&mut self) {
        let cost = self.timeline.cost;
        if self.timeline.excess == 0 && self.best.as_ref().is_none_or(|best| cost < best.0) {
            self.best = Some((cost, self.runs()));
        }
    }

    fn add(&mut self, stage: u32, unit: u32) {
        self.timeline.add(stage, unit);
        self.changes.push(Change::Added(stage, unit));
    }

    fn remove(&mut self, stage: u32, unit: u32) {
        self.timeline.remove(stage, unit);
        self.changes.push(Change::Removed(stage, unit));
    }

    /// Where the changes up to now end.
    pub(in crate::relief) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Takes back the changes since a mark.
    pub(in crate::relief) fn undo(&mut self, mark: usize) {
        while self.changes.len() > mark {
            let Some(change) = self.changes.pop() else { return };
            match change {
                Change::Added(stage, unit) => self.timeline.remove(stage, unit),
                Change::Removed(stage, unit) => self.timeline.add(stage, unit),
            }
        }
    }

    pub(in crate::relief) fn value(&self) -> f64 {
        self.timeline.cost as f64 + self.price * self.timeline.excess as f64
    }

    /// Goes back to the best runs so far.
    pub(in crate::relief) fn restore(&mut self) {
        let Some((_, best)) = self.best.clone() else { return };
        for (stage, unit) in self.runs() {
            if best.binary_search(&(stage, unit)).is_err() {
                self.timeline.remove(stage, unit);
            }
        }
        for (stage, unit) in best {
            if !self.timeline.has(stage, unit) {
                self.timeline.add(stage, unit);
            }
        }
    }

    /// Anneals for so much work from a temperature down to a 256th of it, in nanoseconds.
    pub(in crate::relief) fn anneal(&mut self, hot: f64, work: u64) {
        const LEVELS: u64 = 64;
        let mut heat = hot;
        let begin = self.timeline.work;
        for level in 1..=LEVELS {
            let until = begin + work / LEVELS * level;
            let (mut fit, mut seen) = (0_u32, 0_u32);
            while self.timeline.work < until {
                self.turn(heat);
                self.changes.clear();
                self.note();
                fit += u32::from(self.timeline.excess == 0);
                seen += 1;
                if seen == 128 {
                    // A third of the timelines should fit.
                    if fit < 24 {
                        self.price *= 1.06;
                    } else if fit > 64 {
                        self.price *= 0.95;
                    }
                    (fit, seen) = (0, 0);
                }
            }
            heat *= 0.917_004_043_204_671_2;
        }
    }

    fn turn(&mut self, heat: f64) {
        self.timeline.work += 32;
        let (mark, before) = (self.mark(), self.value());
        match self.random.below(16) {
            0..5 => self.release(),
            5..9 => self.retain(),
            9..13 => self.move_run(),
            _ => {
                self.retain();
                self.release();
            }
        }
        let most = before + heat * self.random.exponential();
        self.settle(mark, most);
    }

    /// Takes back the changes since a mark if the value is more than this.
    pub(in crate::relief) fn settle(&mut self, mark: usize, most: f64) {
        if self.value() > most {
            self.undo(mark);
        }
    }

    /// An item that can be made again, by chance.
    fn item(&mut self) -> Option<u32> {
        let all = self.chances.last()?.0;
        let at = self.random.below(usize::try_from(all).unwrap_or(usize::MAX)) as u64;
        let index = self.chances.partition_point(|&(sum, _)| sum <= at);
        self.chances.get(index).map(|&(_, item)| item)
    }

    /// A run again, by chance: stage and unit.
    fn any_run(&mut self) -> Option<(u32, u32)> {
        for _ in 0..64 {
            let item = self.item()?;
            let unit = self.timeline.problem.items[item as usize].writer;
            let runs = self.timeline.runs(unit);
            if runs.len() > 1 {
                let at = 1 + self.random.below(runs.len() - 1);
                return Some((self.timeline.runs(unit)[at], unit));
            }
        }
        None
    }

    /// A stage in which an item is read.
    fn reading(&mut self, item: u32) -> Option<u32> {
        let known = &self.timeline.problem.items[item as usize];
        let reader = *known.readers.get(self.random.below(known.readers.len()))?;
        let runs = self.timeline.runs(reader);
        let at = self.random.below(runs.len());
        Some(self.timeline.runs(reader)[at])
    }

    /// An item leaves before a read and is made again for it.
    fn release(&mut self) {
        let Some(item) = self.item() else { return };
        let Some(stage) = self.reading(item) else { return };
        let unit = self.timeline.problem.items[item as usize].writer;
        if self.may_run(stage, unit) {
            self.make(stage, unit, 0, Taste::Chance);
        }
    }

    /// Whether a unit can run again in a stage, and does not yet.
    pub(in crate::relief) fn may_run(&self, stage: u32, unit: u32) -> bool {
        self.timeline.problem.repeats(unit, stage) && !self.timeline.has(stage, unit)
    }

    /// A unit runs again, and before it, by chance, what makes what it reads.
    pub(in crate::relief) fn make(&mut self, stage: u32, unit: u32, depth: u32, taste: Taste) {
        let problem = self.timeline.problem;
        for &item in &problem.units[unit as usize].reads {
            let writer = problem.items[item as usize].writer;
            if depth > 32
                || !self.may_run(stage, writer)
                || self.timeline.is_live(item, stage, unit)
            {
                continue;
            }
            let later = self.timeline.runs(writer).iter().copied().find(|&run| run > stage);
            match later {
                Some(later) if taste == Taste::Greedy || self.random.chance(200) => {
                    self.remove(later, writer);
                    self.make(stage, writer, depth + 1, taste);
                }
                _ if self.remakes(item, stage, unit, taste) => {
                    self.make(stage, writer, depth + 1, taste);
                }
                _ => {}
            }
        }
        if !self.timeline.has(stage, unit) {
            self.add(stage, unit);
        }
    }

    /// Whether what a run reads is made again for it, or else stays until then.
    fn remakes(&mut self, item: u32, stage: u32, reader: u32, taste: Taste) -> bool {
        if taste == Taste::Chance {
            return self.random.chance(128);
        }
        let problem = self.timeline.problem;
        let writer = problem.items[item as usize].writer;
        (problem.units[writer as usize].cost as f64) < self.worth(item, stage, reader)
    }

    /// A run again is left out, and with it those that only it needed.
    fn retain(&mut self) {
        if let Some((stage, unit)) = self.any_run() {
            self.leave_out(stage, unit);
        }
    }

    pub(in crate::relief) fn leave_out(&mut self, stage: u32, unit: u32) {
        self.remove(stage, unit);
        let problem = self.timeline.problem;
        for &item in &problem.units[unit as usize].reads {
            let writer = problem.items[item as usize].writer;
            if writer != stage
                && self.timeline.has(stage, writer)
                && self.timeline.useless(stage, writer)
            {
                self.leave_out(stage, writer);
            }
        }
    }

    /// A run again takes place in another stage.
    fn move_run(&mut self) {
        let Some((stage, unit)) = self.any_run() else { return };
        let writes = &self.timeline.problem.units[unit as usize].writes;
        let Some(&item) = writes.get(self.random.below(writes.len())) else { return };
        let Some(to) = self.reading(item) else { return };
        if to == stage || !self.timeline.problem.repeats(unit, to) || self.timeline.has(to, unit) {
            return;
        }
        self.leave_out(stage, unit);
        self.make(to, unit, 0, Taste::Chance);
    }
}
