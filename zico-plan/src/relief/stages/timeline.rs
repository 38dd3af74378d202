//! Which units run again and when, and what memory that takes: kept up to date change by change.

use alloc::vec::Vec;

use crate::relief::problem::Problem;

/// A place in a timeline: the stage, and within it the unit.
type Key = u64;

/// After the end, where what is kept is still needed.
const END: Key = Key::MAX;

fn key(stage: u32, unit: u32) -> Key {
    u64::from(stage) << 32 | u64::from(unit)
}

#[expect(clippy::cast_possible_truncation, reason = "taken apart as it was put together")]
fn parts(key: Key) -> (usize, u32) {
    ((key >> 32) as usize, key as u32)
}

/// A schedule of recomputation as runs of units.
///
/// In a stage units run again in their recorded order, and last the stage's own for the first time.
/// What is read is what the latest run of its writer has made, so any set of runs is a schedule;
/// runs differ in the memory they take. A storage is there from a run of its writer to the last
/// read before the next run.
#[derive(Clone, Debug)]
pub(in crate::relief) struct Timeline<'a> {
    pub(in crate::relief) problem: &'a Problem,
    /// Memory is counted in units of some bytes ([`Problem::unit`]); items count upwards, the
    /// budget downwards.
    sizes: Vec<i32>,
    budget: i32,
    /// What a place over the budget counts beside the units that it is over.
    fine: i32,
    /// Of each stage the units that run again, ascending.
    again: Vec<Vec<u32>>,
    /// Of each unit the stages in which it runs, ascending; the first is its own.
    runs: Vec<Vec<u32>>,
    /// Of each stage the position of its first run.
    start: Vec<u32>,
    /// The units in use during each run (even) and after it (odd).
    memory: Vec<i32>,
    /// By how much places are over the budget, summed up.
    pub(in crate::relief) excess: i64,
    /// The time of all runs.
    pub(in crate::relief) cost: u64,
    /// Steps of work done so far.
    pub(in crate::relief) work: u64,
}

impl<'a> Timeline<'a> {
    /// Nothing runs again. O(sizes).
    pub(in crate::relief) fn new(problem: &'a Problem, budget: u64) -> Self {
        let count = problem.units.len();
        let unit = problem.unit();
        let up = |bytes: i64| i32::try_from((bytes + unit - 1) / unit).unwrap_or(i32::MAX);
        let budget = i64::try_from(budget).unwrap_or(i64::MAX) / unit;
        let budget = i32::try_from(budget).unwrap_or(i32::MAX / 4).min(i32::MAX / 4);
        let stages = 0..u32::try_from(count).unwrap_or(u32::MAX);
        let mut timeline = Self {
            problem,
            sizes: problem.items.iter().map(|item| up(item.bytes)).collect(),
            budget,
            fine: budget / 64 + 1,
            again: alloc::vec![Vec::new(); count],
            runs: stages.clone().map(|stage| alloc::vec![stage]).collect(),
            start: stages.collect(),
            memory: problem.base.iter().map(|&bytes| up(bytes)).collect(),
            excess: 0,
            cost: problem.cost(),
            work: 0,
        };
        let mut change = alloc::vec![0_i32; timeline.memory.len() + 1];
        for (item, &size) in problem.items.iter().zip(&timeline.sizes) {
            let last = item.readers.last().copied().unwrap_or(item.writer);
            change[2 * item.writer as usize] += size;
            if !item.kept {
                change[2 * last as usize + 1] -= size;
            }
        }
        let mut now = 0;
        for (used, change) in timeline.memory.iter_mut().zip(change) {
            now += change;
            *used += now;
        }
        timeline.excess = timeline.memory.iter().map(|&used| timeline.over(used)).sum();
        timeline
    }

    fn over(&self, used: i32) -> i64 {
        i64::from(if used > self.budget { used - self.budget + self.fine } else { 0 })
    }

    /// The stages in which a unit runs.
    pub(in crate::relief) fn runs(&self, unit: u32) -> &[u32] {
        &self.runs[unit as usize]
    }

    /// The units that run again in a stage.
    pub(in crate::relief) fn again(&self, stage: u32) -> &[u32] {
        &self.again[stage as usize]
    }

