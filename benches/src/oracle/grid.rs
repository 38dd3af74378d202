//! Two or three jobs: bounds from above and from below, on a grid of moments.
//!
//! With three jobs left-most starts are not always best: a third iteration gains nothing where two
//! run already and keep the device full, and may be better kept for a moment at which one would run
//! alone. So the argument of [`pair`](super::pair) does not hold, and the optimum is enclosed
//! instead.
//!
//! *From above.* Look at any schedule at moments one cell apart only. At those moments an iteration
//! of length T is seen at least floor(T / cell) times, the i-th time somewhere in its i-th cell;
//! its next one is not seen before it is over; and the demands seen at one moment fit. Time is the
//! mean, over all phases of the grid, of what is counted at its moments, so in some phase it comes
//! to no more than it is. So the best schedule on the grid, with iterations of floor(T / cell)
//! cells that take the least of each cell and yet count as T, is no worse than any schedule at all.
//!
//! *From below.* With ceil(T / cell) cells and the most of each, a schedule on the grid is one that
//! can be done, in no more time.
//!
//! Where all lengths and steps are multiples of the cell both bounds are the optimum: for an order
//! of all events the best starts solve a linear program whose bounds are differences, so there are
//! best starts that are whole multiples too.
//!
//! The states are those in which some job waits: about the sum, over pairs of jobs, of the product
//! of their cells. From each one a waiting job starts, or waits a cell.

use std::collections::HashMap;

use super::Case;
use super::cycle::{Edge, Graph};

/// The most jobs.
const JOBS: usize = 3;

/// How many cells are tried to find one that divides all lengths well.
const TRIES: u64 = 200;

/// How [`bound_with_shares`] looks for weights.
const ROUNDS: usize = 2;
const HALVINGS: u32 = 8;
const MOST_EXTRA: f64 = 4.0;

/// Between what the optimum lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// A schedule reaches this.
    pub below: f64,
    /// None reaches more.
    pub above: f64,
}

/// Which way to round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

/// Bounds from a grid with about so many states. None if there are not two or three jobs, if one
/// does not fit alone, or if one is so short beside the others that it would have no cell.
///
/// A job whose peak does not fit once it is rounded makes the bound from below 0.
#[must_use]
pub fn bounds(case: &Case, states: u32) -> Option<Bounds> {
    if !(2..=JOBS).contains(&case.waves.len()) || !case.is_possible() {
        return None;
    }
    let on = |side| Grid::new(case, cell(case, states, side)?, side)?.best();
    Some(Bounds { below: on(Side::Below).unwrap_or(0.0), above: on(Side::Above)? })
}

/// Of jobs in their order, their rates over their rates alone.
pub type Shares = [f64; JOBS];

/// The best schedule on the grid that can be done, and what it gives each job.
#[must_use]
pub fn best_shares(case: &Case, states: u32) -> Option<(f64, Shares)> {
    Grid::new(case, cell(case, states, Side::Below)?, Side::Below)?.weighted([1.0; JOBS])
}

/// A bound from above on what schedules reach in which each job has at least so much of its rate
/// alone.
///
/// Work of a job that would have less counts more: for any such extra weights e no schedule reaches
/// more than max of sum (1 + e) rate, less `least` times sum e (Lagrange). The weights are found by
/// halving, one job after the other; where they are not the best ones the bound is only less sharp.
#[must_use]
pub fn bound_with_shares(case: &Case, states: u32, least: f64) -> Option<f64> {
    let mut grid = Grid::new(case, cell(case, states, Side::Above)?, Side::Above)?;
    let (mut bound, mut extra) = (f64::INFINITY, [0.0; JOBS]);
    let mut with = |extra: &Shares| {
        let (value, shares) = grid.weighted(extra.map(|extra| 1.0 + extra))?;
        bound = bound.min(value - least * extra.iter().sum::<f64>());
        Some(shares)
    };
    for job in (0..ROUNDS).flat_map(|_| 0..case.waves.len()) {
        extra[job] = 0.0;
        let (mut low, mut high) = (0.0, MOST_EXTRA);
        if with(&extra)?[job] >= least {
            continue;
        }
        for _ in 0..HALVINGS {
            extra[job] = 0.5 * (low + high);
            let enough = with(&extra)?[job] >= least;
            *(if enough { &mut high } else { &mut low }) = extra[job];
        }
    }
    Some(bound)
}

/// Lengths in cells.
fn cells(length: u64, cell: u64, side: Side) -> u64 {
    if side == Side::Above { length / cell } else { length.div_ceil(cell) }
}

/// A cell of about the right size that divides all lengths well.
fn cell(case: &Case, states: u32, side: Side) -> Option<u64> {
    let lengths: Vec<u64> = case.waves.iter().map(super::Wave::length).collect();
    let pairs = (0..lengths.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let product: f64 = pairs.map(|(i, j)| lengths[i] as f64 * lengths[j] as f64).sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates"
    )]
    let least = ((product / f64::from(states.max(1))).sqrt() as u64).max(1);
    let shortest = *lengths.iter().min()?;
    let off = |cell: u64| -> f64 {
        let off = |&length: &u64| (cells(length, cell, side) * cell) as f64 / length as f64 - 1.0;
        lengths.iter().map(off).map(f64::abs).sum()
    };
    let tried = (0..TRIES).map(|i| least + least * i / (4 * TRIES));
    tried.filter(|&cell| cell <= shortest).min_by(|&a, &b| off(a).total_cmp(&off(b)))
}

