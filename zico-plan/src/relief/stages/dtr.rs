//! Dynamic tensor rematerialisation (Kirisame et al., ICLR 2021; `uwsampl/dtr-prototype`): on
//! shortage evict what has the least h, and make again on demand what has been evicted.

use alloc::vec::Vec;

use crate::relief::problem::Problem;

/// What h is; lower goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relief) enum Heuristic {
    /// (own cost + cost of the evicted neighbourhood) / (size * staleness).
    Full,
    /// The same with the neighbourhood kept by union-find, from which nothing is ever split off.
    Eq,
    /// Own cost / (size * staleness).
    Local,
    /// 1 / staleness.
    Lru,
    /// 1 / size.
    Size,
}

/// More time than this many times that of each unit once is given up.
const MOST: u64 = 4;

/// The units in the order in which they run, or `None` where it runs out of memory or of patience.
pub(in crate::relief) fn run(
    problem: &Problem,
    budget: u64,
    heuristic: Heuristic,
) -> Option<Vec<u32>> {
    let mut device = Device::new(problem, budget, heuristic);
    for stage in 0..u32::try_from(problem.units.len()).ok()? {
        device.stage = stage as usize;
        device.perform(stage)?;
        device.release(stage);
    }
    Some(device.runs)
}

struct Device<'a> {
    problem: &'a Problem,
    heuristic: Heuristic,
    budget: i64,
    stage: usize,
    here: Vec<bool>,
    made: Vec<bool>,
    locks: Vec<u32>,
    /// When each was used last, in nanoseconds of compute.
    used: Vec<u64>,
    bytes: i64,
    clock: u64,
    most: u64,
    runs: Vec<u32>,
    /// Of each stage what the program lets go of after it.
    releases: Vec<Vec<u32>>,
    /// What it has let go of and something evicted is made of that cannot be made again itself.
    pending: Vec<u32>,
    /// Units that read what has left for good: they do not run again.
    banished: Vec<bool>,
    /// Union-find over units with the cost of what is evicted.
    parent: Vec<u32>,
    cost: Vec<u64>,
    seen: Vec<u64>,
    mark: u64,
}

impl<'a> Device<'a> {
    fn new(problem: &'a Problem, budget: u64, heuristic: Heuristic) -> Self {
        let (items, units) = (problem.items.len(), problem.units.len());
        let mut releases = alloc::vec![Vec::new(); units];
        for (at, item) in (0_u32..).zip(&problem.items) {
            if !item.kept {
                releases[item.released.max(item.writer) as usize].push(at);
            }
        }
        Self {
            problem,
            heuristic,
            budget: i64::try_from(budget).unwrap_or(i64::MAX),
            stage: 0,
            here: alloc::vec![false; items],
            made: alloc::vec![false; items],
            locks: alloc::vec![0; items],
            used: alloc::vec![0; items],
            bytes: 0,
            clock: 0,
            most: problem.cost().saturating_mul(MOST),
            runs: Vec::new(),
            releases,
            pending: Vec::new(),
            banished: alloc::vec![false; units],
            parent: (0..u32::try_from(units).unwrap_or(u32::MAX)).collect(),
            cost: alloc::vec![0; units],
            seen: alloc::vec![0; units],
            mark: 0,
        }
    }

    /// Runs a unit after all that it needs. Without recursion: a chain may be as long as the
    /// iteration.
    fn perform(&mut self, unit: u32) -> Option<()> {
        let problem = self.problem;
        let mut open = alloc::vec![(unit, false)];
        while let Some((unit, ready)) = open.pop() {
            let known = &problem.units[unit as usize];
            if !ready {
                open.push((unit, true));
                for &item in &known.reads {
                    self.locks[item as usize] += 1;
                    if !self.here[item as usize] {
                        open.push((problem.items[item as usize].writer, false));
                    }
                }
                continue;
            }
            // Another that needed the same may have made it meanwhile.
            let missing = known.writes.iter().any(|&item| !self.here[item as usize]);
            if missing || known.writes.is_empty() {
                self.execute(unit)?;
            }
            known.reads.iter().for_each(|&item| self.locks[item as usize] -= 1);
        }
        Some(())
    }

    fn execute(&mut self, unit: u32) -> Option<()> {
        let known = &self.problem.units[unit as usize];
        if (unit as usize) < self.stage && (known.until as usize) < self.stage {
            return None;
        }
        known.writes.iter().for_each(|&item| self.locks[item as usize] += 1);
        let new = known.writes.iter().filter(|&&item| !self.here[item as usize]);
        let need: i64 = new.map(|&item| self.problem.items[item as usize].bytes).sum();
        while self.problem.base[2 * self.stage] + self.bytes + need > self.budget {
            self.evict()?;
        }
        self.clock += known.cost;
        if self.clock > self.most {
            return None;
        }
        for &item in &known.reads {
            self.used[item as usize] = self.clock;
        }
        for &item in &known.writes {
            let at = item as usize;
            if !self.here[at] {
                self.bytes += self.problem.items[at].bytes;
                self.here[at] = true;
                if self.made[at] {
                    let root = self.root(unit);
                    self.cost[root as usize] = self.cost[root as usize].saturating_sub(known.cost);
                    // A new set for when it is evicted again; the old one keeps its members.
                }
            }
            self.made[at] = true;
            self.used[at] = self.clock;
            self.locks[at] -= 1;
        }
        self.runs.push(unit);
        Some(())
    }