    /// Whether a unit runs in a stage.
    pub(in crate::relief) fn has(&self, stage: u32, unit: u32) -> bool {
        self.runs[unit as usize].contains(&stage)
    }

    /// The units of memory of an item.
    pub(in crate::relief) fn size(&self, item: u32) -> i32 {
        self.sizes[item as usize]
    }

    /// How many places over the budget there are before each stage, and before the end.
    pub(in crate::relief) fn crowd(&mut self) -> Vec<u32> {
        self.work += self.memory.len() as u64;
        let mut sum = 0;
        let mut all = Vec::with_capacity(self.start.len() + 1);
        let ends = self.start.iter().skip(1).map(|&start| 2 * start as usize);
        let mut from = 0;
        for to in ends.chain([self.memory.len()]) {
            all.push(sum);
            let over = self.memory[from..to].iter().filter(|&&used| used > self.budget).count();
            sum += u32::try_from(over).unwrap_or(u32::MAX);
            from = to;
        }
        all.push(sum);
        all
    }

    /// The most bytes over the budget in each stage.
    pub(in crate::relief) fn lacks(&self) -> Vec<u64> {
        let ends = self.start.iter().skip(1).map(|&start| 2 * start as usize);
        let (unit, mut from) = (self.problem.unit(), 0);
        let most = |to: usize| {
            let most = self.memory[from..to].iter().copied().max().unwrap_or(0);
            from = to;
            let over = i64::from(most).saturating_sub(self.budget.into()).max(0);
            u64::try_from(over.saturating_mul(unit)).unwrap_or(0)
        };
        ends.chain([self.memory.len()]).map(most).collect()
    }

    /// The stage of the last use of an item before a read, of its latest version.
    pub(in crate::relief) fn last_use(&self, item: u32, stage: u32, reader: u32) -> u32 {
        let at = key(stage, reader);
        let (from, _) = self.around(self.problem.items[item as usize].writer, at);
        u32::try_from(parts(self.last_read(item, from, at).unwrap_or(from)).0).unwrap_or(u32::MAX)
    }

    /// The most units in use at a place.
    #[cfg(test)]
    pub(in crate::relief) fn peak(&self) -> i32 {
        self.memory.iter().copied().max().unwrap_or(0)
    }

    /// Twice the number of runs.
    pub(in crate::relief) fn places(&self) -> usize {
        self.memory.len()
    }

    fn position(&self, at: Key) -> usize {
        if at == END {
            return self.memory.len() / 2;
        }
        let (stage, unit) = parts(at);
        let before = self.again[stage].iter().take_while(|&&other| other < unit).count();
        self.start[stage] as usize + before
    }

    /// The latest run before a place and the first after it.
    pub(in crate::relief) fn around(&self, unit: u32, at: Key) -> (Key, Key) {
        let runs = &self.runs[unit as usize];
        let before = |&&stage: &&u32| key(stage, unit) < at;
        let next = runs.iter().take_while(before).count();
        let after = runs[next..].iter().map(|&stage| key(stage, unit)).find(|&run| run > at);
        (key(runs[next.saturating_sub(1)], unit), after.unwrap_or(END))
    }

    /// The last read of an item between two places, what is kept being read at the end.
    fn last_read(&self, item: u32, after: Key, before: Key) -> Option<Key> {
        let known = &self.problem.items[item as usize];
        if known.kept && before == END {
            return Some(END);
        }
        let mut last = 0;
        for &reader in &known.readers {
            for &stage in self.runs[reader as usize].iter().rev() {
                let at = key(stage, reader);
                if at <= after || at <= last {
                    break;
                }
                if at < before {
                    last = at;
                    break;
                }
            }
        }
        (last > 0).then_some(last)
    }

    /// Whether nothing reads what a run makes.
    pub(in crate::relief) fn useless(&self, stage: u32, unit: u32) -> bool {
        let at = key(stage, unit);
        let (_, next) = self.around(unit, at);
        let writes = &self.problem.units[unit as usize].writes;
        writes.iter().all(|&item| self.last_read(item, at, next).is_none())
    }

