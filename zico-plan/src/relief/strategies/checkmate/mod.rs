//! Checkmate's approximation by its linear program (Jain et al., `MLSys` 2020, sections 4 and 5;
//! `parasj/checkmate`, `strategy_approx_lp.py`, `solver_common.py`).
//!
//! The program is solved without its integers, for 0.9 of the budget, so that what rounding adds
//! fits. Then two phases: what stays after each stage is rounded, by each of nine thresholds; and
//! what has to run again follows from that. The cheapest that fits counts.

pub(in crate::relief) mod program;
pub(in crate::relief) mod relaxation;

use alloc::vec::Vec;

use super::retain;
use crate::relief::{Graph, Relief, Step};
use relaxation::Relaxation;

/// The program is solved for this part of the budget.
const PART: f64 = 0.9;
/// As exactly as there, where it says "approximate".
const TOLERANCE: f64 = 1e-3;
/// Larger programs are not tried: n (n + m) / 2 columns for n operations and m storages.
const COLUMNS: usize = 1 << 18;
/// Steps of work: one for two entries of the matrix.
const WORK: u64 = 1 << 32;

/// The schedule, if it fits.
pub(in crate::relief) fn steps(graph: &Graph, budget: u64) -> Option<Vec<Step>> {
    let relief = Relief::new(graph);
    let problem = &relief.problem;
    let fixed = problem.base.iter().copied().min().unwrap_or(0) as f64;
    let part = fixed + (budget as f64 - fixed) * PART;
    let relaxation = Relaxation::new(problem, part, COLUMNS)?;
    let solved = relaxation.program.solve(TOLERANCE, WORK);
    if solved.bound > relaxation.program.most() * (1.0 + 1e-6) {
        return None;
    }
    let stays = relaxation.stays(&solved.columns);
    let rounded = (1_u32..10).map(|tenths| {
        let threshold = f64::from(tenths) / 10.0;
        retain::runs(problem, &|item, stage| {
            let next = stays.get(stage as usize + 1).and_then(|stays| stays.get(item as usize));
            next.is_some_and(|&part| part >= threshold)
        })
    });
    retain::cheapest(graph, budget, rounded, &relief)
}