/// How many cells each job's iteration has come; all of its cells if it waits.
type Place = [u32; JOBS];

/// A grid of moments.
struct Grid {
    jobs: usize,
    room: u32,
    cells: Place,
    demand: [Vec<u32>; JOBS],
    /// What a cell of each job counts.
    gain: [f64; JOBS],
    /// So much more than its work.
    weight: [f64; JOBS],
    /// What a cell costs in which so many run.
    cost: [f64; JOBS + 1],
}

impl Grid {
    fn new(case: &Case, cell: u64, side: Side) -> Option<Self> {
        let mut grid = Self {
            jobs: case.waves.len(),
            room: case.room,
            cells: [0; JOBS],
            demand: [const { Vec::new() }; JOBS],
            gain: [0.0; JOBS],
            weight: [1.0; JOBS],
            cost: [0, 1, 2, 3].map(|running| cell as f64 * case.stretch(running)),
        };
        for (job, wave) in case.waves.iter().enumerate() {
            let cells = cells(wave.length(), cell, side);
            grid.cells[job] = u32::try_from(cells).ok()?;
            grid.demand[job] = wave.sampled(cell, cells, side == Side::Above);
            grid.gain[job] = wave.length() as f64 / cells as f64;
        }
        let fits = grid.demand.iter().flatten().all(|&demand| demand <= case.room);
        (fits && grid.cells[..grid.jobs].iter().all(|&cells| cells > 0)).then_some(grid)
    }

    fn best(&self) -> Option<f64> {
        Some(self.graph()?.best_ratio())
    }

    /// The best schedule if work of each job counts `weight` times, and each job's rate over its
    /// rate alone in it.
    fn weighted(&mut self, weight: [f64; JOBS]) -> Option<(f64, [f64; JOBS])> {
        self.weight = weight;
        let (ratio, mix) = self.graph()?.best_mix::<JOBS>();
        let mut rates = [0.0; JOBS];
        (0..self.jobs).for_each(|job| rates[job] = mix[job] * self.length(job));
        Some((ratio, rates))
    }

    fn graph(&self) -> Option<Graph> {
        let mut places = vec![self.cells];
        let mut numbers = HashMap::from([(self.cells, 0_u32)]);
        let mut graph = Graph::default();
        while let Some(&place) = places.get(graph.len()) {
            let mut edges = Vec::with_capacity(2);
            for (to, edge) in self.ways(place) {
                let next = u32::try_from(places.len()).ok()?;
                let to = *numbers.entry(to).or_insert_with(|| {
                    places.push(to);
                    next
                });
                edges.push(Edge { to, ..edge });
            }
            if edges.is_empty() {
                // What runs does not fit on. Abandoning it costs more than it can ever gain.
                let cost = 4.0 * (0..self.jobs).map(|job| self.length(job)).sum::<f64>();
                edges.push(Edge { to: 0, gain: 0.0, cost, ended: 0 });
            }
            graph.push(edges);
        }
        Some(graph)
    }

    /// What an iteration counts.
    fn length(&self, job: usize) -> f64 {
        f64::from(self.cells[job]) * self.gain[job]
    }

    /// Each choice of waiting jobs to start, and where it leads: a cell further, or to the next end
    /// if none waits any more.
    fn ways(&self, place: Place) -> impl Iterator<Item = (Place, Edge)> + '_ {
        let waits = move |job: usize| place[job] == self.cells[job];
        let choices = (0..1_u8 << self.jobs)
            .filter(move |starts| (0..self.jobs).all(|job| starts >> job & 1 == 0 || waits(job)));
        choices.filter_map(move |starts| {
            let mut from = place;
            (0..self.jobs).filter(|job| starts >> job & 1 == 1).for_each(|job| from[job] = 0);
            self.run(from)
        })
    }

    fn run(&self, mut place: Place) -> Option<(Place, Edge)> {
        let left = |place: &Place, job: usize| self.cells[job] - place[job];
        let most = (0..self.jobs).map(|job| left(&place, job)).filter(|&left| left > 0).min()?;
        let steps = if (0..self.jobs).all(|job| left(&place, job) > 0) { most } else { 1 };
        let mut edge = Edge { to: 0, gain: 0.0, cost: 0.0, ended: 0 };
        for _ in 0..steps {
            let runs = [0, 1, 2].map(|job| place[job] < self.cells[job]);
            let running = || (0..JOBS).filter(|&job| runs[job]);
            let demand = running().map(|job| self.demand[job][place[job] as usize]);
            if demand.sum::<u32>() > self.room {
                return None;
            }
            for job in running() {
                place[job] += 1;
                edge.gain += self.gain[job] * self.weight[job];
                edge.ended |= u8::from(place[job] == self.cells[job]) << job;
            }
            edge.cost += self.cost[running().count()];
        }
        Some((place, edge))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The bounds at a given cell: for whole multiples of it both are the optimum.
    pub(in super::super) fn at_cell(case: &Case, cell: u64) -> Bounds {
        let on = |side| Grid::new(case, cell, side).and_then(|grid| grid.best());
        Bounds {
            below: on(Side::Below).unwrap_or(0.0),
            above: on(Side::Above).expect("short cells"),
        }
    }
}
