//! The jobs' memory over time as areas, each on top of those of the jobs before it.

use std::fmt::Write;

use serde::Serialize;
use zico_core::Bytes;
use zico_mock::replay::{Outcome, Sample};

use super::axes::Axis;

/// How many colours the templates have for jobs.
pub(crate) const COLOURS: usize = 8;

/// One job's memory.
#[derive(Debug, Serialize)]
pub(crate) struct Area {
    colour: usize,
    name: String,
    path: String,
}

/// The areas of all jobs, along seconds and GiB. They reach down to the axis, and the last job's is
/// the first to be drawn, so that each covers what lies below it.
pub(crate) fn areas(outcome: &Outcome, x: &Axis, y: &Axis) -> Vec<Area> {
    let columns = columns(outcome, x);
    let (left, bottom, end) = (x.ends.0, y.at(0.0), x.at(outcome.window.seconds()));
    let area = |job: usize| {
        let mut path = format!("M{left},{bottom}");
        for (at, sample) in &columns {
            let held = sample.held.iter().take(job + 1).map(|held| gib(*held)).sum();
            // A step: the old height up to here, then the new one.
            let _ = write!(path, "H{at}V{}", y.at(held));
        }
        let _ = write!(path, "H{end}V{bottom}Z");
        Area { colour: job % COLOURS, name: outcome.jobs[job].name.clone(), path }
    };
    (0..outcome.jobs.len()).rev().map(area).collect()
}

/// In GiB, which is what the axes show.
pub(crate) fn gib(bytes: Bytes) -> f64 {
    bytes.value() as f64 / f64::from(1 << 30)
}

/// The samples by where they lie, one in each unit of the view box: that with the largest sum.
fn columns<'o>(outcome: &'o Outcome, x: &Axis) -> Vec<(f64, &'o Sample)> {
    let sum = |sample: &Sample| sample.held.iter().map(|held| held.value()).sum::<u64>();
    let mut columns: Vec<(f64, &Sample)> = Vec::new();
    for sample in outcome.wave.samples() {
        let at = x.at(sample.at.seconds()).floor().max(x.ends.0);
        match columns.last_mut() {
            Some((last, kept)) if *last >= at => {
                if sum(sample) > sum(kept) {
                    *kept = sample;
                }
            }
            _ => columns.push((at, sample)),
        }
    }
    columns
}
