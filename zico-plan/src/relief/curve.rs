//! Plans for several budgets as a curve: the less memory, the more time.

use alloc::vec::Vec;

use super::addresses::{Addresses, addresses};
use crate::PlanError;
use crate::relief::{Found, Graph, Link, Strategy, simulate};

/// A plan on a curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The most bytes on the device at a moment.
    pub peak: u64,
    /// The end of the highest address when its storages are laid out.
    pub extent: u64,
    /// The time of the iteration, in nanoseconds.
    pub nanos: u64,
    /// The schedule.
    pub found: Found,
}

/// Plans of one iteration of which none needs more memory and more time than another: ever more
/// memory, ever less time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    points: Vec<Point>,
}

impl Curve {
    /// The plans, by ascending extent and descending time.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The fastest plan whose addresses end within so many bytes; `None` where none does.
    #[must_use]
    pub fn at(&self, bytes: u64) -> Option<&Point> {
        let within = self.points.partition_point(|point| point.extent <= bytes);
        within.checked_sub(1).map(|at| &self.points[at])
    }

    /// The plan with least memory that takes at most so long; `None` where none does.
    #[must_use]
    pub fn within(&self, nanos: u64) -> Option<&Point> {
        let first = self.points.partition_point(|point| point.nanos > nanos);
        self.points.get(first)
    }

    /// Adds a plan, unless another is as small and as fast; those that it is better than leave.
    fn add(&mut self, point: Point) {
        let beats =
            |one: &Point, other: &Point| one.extent <= other.extent && one.nanos <= other.nanos;
        if self.points.iter().any(|one| beats(one, &point)) {
            return;
        }
        self.points.retain(|one| !beats(&point, one));
        let at = self.points.partition_point(|one| one.extent < point.extent);
        self.points.insert(at, point);
    }
}

/// The curve of a strategy over some budgets. A budget for which it has no plan adds no point. The
/// time is that of the planning at each budget.
///
/// # Errors
/// As [`addresses`].
pub fn curve(
    strategy: Strategy,
    graph: &Graph,
    link: &Link,
    budgets: &[u64],
    work: u64,
    how: Addresses,
) -> Result<Curve, PlanError> {
    let mut curve = Curve::default();
    for &budget in budgets {
        let Some(found) = strategy.plan(graph, link, budget, work) else { continue };
        let Ok(outcome) = simulate(graph, link, &found.steps, budget) else { continue };
        let placed = addresses(graph, &found.steps, &outcome, how)?;
        let (peak, nanos) = (outcome.peak, outcome.nanos);
        curve.add(Point { peak, extent: placed.extent, nanos, found });
    }
    Ok(curve)
}
