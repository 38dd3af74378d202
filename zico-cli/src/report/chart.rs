//! The picture as coordinates: stacked areas of memory, the budget, and a lane of iterations a job.
//!
//! All in the units of the SVG's view box; the template draws them.

use std::fmt::Write;

use serde::Serialize;
use zico_core::Ticks;
use zico_mock::replay::{JobOutcome, Outcome, Span};

/// How many colours the template has for jobs.
pub(crate) const COLOURS: usize = 8;

pub(super) const WIDTH: f64 = 960.0;
pub(super) const HEIGHT: f64 = 300.0;
pub(super) const LEFT: f64 = 56.0;
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
    budget_y: f64,
    y_ticks: Vec<Tick>,
    x_ticks: Vec<Tick>,
    lanes: Vec<Lane>,
}

#[derive(Serialize)]
struct Area {
    colour: usize,
    name: String,
    path: String,
}

#[derive(Serialize)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
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

/// Where moments and bytes lie.
struct Scale {
    window: f64,
    most: f64,
}

impl Scale {
    fn x(&self, at: Ticks) -> f64 {
        let share = (at.seconds() / self.window).min(1.0);
        round(LEFT + share * (WIDTH - LEFT - 8.0))
    }

    fn y(&self, bytes: f64) -> f64 {
        round(TOP + (1.0 - bytes / self.most) * HEIGHT)
    }
}

/// The picture of a replay.
pub(crate) fn chart(outcome: &Outcome) -> Chart {
    let budget = outcome.budget.value() as f64;
    let scale = Scale { window: outcome.window.seconds().max(1e-9), most: budget * 1.08 };
    let jobs = outcome.jobs.len();
    let lanes =
        outcome.jobs.iter().enumerate().map(|(i, job)| lane(i, job, outcome, &scale)).collect();
    Chart {
        width: WIDTH,
        height: TOP + HEIGHT + GAP + LANE * jobs as f64,
        left: LEFT,
        right: WIDTH - 8.0,
        top: TOP,
        bottom: TOP + HEIGHT,
        areas: (0..jobs).rev().map(|job| area(job, outcome, &scale)).collect(),
        budget_y: scale.y(budget),
        y_ticks: y_ticks(budget, &scale),
        x_ticks: x_ticks(&scale),
        lanes,
    }
}

/// A job's memory on top of that of the jobs before it. Areas reach down to the axis and are drawn
/// last job first, so that each covers what lies below it.
fn area(job: usize, outcome: &Outcome, scale: &Scale) -> Area {
    let bottom = scale.y(0.0);
    let mut path = format!("M{LEFT},{bottom}");
    for sample in outcome.wave.samples() {
        let sum: u64 = sample.held.iter().take(job + 1).map(|held| held.value()).sum();
        let (x, y) = (scale.x(sample.at), scale.y(sum as f64));
        // A step: the old height up to here, then the new one.
        let _ = write!(path, "H{x}V{y}");
    }
    let end = scale.x(outcome.window);
    let _ = write!(path, "H{end}V{bottom}Z");
    Area { colour: job % COLOURS, name: outcome.jobs[job].name.clone(), path }
}

fn lane(i: usize, job: &JobOutcome, outcome: &Outcome, scale: &Scale) -> Lane {
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
            lane.bars.extend(bars(number, span, outcome, scale));
        } else {
            for bar in bars(number, span, outcome, scale) {
                let path = if bar.waiting { &mut lane.waiting } else { &mut lane.running };
                let _ = write!(path, "M{},{}h{}v12h-{}Z", bar.x, y, bar.width, bar.width);
            }
        }
    }
    lane
}

/// One iteration: the wait for its start, if there was one, and its run.
fn bars(number: usize, span: &Span, outcome: &Outcome, scale: &Scale) -> Vec<Bar> {
    let end = span.ended.unwrap_or(outcome.window);
    let bar = |from: Ticks, to: Ticks, waiting: bool| {
        let (x, width) = (scale.x(from), round(scale.x(to) - scale.x(from)));
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

fn y_ticks(budget: f64, scale: &Scale) -> Vec<Tick> {
    let gib = f64::from(1 << 30);
    let step = nice(budget / gib / 4.0);
    let ticks = (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= budget / gib * 1.02);
    ticks.map(|tick| Tick { at: scale.y(tick * gib), label: trimmed(tick) }).collect()
}

fn x_ticks(scale: &Scale) -> Vec<Tick> {
    let step = nice(scale.window / 6.0);
    let ticks = (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= scale.window);
    let at = |tick: f64| round(LEFT + tick / scale.window * (WIDTH - LEFT - 8.0));
    ticks.map(|tick| Tick { at: at(tick), label: format!("{} s", trimmed(tick)) }).collect()
}

/// 1, 2 or 5 times a power of ten, at least `step`.
pub(super) fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|nice| *nice >= step * 0.999)
        .unwrap_or(step)
}

pub(super) fn trimmed(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A tenth of a pixel is all that can be seen.
pub(super) fn round(coordinate: f64) -> f64 {
    (coordinate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        for (step, tick) in
            [(0.73, 1.0), (1.0, 1.0), (1.2, 2.0), (4.9, 5.0), (0.013, 0.02), (7.0, 10.0)]
        {
            assert!((nice(step) - tick).abs() < 1e-9, "{step}: {}", nice(step));
        }
        assert_eq!(
            (trimmed(0.5), trimmed(2.0), trimmed(0.0)),
            ("0.5".into(), "2".into(), "0".into())
        );
    }
}