    fn root(&mut self, unit: u32) -> u32 {
        let mut at = unit;
        while self.parent[at as usize] != at {
            let up = self.parent[at as usize];
            self.parent[at as usize] = self.parent[up as usize];
            at = self.parent[at as usize];
        }
        at
    }

    fn can_go(&self, item: u32) -> bool {
        let at = item as usize;
        let unit = &self.problem.units[self.problem.items[at].writer as usize];
        self.here[at]
            && self.locks[at] == 0
            && self.problem.items[at].bytes > 0
            && !self.problem.items[at].kept
            && !self.banished[self.problem.items[at].writer as usize]
            && unit.until >= self.last(item)
    }

    /// The last stage that reads an item.
    fn last(&self, item: u32) -> u32 {
        let known = &self.problem.items[item as usize];
        known.readers.last().copied().unwrap_or(known.writer)
    }

    fn evict(&mut self) -> Option<()> {
        let count = u32::try_from(self.here.len()).ok()?;
        let mut best: Option<(f64, u32)> = None;
        for item in 0..count {
            if self.can_go(item) {
                let h = self.h(item);
                if best.is_none_or(|best| h < best.0) {
                    best = Some((h, item));
                }
            }
        }
        self.take(best?.1);
        Some(())
    }

    fn take(&mut self, item: u32) {
        let known = &self.problem.items[item as usize];
        self.here[item as usize] = false;
        self.bytes -= known.bytes;
        let writer = known.writer;
        let own = self.root(writer);
        self.cost[own as usize] += self.problem.units[writer as usize].cost;
        for neighbour in self.neighbours(writer) {
            let (one, other) = (self.root(writer), self.root(neighbour));
            if one != other {
                self.parent[other as usize] = one;
                self.cost[one as usize] += self.cost[other as usize];
            }
        }
    }

    /// The units whose evicted items a unit reads, or that have read its own and are evicted.
    fn neighbours(&self, unit: u32) -> Vec<u32> {
        let known = &self.problem.units[unit as usize];
        let gone = |item: u32| self.made[item as usize] && !self.here[item as usize];
        let mut all: Vec<u32> = Vec::new();
        for &item in known.reads.iter().filter(|&&item| gone(item)) {
            all.push(self.problem.items[item as usize].writer);
        }
        for &item in &known.writes {
            for &reader in &self.problem.items[item as usize].readers {
                if self.problem.units[reader as usize].writes.iter().any(|&item| gone(item)) {
                    all.push(reader);
                }
            }
        }
        all
    }

    fn h(&mut self, item: u32) -> f64 {
        let known = &self.problem.items[item as usize];
        let own = self.problem.units[known.writer as usize].cost;
        let (size, stale) =
            (known.bytes as f64, (1 + self.clock - self.used[item as usize]) as f64);
        match self.heuristic {
            Heuristic::Lru => 1.0 / stale,
            Heuristic::Size => 1.0 / size,
            Heuristic::Local => own as f64 / (size * stale),
            Heuristic::Eq => {
                self.mark += 1;
                let mut sum = own;
                for neighbour in self.neighbours(known.writer) {
                    let root = self.root(neighbour) as usize;
                    if core::mem::replace(&mut self.seen[root], self.mark) != self.mark {
                        sum += self.cost[root];
                    }
                }
                sum as f64 / (size * stale)
            }
            Heuristic::Full => (own + self.evicted_around(known.writer)) as f64 / (size * stale),
        }
    }

    /// The cost of all evicted units that an evicted path leads to, upwards or downwards.
    fn evicted_around(&mut self, unit: u32) -> u64 {
        let mut sum = 0;
        for up in [true, false] {
            self.mark += 1;
            let mut open = alloc::vec![unit];
            while let Some(at) = open.pop() {
                for next in self.neighbours(at) {
                    let wanted = (next < at) == up;
                    if wanted
                        && core::mem::replace(&mut self.seen[next as usize], self.mark) != self.mark
                    {
                        sum += self.problem.units[next as usize].cost;
                        open.push(next);
                    }
                }
            }
        }
        sum
    }

    /// What the program no longer names leaves at once, and can be made again where something else
    /// needs it. What cannot be made again is banished, as the paper has it: it leaves for good as
    /// soon as nothing that has been evicted, and is still read, is made of it; and what is there and
    /// was made of it cannot be made again either.
    fn release(&mut self, stage: u32) {
        let mut all = core::mem::take(&mut self.pending);
        all.append(&mut self.releases[stage as usize]);
        for item in all {
            let at = item as usize;
            if self.can_go(item) {
                self.take(item);
            } else if self.here[at] && self.is_needed_again(item, stage) {
                self.pending.push(item);
            } else if self.here[at] {
                self.here[at] = false;
                self.bytes -= self.problem.items[at].bytes;
                for &reader in &self.problem.items[at].readers {
                    self.banished[reader as usize] = true;
                }
            }
        }
    }

    /// Whether something is made of an item that has been evicted and is still read.
    fn is_needed_again(&self, item: u32, stage: u32) -> bool {
        let gone = |&item: &u32| {
            self.made[item as usize] && !self.here[item as usize] && self.last(item) > stage
        };
        let units = &self.problem.units;
        let mut readers = self.problem.items[item as usize].readers.iter();
        readers.any(|&reader| units[reader as usize].writes.iter().any(gone))
    }
}
