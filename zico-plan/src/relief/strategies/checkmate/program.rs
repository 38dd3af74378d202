//! Linear programs by a first-order method: primal-dual hybrid gradients (Chambolle and Pock, JMIV
//! 2011) with diagonal steps (Pock and Chambolle, ICCV 2011), restarts from averages and a primal
//! weight (PDLP: Applegate et al., `NeurIPS` 2021).
//!
//! Needs products with the matrix only, and memory for its entries: programs of some 10^5 rows that
//! a simplex method does not come through.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;

/// A matrix by rows. In a range of [`Self::sums`] each row stands for the sum of it and of those
/// before it in the range.
#[derive(Debug, Default)]
pub(in crate::relief) struct Matrix {
    ends: Vec<usize>,
    entries: Vec<(u32, f64)>,
    sums: Vec<Range<usize>>,
}

impl Matrix {
    fn rows(&self) -> usize {
        self.ends.len()
    }

    fn row(&self, at: usize) -> &[(u32, f64)] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.entries[from..self.ends[at]]
    }

    /// The product with a vector of columns, each entry changed by `of`.
    fn times(&self, x: &[f64], out: &mut [f64], of: impl Fn(f64) -> f64) {
        for (at, out) in out.iter_mut().enumerate() {
            let row = self.row(at).iter();
            *out = row.map(|&(column, value)| of(value) * x[column as usize]).sum();
        }
        for range in &self.sums {
            let mut sum = 0.0;
            for out in &mut out[range.clone()] {
                sum += *out;
                *out = sum;
            }
        }
    }

    /// The product of a vector of rows with it. Leaves that vector summed up.
    fn back(&self, y: &mut [f64], out: &mut [f64], of: impl Fn(f64) -> f64) {
        for range in &self.sums {
            let mut sum = 0.0;
            for y in y[range.clone()].iter_mut().rev() {
                sum += *y;
                *y = sum;
            }
        }
        out.fill(0.0);
        for (at, &y) in y.iter().enumerate() {
            for &(column, value) in self.row(at) {
                out[column as usize] += of(value) * y;
            }
        }
    }
}

/// The least of `costs` times x where x is in its ranges, and the rows times x in theirs.
#[derive(Debug, Default)]
pub(in crate::relief) struct Program {
    matrix: Matrix,
    costs: Vec<f64>,
    columns: Vec<(f64, f64)>,
    limits: Vec<(f64, f64)>,
}

/// A solution, as far as the steps went.
#[derive(Clone, Debug)]
pub(in crate::relief) struct Solved {
    pub(in crate::relief) columns: Vec<f64>,
    /// The cost, and a bound on the least one that the dual solution gives.
    pub(in crate::relief) cost: f64,
    pub(in crate::relief) bound: f64,
    /// By how much the row that is off most is.
    pub(in crate::relief) off: f64,
}

impl Solved {
    fn error(&self) -> f64 {
        let size = 1.0 + self.cost.abs() + self.bound.abs();
        self.off.max((self.cost - self.bound).abs() / size)
    }
}

impl Program {
    pub(in crate::relief) fn column(&mut self, cost: f64, from: f64, to: f64) -> u32 {
        self.costs.push(cost);
        self.columns.push((from, to));
        u32::try_from(self.costs.len() - 1).unwrap_or(u32::MAX)
    }

    /// A row, and the range that it has to be in.
    pub(in crate::relief) fn row(
        &mut self,
        entries: impl Iterator<Item = (u32, f64)>,
        from: f64,
        to: f64,
    ) {
        self.matrix.entries.extend(entries);
        self.matrix.ends.push(self.matrix.entries.len());
        self.limits.push((from, to));
    }

    /// The last so many rows are each the sum of it and of those before it among them.
    pub(in crate::relief) fn sum_up(&mut self, last: usize) {
        let end = self.matrix.rows();
        self.matrix.sums.push(end - last..end);
    }

    /// The cost of any point within the ranges of the columns is at most this: where a bound on the
    /// least cost is above it, no point keeps to all rows.
    pub(in crate::relief) fn most(&self) -> f64 {
        let costs = self.costs.iter().zip(&self.columns);
        costs.map(|(cost, column)| (cost * column.0).max(cost * column.1)).sum()
    }

    /// Works until everything is within a tolerance or nothing can be, or for so many steps.
    pub(in crate::relief) fn solve(&self, tolerance: f64, work: u64) -> Solved {
        let work = work.min(Descent::MOST * self.matrix.entries.len() as u64 / 2);
        let most = self.most();
        let most = most + most.abs() / 1e6;
        let mut descent = Descent::new(self);
        let mut best = descent.judge();
        while best.error() > tolerance && best.bound <= most && descent.work < work {
            for _ in 0..Descent::BETWEEN {
                descent.step();
            }
            best = descent.restart();
        }
        best
    }
}

/// An iterate, and what is summed up since the last restart.
struct Descent<'a> {
    program: &'a Program,
    x: Vec<f64>,
    y: Vec<f64>,
    x_sum: Vec<f64>,
    y_sum: Vec<f64>,
    /// Where the last restart was, and its error.
    x_start: Vec<f64>,
    y_start: Vec<f64>,
    error: f64,
    /// The error when it was looked at last.
    last: f64,
    since: u32,
    all: u32,
    /// Steps of each column and each row.
    x_steps: Vec<f64>,
    y_steps: Vec<f64>,
    /// How much longer the steps of rows are, and shorter those of columns.
    weight: f64,
    /// Room for products.
    rows: Vec<f64>,
    slopes: Vec<f64>,
    work: u64,
}

impl<'a> Descent<'a> {
    /// Steps between two looks.
    const BETWEEN: u32 = 64;
    /// Steps in all.
    const MOST: u64 = 1 << 16;

