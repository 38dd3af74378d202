//! Checkmate's approximations as the code beside its paper makes and counts them
//! (`parasj/checkmate`, branch `mlsys20_artifact`: `solver_common.py`, `strategy_chen.py`,
//! `strategy_griewank.py`, `scheduler.py`, `experiment_budget_sweep_with_approximation.py`).
//!
//! A schedule is a table: what each stage finds of the stages before it (S); what it runs is the
//! least that follows (R). What is made backward stays for the rest of its segment, which costs
//! memory that strategies of ours do not take. Each strategy makes its plans once, for sizes of
//! segments and not for a budget; at a budget its cheapest that is not larger counts.

use std::path::Path;

use zico_plan::relief::{Graph, Link, Strategy};

use crate::ratios::best;
use crate::{Failed, data, table, verified};

/// Budgets between the least memory and where nothing has to run again: as many as there.
const BUDGETS: u64 = 32;
/// Chen's greedy rule is tried with sizes up to three times the memory of the other, by hundredths.
const SIZES: u64 = 300;

/// What a schedule needs and costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    bytes: u64,
    nanos: u64,
}

/// A graph of which each operation makes one storage.
struct Table {
    /// The operations before the loss.
    forward: usize,
    bytes: Vec<u64>,
    nanos: Vec<u64>,
    before: Vec<Vec<usize>>,
    behind: Vec<Vec<usize>>,
}

/// Of each stage, which operations.
type Stages = Vec<Vec<bool>>;

