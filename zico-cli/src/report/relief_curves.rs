//! Time against budget: a line for each strategy of relief.

use std::fmt::Write;

use serde::Serialize;

use super::areas::COLOURS;
use super::axes::{Axis, Tick};
use super::chart::{HEIGHT, LEFT, RIGHT, TOP, WIDTH};

/// Time against budget, a line for each strategy.
#[derive(Serialize)]
pub(crate) struct Curves {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    y_ticks: Vec<Tick>,
    x_ticks: Vec<Tick>,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    colour: usize,
    dashed: bool,
    path: String,
}

/// A strategy's name, and at each budget its time, if it has a plan.
pub(crate) type Curve = (String, Vec<(f64, Option<f64>)>);

/// The curves of these strategies: budgets as shares of the peak, and the time over that without
/// relief where the strategy fits.
pub(crate) fn curves(strategies: Vec<Curve>) -> Curves {
    let points = || strategies.iter().flat_map(|(_, points)| points);
    let low = points().map(|point| point.0).fold(f64::INFINITY, f64::min).min(1.0);
    let high = points().map(|point| point.0).fold(1.0, f64::max);
    let most = points().filter_map(|point| point.1).fold(1.0, f64::max);
    let from = if low < high { low } else { high - 0.1 };
    let x = Axis { ends: (LEFT, RIGHT), figures: (from - 0.02 * (high - from), high) };
    let above = (most - 1.0).max(0.01) * 1.08;
    let y = Axis { ends: (TOP + HEIGHT, TOP), figures: (1.0, 1.0 + above) };
    let line = |(at, (name, mut points)): (usize, Curve)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut path = String::new();
        for stretch in points.split(|point| point.1.is_none()) {
            for (rank, &(budget, time)) in stretch.iter().enumerate() {
                let (px, py) = (x.at(budget), y.at(time.unwrap_or(1.0)));
                // A mark at each point, so that one alone is seen.
                let _ = write!(path, "{}{px},{py}m-2,0h4m-2,0", if rank == 0 { "M" } else { "L" });
            }
        }
        Line { name, colour: at % COLOURS, dashed: (at / COLOURS) % 2 == 1, path }
    };
    Curves {
        width: WIDTH,
        height: TOP + HEIGHT + 30.0,
        left: LEFT,
        right: RIGHT,
        top: TOP,
        bottom: TOP + HEIGHT,
        y_ticks: y.ticks(1.0 + above, 5.0, ""),
        x_ticks: x.ticks(high, 6.0, ""),
        lines: strategies.into_iter().enumerate().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_each_strategy_with_gaps() {
        let strategies = vec![
            ("one".to_owned(), vec![(0.9, Some(1.0)), (0.5, Some(1.5)), (0.3, None)]),
            ("two".to_owned(), vec![(0.9, Some(1.2)), (0.5, None), (0.3, None)]),
        ];
        let curves = curves(strategies);
        let count = |at: usize, letter: char| curves.lines[at].path.matches(letter).count();
        assert_eq!([count(0, 'M'), count(0, 'L'), count(1, 'M'), count(1, 'L')], [1, 1, 1, 0]);
        assert!(!curves.lines[0].path.contains("NaN"));
    }
}
