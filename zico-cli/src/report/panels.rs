//! The waves of one set of jobs under several policies: a panel each, one above the other, with the
//! same scales.
//!
//! A panel is drawn in a view box of its own that the page stretches to any width, so there is no
//! text in it: where labels stand is said in percent.

use serde::Serialize;
use zico_core::Bytes;

use super::areas::{Area, areas};
use super::axes::{Axis, Tick};
use super::scale::{Mark, Scale};
use crate::summary::Tried;

/// The view box.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

#[derive(Serialize)]
pub(crate) struct Panels {
    width: f64,
    height: f64,
    budget: Mark,
    unit: &'static str,
    /// In the units of the view box, of which there are as many down as there are percents.
    y_ticks: Vec<Tick>,
    x_ticks: Vec<Tick>,
    panels: Vec<Vec<Area>>,
}

/// A panel for each policy; one without areas for a policy that did not run.
pub(crate) fn panels(budget: Bytes, tried: &[Tried]) -> Panels {
    let outcomes = || tried.iter().filter_map(|tried| tried.trial.outcome());
    let longest = outcomes().map(|outcome| outcome.window.seconds()).fold(1e-9, f64::max);
    let x = Axis { ends: (0.0, WIDTH), figures: (0.0, longest) };
    let Scale { axis: y, budget, ticks, unit } = Scale::new(budget, outcomes(), (HEIGHT, 0.0), 3.0);
    let drawn = |tried: &Tried| tried.trial.outcome().map(|outcome| areas(outcome, &x, &y));
    Panels {
        width: WIDTH,
        height: HEIGHT,
        budget,
        unit,
        y_ticks: ticks,
        x_ticks: x.ticks(longest, 5.0, " s"),
        panels: tried.iter().map(|tried| drawn(tried).unwrap_or_default()).collect(),
    }
}
