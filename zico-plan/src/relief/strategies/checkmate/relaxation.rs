//! Checkmate's program without its integers (Jain et al., `MLSys` 2020, section 4).

use alloc::vec::Vec;

use super::program::Program;
use crate::relief::problem::Problem;

/// No column: what can only be 0.
const NONE: u32 = u32::MAX;

/// The program, and which columns say what stays.
pub(in crate::relief) struct Relaxation<'p> {
    problem: &'p Problem,
    pub(in crate::relief) program: Program,
    /// Of each stage and unit, whether that runs then.
    runs: Vec<Vec<u32>>,
    /// Of each stage and item, whether that is there when the stage begins.
    stays: Vec<Vec<u32>>,
}

impl<'p> Relaxation<'p> {
    /// Within so many bytes; `None` if that is more than so many columns.
    pub(in crate::relief) fn new(problem: &'p Problem, budget: f64, most: usize) -> Option<Self> {
        let count = problem.units.len();
        if count.checked_mul(count + problem.items.len())? / 2 > most {
            return None;
        }
        let mut all =
            Self { problem, program: Program::default(), runs: Vec::new(), stays: Vec::new() };
        all.columns();
        for stage in 1..count {
            all.follow(stage);
            all.remember(stage, budget);
        }
        Some(all)
    }

    fn columns(&mut self) {
        let problem = self.problem;
        let mean = problem.cost() as f64 / problem.units.len() as f64 + 1.0;
        for stage in 0_u32..u32::try_from(problem.units.len()).unwrap_or(u32::MAX) {
            let mut runs = Vec::new();
            for unit in 0..=stage {
                let own = unit == stage && stage > 0;
                let cost = problem.units[unit as usize].cost as f64 / mean;
                let from = if own { 1.0 } else { 0.0 };
                let may = own || problem.repeats(unit, stage);
                runs.push(if may { self.program.column(cost, from, 1.0) } else { NONE });
            }
            self.runs.push(runs);
            let mut stays = Vec::new();
            for item in &problem.items {
                let last = item.readers.last().copied();
                let used = last.is_some_and(|last| last >= stage) || item.kept;
                // What is there before the first stage.
                let from = if stage == 1 { 1.0 } else { 0.0 };
                let may = item.writer < stage && used;
                stays.push(if may { self.program.column(0.0, from, 1.0) } else { NONE });
            }
            self.stays.push(stays);
        }
    }

    /// What is read has been made or is there, and what is there has been.
    fn follow(&mut self, stage: usize) {
        let problem = self.problem;
        for (unit, &run) in self.runs[stage].iter().enumerate().filter(|run| *run.1 != NONE) {
            for &item in &problem.units[unit].reads {
                let writer = problem.items[item as usize].writer as usize;
                let made = [self.runs[stage][writer], self.stays[stage][item as usize]];
                let made = made.into_iter().filter(|&column| column != NONE);
                let row = made.map(|column| (column, 1.0)).chain([(run, -1.0)]);
                self.program.row(row, 0.0, f64::INFINITY);
            }
        }
        for (item, &stay) in self.stays[stage].iter().enumerate() {
            if stay == NONE || stage == 1 {
                continue;
            }
            let writer = problem.items[item].writer as usize;
            let made = [self.runs[stage - 1][writer], self.stays[stage - 1][item]];
            let made = made.into_iter().filter(|&column| column != NONE);
            let row = made.map(|column| (column, 1.0)).chain([(stay, -1.0)]);
            self.program.row(row, 0.0, f64::INFINITY);
        }
    }

    /// The memory of a stage: what is there when it begins and what each run makes, less what runs
    /// before it have freed.
    fn remember(&mut self, stage: usize, budget: f64) {
        let problem = self.problem;
        let room = budget - problem.base[2 * stage] as f64;
        let scale = 1.0 / budget.max(1.0);
        let size = |item: u32| problem.items[item as usize].bytes as f64 * scale;
        let mut rows: Vec<Vec<(u32, f64)>> = Vec::new();
        let here = (0..).zip(&self.stays[stage]).filter(|one| *one.1 != NONE);
        let mut before: Vec<(u32, f64)> = here.map(|(item, &stay)| (stay, size(item))).collect();
        for unit in 0..=stage {
            let run = self.runs[stage][unit];
            if run == NONE {
                continue;
            }
            let made = problem.units[unit].writes.iter().map(|&item| size(item)).sum();
            before.push((run, made));
            rows.push(core::mem::take(&mut before));
            for &item in &problem.units[unit].reads {
                let freed = self.free(stage, unit, item);
                before.push((freed, -size(item)));
            }
        }
        let count = rows.len();
        for row in rows {
            self.program.row(row.into_iter(), 0.0, room * scale);
        }
        self.program.sum_up(count);
    }

    /// A column for whether a run frees what it reads: only where it takes place, nothing reads
    /// that later in the stage, and it does not stay for the next. As in the paper, the number of
    /// what stands against it is in one row (its equation 7).
    fn free(&mut self, stage: usize, unit: usize, item: u32) -> u32 {
        let free = self.program.column(0.0, 0.0, 1.0);
        let readers = &self.problem.items[item as usize].readers;
        let later = &readers[readers.partition_point(|&reader| reader as usize <= unit)..];
        let most = 2.0 + later.len() as f64;
        let in_stage = later.iter().filter(|&&reader| reader as usize <= stage);
        let runs = in_stage.map(|&reader| self.runs[stage][reader as usize]);
        let stays = self.stays.get(stage + 1).map(|stays| stays[item as usize]);
        let against = runs.chain(stays).filter(|&column| column != NONE);
        let own = [(free, most), (self.runs[stage][unit], -1.0)];
        let row = against.map(|column| (column, 1.0)).chain(own);
        self.program.row(row, f64::NEG_INFINITY, most - 1.0);
        free
    }

    /// Of each stage and item how much of it is there when the stage begins.
    pub(in crate::relief) fn stays(&self, columns: &[f64]) -> Vec<Vec<f64>> {
        let value = |&column: &u32| columns.get(column as usize).copied().unwrap_or(0.0);
        self.stays.iter().map(|stays| stays.iter().map(value).collect()).collect()
    }
}