    fn new(program: &'a Program) -> Self {
        let (columns, rows) = (program.costs.len(), program.matrix.rows());
        let room = |count: usize| alloc::vec![0.0; count];
        let (mut x_steps, mut y_steps) = (room(columns), room(rows));
        program.matrix.times(&alloc::vec![1.0; columns], &mut y_steps, f64::abs);
        program.matrix.back(&mut alloc::vec![1.0; rows], &mut x_steps, f64::abs);
        for step in x_steps.iter_mut().chain(&mut y_steps) {
            *step = if *step > 0.0 { 1.0 / *step } else { 1.0 };
        }
        let x: Vec<f64> = program.columns.iter().map(|column| column.0).collect();
        let mut descent = Self {
            program,
            x_start: x.clone(),
            x,
            y: room(rows),
            x_sum: room(columns),
            y_sum: room(rows),
            y_start: room(rows),
            error: f64::INFINITY,
            last: f64::INFINITY,
            since: 0,
            all: 0,
            x_steps,
            y_steps,
            weight: 1.0,
            rows: room(rows),
            slopes: room(columns),
            work: 0,
        };
        descent.error = descent.judge().error();
        descent
    }

    fn step(&mut self) {
        self.rows.copy_from_slice(&self.y);
        self.program.matrix.back(&mut self.rows, &mut self.slopes, |value| value);
        for (at, x) in self.x.iter_mut().enumerate() {
            let (from, to) = self.program.columns[at];
            let slope = self.program.costs[at] - self.slopes[at];
            let next = (*x - self.x_steps[at] / self.weight * slope).clamp(from, to);
            // What rows see is as far ahead again.
            self.slopes[at] = 2.0 * next - *x;
            *x = next;
            self.x_sum[at] += next;
        }
        self.program.matrix.times(&self.slopes, &mut self.rows, |value| value);
        for (at, y) in self.y.iter_mut().enumerate() {
            let (from, to) = self.program.limits[at];
            let step = self.y_steps[at] * self.weight;
            let moved = *y / step - self.rows[at];
            *y = step * (moved - moved.clamp(-to, -from));
            self.y_sum[at] += *y;
        }
        self.since += 1;
        self.all += 1;
        self.work += 1 + self.program.matrix.entries.len() as u64 / 2;
    }

    /// How good the iterate is.
    fn judge(&mut self) -> Solved {
        let (x, y) = (core::mem::take(&mut self.x), core::mem::take(&mut self.y));
        let solved = self.judged(&x, &y);
        (self.x, self.y) = (x, y);
        solved
    }

    fn judged(&mut self, x: &[f64], y: &[f64]) -> Solved {
        let program = self.program;
        program.matrix.times(x, &mut self.rows, |value| value);
        let limits = self.rows.iter().zip(&program.limits);
        let off =
            limits.map(|(&row, limit)| (limit.0 - row).max(row - limit.1)).fold(0.0, f64::max);
        // A row without a limit on a side has no price on it.
        let of_row = |(&y, limit): (&f64, &(f64, f64))| match y.total_cmp(&0.0) {
            Ordering::Greater => y * limit.0,
            Ordering::Less if y < 0.0 => y * limit.1,
            _ => 0.0,
        };
        let mut bound: f64 = y.iter().zip(&program.limits).map(of_row).sum();
        self.rows.copy_from_slice(y);
        program.matrix.back(&mut self.rows, &mut self.slopes, |value| value);
        let mut cost = 0.0;
        for (at, &x) in x.iter().enumerate() {
            let (from, to) = program.columns[at];
            let slope = program.costs[at] - self.slopes[at];
            bound += (slope * from).min(slope * to);
            cost += program.costs[at] * x;
        }
        Solved { columns: x.to_vec(), cost, bound, off }
    }

    /// Looks at the iterate and at the average, and starts anew from the better of the two if that
    /// is much better than where the last start was.
    fn restart(&mut self) -> Solved {
        let mean = |sum: &[f64], count: u32| -> Vec<f64> {
            sum.iter().map(|sum| sum / f64::from(count)).collect()
        };
        let average = (mean(&self.x_sum, self.since), mean(&self.y_sum, self.since));
        let now = self.judge();
        let other = self.judged(&average.0, &average.1);
        let is_average = other.error() < now.error();
        let best = if is_average { other } else { now };
        let error = best.error();
        let better = error < 0.2 * self.error || error < 0.8 * self.error && error > self.last;
        self.last = error;
        if better || self.since >= self.all / 3 {
            if is_average {
                (self.x, self.y) = average;
            }
            self.reweigh();
            self.x_start.clone_from(&self.x);
            self.y_start.clone_from(&self.y);
            self.x_sum.fill(0.0);
            self.y_sum.fill(0.0);
            self.since = 0;
            (self.error, self.last) = (error, f64::INFINITY);
        }
        best
    }

    /// The weight such that columns and rows have come equally far since the last start.
    fn reweigh(&mut self) {
        let far = |now: &[f64], start: &[f64], steps: &[f64]| -> f64 {
            let all = now.iter().zip(start).zip(steps);
            all.map(|((now, start), step)| (now - start) * (now - start) / step).sum()
        };
        let x = far(&self.x, &self.x_start, &self.x_steps);
        let y = far(&self.y, &self.y_start, &self.y_steps);
        if x > 1e-12 && y > 1e-12 {
            self.weight = root(self.weight * root(y / x));
        }
    }
}

/// The square root of a positive number (Newton's method; `core` has none).
fn root(of: f64) -> f64 {
    let mut root = f64::from_bits((of.to_bits() >> 1) + (1023_u64 << 51));
    for _ in 0..4 {
        root = 0.5 * (root + of / root);
    }
    root
}