    /// Whether an item is on the device at a run in a stage, with no regard to what that run reads.
    pub(in crate::relief) fn is_live(&self, item: u32, stage: u32, reader: u32) -> bool {
        let (at, writer) = (key(stage, reader), self.problem.items[item as usize].writer);
        let (from, next) = self.around(writer, at);
        self.last_read(item, from, next).is_some_and(|last| last > at)
    }

    /// Adds to what is in use from one place up to another.
    fn shift(&mut self, from: usize, to: usize, by: i32) {
        /// The changes of so many places add up to less than 2^31.
        const CHUNK: usize = 64;
        let to = to.min(self.memory.len());
        if from >= to {
            return;
        }
        self.work += 8 + (to - from) as u64 / 8;
        let (budget, fine) = (self.budget, self.fine);
        let over = |used: i32| if used > budget { used - budget + fine } else { 0 };
        for chunk in self.memory[from..to].chunks_mut(CHUNK) {
            let mut change = 0;
            for used in chunk {
                change += over(*used + by) - over(*used);
                *used += by;
            }
            self.excess += i64::from(change);
        }
    }

    /// A unit runs again in a stage: a later one than its own, in which it does not run yet.
    pub(in crate::relief) fn add(&mut self, stage: u32, unit: u32) {
        let at = key(stage, unit);
        let problem = self.problem;
        let place = self.position(at);
        let before = self.memory[2 * place - 1];
        self.memory.splice(2 * place..2 * place, [before, before]);
        self.excess += 2 * self.over(before);
        self.start[stage as usize + 1..].iter_mut().for_each(|start| *start += 1);
        self.work += 16 + (self.memory.len() - 2 * place) as u64 / 16;
        let rank = place - self.start[stage as usize] as usize;
        self.again[stage as usize].insert(rank, unit);
        let (from, next) = self.around(unit, at);
        for &item in &problem.units[unit as usize].writes {
            self.split(item, [from, at, next], place, 1);
        }
        let runs = &mut self.runs[unit as usize];
        let rank = runs.iter().take_while(|&&other| other < stage).count();
        runs.insert(rank, stage);
        for &item in &problem.units[unit as usize].reads {
            self.reach(item, at, place, 1);
        }
        self.cost += problem.units[unit as usize].cost;
    }

    /// A unit no longer runs in a stage, which is not its own.
    pub(in crate::relief) fn remove(&mut self, stage: u32, unit: u32) {
        let at = key(stage, unit);
        let problem = self.problem;
        let place = self.position(at);
        for &item in &problem.units[unit as usize].reads {
            self.reach(item, at, place, -1);
        }
        self.runs[unit as usize].retain(|&other| other != stage);
        let (from, next) = self.around(unit, at);
        for &item in &problem.units[unit as usize].writes {
            self.split(item, [from, at, next], place, -1);
        }
        for used in [self.memory[2 * place], self.memory[2 * place + 1]] {
            self.excess -= self.over(used);
        }
        self.memory.drain(2 * place..2 * place + 2);
        self.start[stage as usize + 1..].iter_mut().for_each(|start| *start -= 1);
        self.work += 16 + (self.memory.len() - 2 * place) as u64 / 16;
        self.again[stage as usize].retain(|&other| other != unit);
        self.cost -= problem.units[unit as usize].cost;
    }

    /// What a run makes anew need not wait for it from its last read on (or waits again: -1).
    fn split(&mut self, item: u32, [from, at, next]: [Key; 3], place: usize, sign: i32) {
        let size = self.sizes[item as usize];
        if self.last_read(item, at, next).is_some() {
            let last = self.last_read(item, from, at).unwrap_or(from);
            let free = 2 * self.position(last) + 1;
            self.shift(free, 2 * place, -sign * size);
        } else {
            self.shift(2 * place, 2 * place + 1, sign * size);
        }
    }

    /// What a run reads has to last until it (or no longer has to: -1).
    fn reach(&mut self, item: u32, at: Key, place: usize, sign: i32) {
        let writer = self.problem.items[item as usize].writer;
        let (from, _) = self.around(writer, at);
        let (_, next) = self.around(writer, from);
        if self.last_read(item, at, next).is_some() {
            return;
        }
        let last = self.last_read(item, from, at).unwrap_or(from);
        let free = 2 * self.position(last) + 1;
        self.shift(free, 2 * place + 1, sign * self.sizes[item as usize]);
    }
}