/// Prints, for each graph in a folder that says where its backward pass begins, each strategy's
/// cost over the least: the geometric mean over budgets, and the most.
pub(crate) fn print(folder: &Path, work: u64) -> Result<(), Failed> {
    let mut table = table(&["graph", "strategy", "budgets", "mean", "most"]);
    for path in data::files(folder)? {
        let graph = data::open(&path)?;
        if graph.kind(0).is_none() {
            continue;
        }
        let tabled = Table::new(&graph);
        let mut all = tabled.strategies();
        let mut known = Vec::new();
        for budget in tabled.budgets(&all) {
            if let Some(nanos) = best(&graph, budget, work)? {
                known.push(Plan { bytes: budget, nanos });
            }
        }
        all.push(("checkmate-lp", rounded(&graph, &known)?));
        for (name, plans) in &all {
            let ratio = |at: &Plan| {
                let fits = plans.iter().filter(|plan| plan.bytes <= at.bytes);
                fits.map(|plan| plan.nanos).min().map(|nanos| nanos as f64 / at.nanos as f64)
            };
            let ratios: Vec<f64> = known.iter().filter_map(ratio).collect();
            let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
            let most = ratios.iter().copied().fold(f64::NAN, f64::max);
            table.add_row([
                data::name(&path),
                (*name).to_owned(),
                format!("{}/{}", ratios.len(), known.len()),
                format!("{:.3}", mean.exp()),
                format!("{most:.3}"),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

/// Of each budget what the rounded linear program comes to, which is planned for that budget.
fn rounded(graph: &Graph, known: &[Plan]) -> Result<Vec<Plan>, Failed> {
    let link = Link::symmetric(1);
    let mut plans = Vec::new();
    for &Plan { bytes, .. } in known {
        let Some(found) = Strategy::CheckmateLp.plan(graph, &link, bytes, 0) else { continue };
        let nanos = verified(graph, &link, &found, bytes)?;
        plans.extend(nanos.map(|nanos| Plan { bytes, nanos }));
    }
    Ok(plans)
}

impl Table {
    fn new(graph: &Graph) -> Self {
        let count = graph.operations().len();
        let mut made = vec![None; graph.storages().len()];
        let mut table = Self {
            forward: graph.backward() as usize,
            bytes: vec![0; count],
            nanos: Vec::new(),
            before: vec![Vec::new(); count],
            behind: vec![Vec::new(); count],
        };
        for (at, operation) in graph.operations().iter().enumerate() {
            table.nanos.push(operation.nanos);
            for read in operation.reads.iter().filter_map(|&read| made[read as usize]) {
                table.before[at].push(read);
                table.behind[read].push(at);
            }
            for &write in &operation.writes {
                made[write as usize] = Some(at);
                table.bytes[at] += graph.storages()[write as usize].bytes;
            }
        }
        table
    }

    fn count(&self) -> usize {
        self.nanos.len()
    }

    fn strategies(&self) -> Vec<(&'static str, Vec<Plan>)> {
        let all: Vec<usize> = (0..self.forward).collect();
        let points = self.articulation();
        let root = |from: &[usize]| {
            let every = from.len().isqrt().max(1);
            let chosen: Vec<usize> = from.iter().skip(every - 1).step_by(every).copied().collect();
            self.plan(&self.segments(&chosen))
        };
        let chen = root(&all);
        let greedy = |from: &[usize]| {
            let mut tried: Vec<Vec<usize>> = Vec::new();
            for size in 0..SIZES {
                let chosen = self.greedy(from, chen.bytes / 100 * size);
                if !tried.contains(&chosen) {
                    tried.push(chosen);
                }
            }
            tried.iter().map(|chosen| self.plan(&self.segments(chosen))).collect()
        };
        vec![
            ("ap-sqrt", vec![root(&points)]),
            ("ap-greedy", greedy(&points)),
            ("chen-sqrt", vec![chen]),
            ("chen-greedy", greedy(&all)),
        ]
    }

    /// As `get_global_eval_points`: evenly from what the largest operation needs to what a plan in
    /// which nothing runs again does.
    fn budgets(&self, all: &[(&str, Vec<Plan>)]) -> Vec<u64> {
        let need = |at: usize| {
            self.bytes[at] + self.before[at].iter().map(|&read| self.bytes[read]).sum::<u64>()
        };
        let least = (0..self.count()).map(need).max().unwrap_or(0);
        let once: u64 = self.nanos.iter().sum();
        let plans = all.iter().flat_map(|(_, plans)| plans);
        let free = plans.filter(|plan| plan.nanos <= once).map(|plan| plan.bytes).min();
        let most = free.unwrap_or_else(|| self.bytes.iter().sum());
        (0..BUDGETS).map(|at| least + (most - least) / BUDGETS * at).collect()
    }

    /// The operations of the forward pass without which it falls apart.
    fn articulation(&self) -> Vec<usize> {
        let apart = |out: &usize| {
            // From the first that is left along edges either way; both ends belong to the whole.
            let mut seen = vec![false; self.forward];
            let mut open = vec![if *out == 0 { self.forward - 1 } else { 0 }];
            while let Some(at) = open.pop() {
                if at >= self.forward || at == *out || std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                open.extend(self.before[at].iter().chain(&self.behind[at]));
            }
            let left = seen.iter().filter(|seen| !**seen).count() > 1;
            left || *out == 0 || *out == self.forward - 1
        };
        (0..self.forward).filter(apart).collect()
    }

    fn greedy(&self, points: &[usize], size: u64) -> Vec<usize> {
        let mut made = 0;
        let mut chosen = Vec::new();
        for at in 0..self.forward {
            made += self.bytes[at];
            if made > size && points.binary_search(&at).is_ok() {
                made = 0;
                chosen.push(at);
            }
        }
        chosen
    }

    /// What stays with checkpoints at these: `gen_s_matrix_fixed_checkpoints`.
    fn segments(&self, checkpoints: &[usize]) -> Stages {
        let count = self.count();
        let mut stays = vec![vec![false; count]; count];
        for at in 0..count {
            for &read in &self.before[at] {
                stays[at][read] = true;
                if read >= self.forward {
                    (read + 1..=at).for_each(|stage| stays[stage][read] = true);
                }
            }
        }
        for &point in checkpoints {
            (point + 1..count).for_each(|stage| stays[stage][point] = true);
        }
        let starts = std::iter::once(0).chain(checkpoints.iter().copied());
        let ends = checkpoints.iter().copied().chain([self.forward + 1]);
        for (start, end) in starts.zip(ends) {
            for at in start..=end.min(count - 1) {
                let mirrored = count - 1 - at;
                for stage in [mirrored].into_iter().filter(|_| at < end).chain([at]) {
                    (start..end.min(stage)).for_each(|one| stays[stage][one] = true);
                }
                // The whole block of the backward pass.
                for one in (start..end.min(self.forward)).map(|one| count - 1 - one) {
                    if one < mirrored {
                        stays[mirrored][one] = true;
                    }
                }
            }
        }
        stays
    }

    /// The least that has to run (`solve_r_opt`), and the memory that takes, what is not needed any
    /// more leaving at once (`schedule_from_rs`).
    fn plan(&self, stays: &[Vec<bool>]) -> Plan {
        let count = self.count();
        let mut plan = Plan { bytes: 0, nanos: 0 };
        let mut live = vec![false; count];
        let mut held = 0;
        for stage in 0..count {
            let next = stays.get(stage + 1);
            let found = &stays[stage];
            let mut runs: Vec<bool> = (0..count)
                .map(|at| at == stage || next.is_some_and(|next| next[at] && !found[at]))
                .collect();
            for at in (0..=stage).rev().filter(|&at| at < count) {
                if runs[at] {
                    self.before[at].iter().filter(|&&read| !found[read]).for_each(|&read| {
                        runs[read] = true;
                    });
                }
            }
            let needed = |one: usize, at: usize| {
                next.is_some_and(|next| next[one])
                    || self.behind[one].iter().any(|&reader| reader > at && runs[reader])
            };
            let leave = |one: usize, at: usize, live: &mut Vec<bool>, held: &mut u64| {
                if live[one] && !needed(one, at) {
                    live[one] = false;
                    *held -= self.bytes[one];
                }
            };
            (0..count).for_each(|one| leave(one, one, &mut live, &mut held));
            for at in (0..count).filter(|&at| runs[at]) {
                if !std::mem::replace(&mut live[at], true) {
                    held += self.bytes[at];
                }
                plan.bytes = plan.bytes.max(held);
                plan.nanos += self.nanos[at];
                for &one in self.before[at].iter().chain([&at]) {
                    leave(one, at, &mut live, &mut held);
                }
            }
        }
        plan
    }
}
