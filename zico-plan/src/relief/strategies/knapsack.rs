//! `PyTorch`'s activation memory budget (`torch/_functorch/_activation_checkpointing/knapsack.py`,
//! `dp_knapsack`): of what is saved for the backward pass keep what takes most time to make again,
//! within a share of its bytes; the rest runs again where the backward pass reads it.
//!
//! Its model knows saved bytes only, and neither the peak of the backward pass nor chains of
//! recomputation. Here the shares are tried, and the cheapest plan that fits counts. It starts from
//! all that is saved; `PyTorch` first lets a minimum cut choose what to save.

use alloc::vec::Vec;

use super::retain::{self, Runs};
use crate::relief::problem::Problem;
use crate::relief::{Graph, Relief, Step};

/// Bytes are counted in so many parts of the whole, as there.
const PARTS: usize = 10_000;

/// The shares that are tried.
const SHARES: usize = 40;

/// The schedule, if it fits.
pub(in crate::relief) fn steps(graph: &Graph, budget: u64) -> Option<Vec<Step>> {
    let relief = Relief::new(graph);
    let problem = &relief.problem;
    let boundary = retain::boundary(graph, problem);
    let units = Saved::all(problem, boundary);
    let table = Table::new(&units);
    let runs = (0..=SHARES).map(|share| {
        let kept = table.kept(&units, PARTS * share / SHARES);
        runs(problem, boundary, &kept)
    });
    retain::cheapest(graph, budget, runs, &relief)
}

/// The runs if of what the forward pass makes only this stays, by unit.
fn runs(problem: &Problem, boundary: u32, kept: &[bool]) -> Runs {
    retain::runs(problem, &|item, stage| {
        let writer = problem.items[item as usize].writer;
        writer >= boundary
            || kept.get(writer as usize).is_none_or(|&kept| kept)
            || stage >= boundary
            || stage < retain::around(problem, item, boundary).0
    })
}

/// A unit of which something is saved.
struct Saved {
    unit: u32,
    parts: usize,
    cost: u64,
}

impl Saved {
    fn all(problem: &Problem, boundary: u32) -> Vec<Self> {
        let mut bytes = alloc::vec![0_u64; problem.units.len()];
        for item in retain::saved(problem, boundary) {
            let known = &problem.items[item as usize];
            bytes[known.writer as usize] += known.bytes.unsigned_abs();
        }
        let all: u64 = bytes.iter().sum();
        let unit = |(unit, &bytes): (u32, &u64)| {
            let parts = u128::from(bytes) * PARTS as u128;
            let parts = usize::try_from(parts.div_ceil(u128::from(all.max(1)))).unwrap_or(PARTS);
            (bytes > 0).then(|| Self { unit, parts, cost: problem.units[unit as usize].cost })
        };
        (0_u32..).zip(&bytes).filter_map(unit).collect()
    }
}

/// Of each unit and each number of parts, whether the best choice of the units up to it keeps it.
struct Table(Vec<Vec<u64>>);

impl Table {
    fn new(units: &[Saved]) -> Self {
        let mut worth = alloc::vec![0_u64; PARTS + 1];
        let row = |unit: &Saved| {
            let mut row = alloc::vec![0_u64; PARTS / 64 + 1];
            for parts in (unit.parts..=PARTS).rev() {
                let with = worth[parts - unit.parts].saturating_add(unit.cost);
                if with > worth[parts] {
                    worth[parts] = with;
                    row[parts / 64] |= 1 << (parts % 64);
                }
            }
            row
        };
        Self(units.iter().map(row).collect())
    }

    /// Which units stay within so many parts. What nobody chooses about stays.
    fn kept(&self, units: &[Saved], mut parts: usize) -> Vec<bool> {
        let last = units.last().map_or(0, |unit| unit.unit as usize + 1);
        let mut kept = alloc::vec![true; last];
        for (row, unit) in self.0.iter().zip(units).rev() {
            let keeps = row[parts / 64] >> (parts % 64) & 1 == 1;
            kept[unit.unit as usize] = keeps;
            parts -= if keeps { unit.parts } else { 0 };
        }
        kept
    }
}
