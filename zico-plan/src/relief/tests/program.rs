//! Linear programs by first-order steps beside a simplex method.

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, microlp, variable};

use super::*;
use crate::relief::strategies::checkmate::program::Program;
use crate::relief::strategies::checkmate::relaxation::Relaxation;

/// Entries, and the least and the most that they come to.
type Row = (Vec<(u32, f64)>, f64, f64);

/// Columns of a cost, and rows with limits on either side; some rows are summed up.
struct Drawn {
    costs: Vec<f64>,
    rows: Vec<Row>,
    summed: usize,
}

/// Rows that a point within the ranges of the columns keeps to.
fn drawn(seed: u64) -> Drawn {
    let mut random = fastrand::Rng::with_seed(seed);
    let (count, summed) = (random.usize(4..12), random.usize(0..4));
    let point: Vec<f64> = (0..count).map(|_| random.f64()).collect();
    let costs = (0..count).map(|_| random.f64() * 10.0 - 3.0).collect();
    let mut rows = Vec::new();
    let mut sum = 0.0;
    for at in 0..8 {
        let columns = (0_u32..).zip(&point).filter(|_| random.bool()).collect::<Vec<_>>();
        let entries: Vec<(u32, f64)> =
            columns.iter().map(|one| (one.0, random.f64() * 4.0 - 1.0)).collect();
        let own: f64 = entries.iter().map(|&(column, value)| value * point[column as usize]).sum();
        sum += own;
        let value = if at >= 8 - summed { sum } else { own };
        sum = if at >= 8 - summed { sum } else { 0.0 };
        let high = if random.bool() { value + random.f64() } else { f64::INFINITY };
        let low = if random.bool() { value - random.f64() / 4.0 } else { f64::NEG_INFINITY };
        rows.push((entries, low, high));
    }
    Drawn { costs, rows, summed }
}

fn simplex(drawn: &Drawn) -> f64 {
    let mut all = ProblemVariables::new();
    let columns: Vec<_> = drawn.costs.iter().map(|_| all.add(variable().min(0).max(1))).collect();
    let cost: Expression =
        columns.iter().zip(&drawn.costs).map(|(&column, &cost)| cost * column).sum();
    let mut model = all.minimise(cost.clone()).using(microlp);
    let mut sum = Expression::from(0);
    for (at, (entries, low, high)) in drawn.rows.iter().enumerate() {
        let row: Expression =
            entries.iter().map(|&(column, value)| value * columns[column as usize]).sum();
        sum = if at > drawn.rows.len() - drawn.summed { sum + row } else { row };
        if low.is_finite() {
            model = model.with(sum.clone().geq(*low));
        }
        if high.is_finite() {
            model = model.with(sum.clone().leq(*high));
        }
    }
    let solution = model.solve().expect("a point keeps to all of it");
    solution.eval(cost)
}

#[test]
fn first_order_steps_come_to_what_a_simplex_method_finds() {
    for seed in 0..200 {
        let drawn = drawn(seed);
        let mut program = Program::default();
        for &cost in &drawn.costs {
            program.column(cost, 0.0, 1.0);
        }
        for (entries, low, high) in &drawn.rows {
            program.row(entries.iter().copied(), *low, *high);
        }
        program.sum_up(drawn.summed);
        let solved = program.solve(1e-6, 1 << 24);
        let exact = simplex(&drawn);
        assert!(solved.off < 1e-4, "{seed}: {}", solved.off);
        assert!((solved.cost - exact).abs() < 1e-3, "{seed}: {} {exact}", solved.cost);
        assert!(solved.bound <= exact + 1e-6, "{seed}: {} {exact}", solved.bound);
    }
}

#[test]
fn a_row_that_nothing_keeps_to_stays_off() {
    let mut program = Program::default();
    let column = program.column(1.0, 0.0, 1.0);
    program.row(core::iter::once((column, 1.0)), 2.0, 3.0);
    assert!(program.solve(1e-6, 1 << 16).off > 0.9);
}

#[test]
fn checkmates_program_without_integers_is_no_dearer_than_a_plan() {
    let mut fits = 0;
    for seed in 0..30 {
        let graph = at_random(seed, 25);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let relief = Relief::new(&graph);
        for share in [4, 6, 8] {
            let budget = least + (most - least) * share / 8;
            let found = relief.recompute(budget).run(10_000);
            if !found.feasible {
                continue;
            }
            let problem = &relief.problem;
            let all = Relaxation::new(problem, budget as f64, 1 << 18).expect("small").program;
            let solved = all.solve(1e-3, 1 << 28);
            let unit = problem.cost() as f64 / problem.units.len() as f64 + 1.0;
            let cost = found.nanos as f64 / unit;
            assert!(solved.bound <= cost * 1.001, "{seed} {share}: {} {cost}", solved.bound);
            assert!(share < 8 || solved.off < 0.01, "{seed}: {}", solved.off);
            fits += 1;
        }
    }
    assert!(fits > 40, "{fits}");
}
