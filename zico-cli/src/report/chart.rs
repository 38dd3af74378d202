//! The picture as coordinates: stacked areas of memory, the budget, and a lane of iterations a job.
//!
//! All in the units of the SVG's view box; the template draws them.

use std::fmt::Write;

use serde::Serialize;
use zico_core::Ticks;
use zico_mock::replay::{JobOutcome, Outcome, Span};

use super::areas::{Area, COLOURS, areas};
use super::axes::{Axis, Tick, round};
use super::scale::{Mark, Scale};

pub(super) const WIDTH: f64 = 960.0;
pub(super) const HEIGHT: f64 = 300.0;
pub(super) const LEFT: f64 = 56.0;
pub(super) const RIGHT: f64 = WIDTH - 8.0;
pub(super) const TOP: f64 = 16.0;
/// Between the time axis and the first lane.
const GAP: f64 = 40.0;
const LANE: f64 = 26.0;
/// More iterations than this in a lane are drawn as one shape, without a word on each.
const TITLED: usize = 300;

#[derive(Serialize)]
pub(crate) struct Chart {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    areas: Vec<Area>,
    budget: Mark,
    unit: &'static str,
    y_ticks: Vec<Tick>,
    x_ticks: Vec<Tick>,
    lanes: Vec<Lane>,
}

#[derive(Serialize)]
struct Lane {
    colour: usize,
    name: String,
    y: f64,
    bars: Vec<Bar>,
    /// All running times as one path where there are too many bars.
    running: String,
    waiting: String,
}

#[derive(Serialize)]
struct Bar {
    x: f64,
    width: f64,
    waiting: bool,
    title: String,
}

/// The picture of a replay.
pub(crate) fn chart(outcome: &Outcome) -> Chart {
    let window = outcome.window.seconds().max(1e-9);
    let x = Axis { ends: (LEFT, RIGHT), figures: (0.0, window) };
    let Scale { axis: y, budget, ticks, unit } =
        Scale::new(outcome.budget, std::iter::once(outcome), (TOP + HEIGHT, TOP), 4.0);
    let lanes = outcome.jobs.iter().enumerate().map(|(i, job)| lane(i, job, outcome, &x)).collect();
    Chart {
        width: WIDTH,
        height: TOP + HEIGHT + GAP + LANE * outcome.jobs.len() as f64,
        left: LEFT,
        right: RIGHT,
        top: TOP,
        bottom: TOP + HEIGHT,
        areas: areas(outcome, &x, &y),
        budget,
        unit,
        y_ticks: ticks,
        x_ticks: x.ticks(window, 6.0, " s"),
        lanes,
    }
}

fn lane(i: usize, job: &JobOutcome, outcome: &Outcome, x: &Axis) -> Lane {
    let y = TOP + HEIGHT + GAP + LANE * i as f64;
    let mut lane = Lane {
        colour: i % COLOURS,
        name: job.name.clone(),
        y,
        bars: Vec::new(),
        running: String::new(),
        waiting: String::new(),
    };
    for (number, span) in job.spans.iter().enumerate() {
        if job.spans.len() <= TITLED {
            lane.bars.extend(bars(number, span, outcome, x));
        } else {
            for bar in bars(number, span, outcome, x) {
                let path = if bar.waiting { &mut lane.waiting } else { &mut lane.running };
                let _ = write!(path, "M{},{}h{}v12h-{}Z", bar.x, y, bar.width, bar.width);
            }
        }
    }
    lane
}

/// One iteration: the wait for its start, if there was one, and its run.
fn bars(number: usize, span: &Span, outcome: &Outcome, axis: &Axis) -> Vec<Bar> {
    let end = span.ended.unwrap_or(outcome.window);
    let bar = |from: Ticks, to: Ticks, waiting: bool| {
        let x = axis.at(from.seconds());
        let width = round(axis.at(to.seconds()) - x);
        let (what, time) = (if waiting { "waited" } else { "ran" }, to.saturating_sub(from));
        Bar {
            x,
            width,
            waiting,
            title: format!("iteration {}: {what} {time}, from {from}", number + 1),
        }
    };
    let wait = (span.asked < span.began).then(|| bar(span.asked, span.began, true));
    wait.into_iter().chain([bar(span.began, end, false)]).collect()
}
