//! Every pair of recorded jobs and fifteen triples as scripts of PyTorch run them, near the device
//! and far ahead of it.

use std::error::Error;

use zico_mock::replay::{Figures, Machine, PolicyKind, ReplayConfig, ReplayError};

use super::{Set, bundled_traces, in_parallel, pairs, triples};
use crate::table::table;

const BUDGETS: [f64; 4] = [0.1, 0.25, 0.5, 0.9];

/// Launches ahead of the device: as replays are, and as a GPU's queue allows.
const AHEAD: [u64; 2] = [64, 1000];

/// Less of its own rate than this is too little for one of two.
const LEAST_SHARE: f64 = 0.45;

/// What some sets came to at one budget, so far ahead of the device.
#[derive(Default)]
struct Column {
    throughput: f64,
    least: Vec<f64>,
    failed: usize,
}

impl Column {
    fn add(&mut self, figures: Option<&Figures>) {
        let Some(figures) = figures else {
            self.failed += 1;
            return;
        };
        self.throughput += figures.throughput;
        self.least.push(figures.relative.iter().copied().fold(f64::INFINITY, f64::min));
    }

    fn cells(&self) -> [String; 5] {
        let sets = self.least.len() as f64;
        let lowest = self.least.iter().copied().fold(f64::INFINITY, f64::min);
        let below = self.least.iter().filter(|&&share| share < LEAST_SHARE).count();
        [
            format!("{:.3}", self.throughput / sets),
            format!("{:.3}", self.least.iter().sum::<f64>() / sets),
            format!("{lowest:.3}"),
            below.to_string(),
            self.failed.to_string(),
        ]
    }
}

/// For pairs and for triples at each budget: throughput, the least share of a job in its own rate
/// (the mean over the sets, and the lowest), how often that is below 0.45, and how often a job
/// could not run, each 64 and 1000 launches ahead. Lifetimes are learned, and iterations end with
/// the next.
///
/// # Errors
/// If a replay fails for a reason that is not the policy's: a defect.
pub fn lagging(iterations: u64) -> Result<String, Box<dyn Error>> {
    let traces = bundled_traces()?;
    let mut rows = table(&[
        "jobs",
        "f",
        "ahead",
        "throughput",
        "least share",
        "lowest",
        "below 0.45",
        "failed",
    ]);
    for numbers in [pairs(traces.len()), triples()] {
        // Each job's own rate is that so far ahead.
        let on = |ahead| Set::all_on(&traces, &numbers, iterations, &machine(ahead));
        let (near, far) = (on(AHEAD[0])?, on(AHEAD[1])?);
        for f in BUDGETS {
            for (ahead, sets) in AHEAD.into_iter().zip([&near, &far]) {
                let figures = in_parallel("lagging", sets, |set| set.as_a_script(f, ahead));
                let mut column = Column::default();
                for figures in figures {
                    column.add(figures?.as_ref());
                }
                let jobs = format!("{} sets of {}", sets.len(), numbers[0].len());
                let first = [jobs, f.to_string(), ahead.to_string()];
                rows.add_row(first.into_iter().chain(column.cells()));
            }
        }
    }
    Ok(rows.to_string())
}

fn machine(run_ahead: u64) -> Machine {
    Machine { run_ahead, ..Machine::default() }
}

impl Set<'_> {
    fn as_a_script(&self, f: f64, run_ahead: u64) -> Result<Option<Figures>, ReplayError> {
        let config = ReplayConfig {
            learned: true,
            ends_with_next: true,
            machine: machine(run_ahead),
            ..self.config(PolicyKind::Zico, f)
        };
        Ok(self.figures(&self.run(&config)?))
    }
}
