//! The picture of a plan as coordinates: each block a rectangle in time and address.

use std::fmt::Write;

use serde::Serialize;
use zico_plan::Block;

use super::areas::COLOURS;
use super::axes::{Axis, Tick};
use super::chart::{HEIGHT, LEFT, RIGHT, TOP, WIDTH};
use crate::summary::PlanSummary;

/// A plan is drawn higher than waves are.
const TALL: f64 = 2.0 * HEIGHT;
/// More blocks than this are drawn as one shape a colour, without a word on each.
const TITLED: usize = 3000;

#[derive(Serialize)]
pub(crate) struct Chart {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    unit: &'static str,
    bound_y: f64,
    rects: Vec<Rect>,
    paths: Vec<Shape>,
    live: String,
    y_ticks: Vec<Tick>,
    x_ticks: Vec<Tick>,
}

#[derive(Serialize)]
struct Rect {
    colour: usize,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    title: String,
}

#[derive(Serialize)]
struct Shape {
    colour: usize,
    path: String,
}

/// Where moments and addresses lie.
struct Scale {
    x: Axis,
    y: Axis,
}

impl Scale {
    fn at(&self, moment: u64) -> f64 {
        hundredth(self.x.exactly_at(moment as f64))
    }

    fn up(&self, bytes: f64) -> f64 {
        hundredth(self.y.exactly_at(bytes))
    }
}

/// The picture of a plan of these blocks.
pub(crate) fn chart(plan: &PlanSummary, blocks: &[Block]) -> Chart {
    let first = blocks.iter().map(|block| block.lower).min().unwrap_or(0);
    let last = blocks.iter().map(|block| block.upper).max().unwrap_or(0);
    let most = plan.height.max(1) as f64 * 1.06;
    let scale = Scale {
        x: Axis { ends: (LEFT, RIGHT), figures: (first as f64, last.max(first + 1) as f64) },
        y: Axis { ends: (TOP + TALL, TOP), figures: (0.0, most) },
    };
    let rects: Vec<Rect> =
        blocks.iter().enumerate().map(|(i, b)| rect(i, b, plan, &scale)).collect();
    let (rects, paths) =
        if rects.len() <= TITLED { (rects, Vec::new()) } else { (Vec::new(), shapes(&rects)) };
    let (unit, y_ticks) = y_ticks(plan.height);
    Chart {
        width: WIDTH,
        height: TOP + TALL + 30.0,
        left: LEFT,
        right: RIGHT,
        top: TOP,
        bottom: TOP + TALL,
        unit,
        bound_y: scale.y.at(plan.lower_bound as f64),
        rects,
        paths,
        live: live(blocks, &scale),
        y_ticks,
        x_ticks: scale.x.ticks(last as f64, 6.0, ""),
    }
}

fn rect(i: usize, block: &Block, plan: &PlanSummary, scale: &Scale) -> Rect {
    let (from, to) = (scale.at(block.lower), scale.at(block.upper));
    let offset = plan.offsets[i];
    let (low, high) = (scale.up(offset as f64), scale.up(offset as f64 + block.size as f64));
    let Block { lower, upper, size, .. } = block;
    Rect {
        // Neighbours in time mostly differ.
        colour: i % COLOURS,
        x: from,
        y: high,
        width: hundredth(to - from),
        height: hundredth(low - high),
        title: format!("{}: {size} bytes at {offset}, from {lower} to {upper}", plan.ids[i]),
    }
}

fn shapes(rects: &[Rect]) -> Vec<Shape> {
    let mut paths = vec![String::new(); COLOURS];
    for Rect { colour, x, y, width, height, .. } in rects {
        let _ = write!(paths[*colour], "M{x},{y}h{width}v{height}h-{width}Z");
    }
    paths.into_iter().enumerate().map(|(colour, path)| Shape { colour, path }).collect()
}

/// The live bytes as a line of steps.
fn live(blocks: &[Block], scale: &Scale) -> String {
    let ends = |b: &Block| [(b.lower, true, b.size), (b.upper, false, b.size)];
    let mut points: Vec<(u64, bool, u64)> =
        blocks.iter().filter(|block| block.lower < block.upper).flat_map(ends).collect();
    points.sort_unstable();
    let mut path = format!("M{LEFT},{}", scale.up(0.0));
    let mut live = 0_u64;
    for (i, &(at, begins, size)) in points.iter().enumerate() {
        live = if begins { live + size } else { live - size };
        if points.get(i + 1).is_none_or(|next| next.0 > at) {
            let _ = write!(path, "H{}V{}", scale.at(at), scale.up(live as f64));
        }
    }
    path
}

fn y_ticks(height: u64) -> (&'static str, Vec<Tick>) {
    const UNITS: [(&str, u64); 4] =
        [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    let fits = |(_, bytes): &&(&str, u64)| height >= *bytes;
    let &(unit, bytes) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    let height = height.max(1) as f64 / bytes as f64;
    let axis = Axis { ends: (TOP + TALL, TOP), figures: (0.0, height * 1.06) };
    (unit, axis.ticks(height, 5.0, ""))
}

/// Blocks can be thin.
fn hundredth(coordinate: f64) -> f64 {
    (coordinate * 100.0).round() / 100.0
}
