//! Some sets of recorded jobs in detail.

use std::error::Error;
use std::fmt::Write;
use std::time::Instant;

use zico_core::HandOver;
use zico_mock::bundled;
use zico_mock::replay::{Figures, PolicyKind, ReplayConfig, ReplayError, Trial};

use super::{Set, bundled_traces, gib, in_parallel, name};
use crate::table::table;

const SETS: [&[&str]; 4] = [
    &["resnet50", "bert-base"],
    &["mobilenet_v2", "resnet110-cifar"],
    &["gpt2-small", "nasnetalarge"],
    &["resnet50", "bert-base", "mobilenet_v2", "gpt2-small"],
];

/// The sets as numbers of bundled traces.
fn numbers(sets: &[&[&str]]) -> Vec<Vec<usize>> {
    let number = |name: &&str| bundled::names().position(|bundled| bundled == *name);
    sets.iter().map(|names| names.iter().filter_map(number).collect()).collect()
}

/// Zico at four budgets, and how fast that is replayed: one replay after the other.
///
/// # Errors
/// If a replay fails.
pub fn sets(iterations: u64) -> Result<String, Box<dyn Error>> {
    let traces = bundled_traces()?;
    let mut text = String::new();
    for set in Set::all(&traces, &numbers(&SETS), iterations)? {
        let (l, s) = (gib(set.needs.least), gib(set.needs.sum));
        writeln!(text, "### {}\n", set.name)?;
        writeln!(text, "L = {l:.2} GiB, S = {s:.2} GiB, regions of {}.\n", set.needs.region)?;
        let mut rows = table(&[
            "f",
            "budget GiB",
            "peak held GiB",
            "throughput zico",
            "exclusive",
            "start delay",
            "stalled",
            "violations",
            "device memory calls / iteration",
            "M steps / s",
        ]);
        for f in [1.0, 0.5, 0.25, 0.1] {
            rows.add_row(row(&set, f)?);
        }
        writeln!(text, "{rows}\n")?;
    }
    Ok(text)
}

fn row(set: &Set<'_>, f: f64) -> Result<Vec<String>, Box<dyn Error>> {
    let before = Instant::now();
    let zico = set.under(PolicyKind::Zico, f)?;
    let seconds = before.elapsed().as_secs_f64();
    let exclusive = set.under(PolicyKind::Exclusive, f)?;
    // The same jobs for half as long: what the second half did, learning is left out.
    let config = set.config(PolicyKind::Zico, f);
    let half = set.run(&ReplayConfig { iterations: config.iterations / 2, ..config })?;
    let all = |trial: &Trial| -> Result<(f64, f64, Figures), String> {
        let outcome = trial.outcome().ok_or_else(|| trial.reason().unwrap_or("?").to_owned())?;
        let done = outcome.jobs.iter().map(|job| job.iterations_done).sum();
        Ok((outcome.memory_calls as f64, done, Figures::new(outcome, &set.needs)))
    };
    let (whole, first, turns) = (all(&zico)?, all(&half)?, all(&exclusive)?);
    let (calls, figures) = ((whole.0 - first.0) / (whole.1 - first.1), &whole.2);
    let outcome = zico.outcome().ok_or("no outcome")?;
    Ok(vec![
        f.to_string(),
        format!("{:.2}", gib(outcome.budget)),
        format!("{:.2}", gib(outcome.peak_held)),
        format!("{:.3}", figures.throughput),
        format!("{:.3}", turns.2.throughput),
        percent(figures.start_delay),
        percent(figures.stalled),
        (zico.violations() + exclusive.violations()).to_string(),
        format!("{calls:.0}"),
        format!("{:.2}", outcome.steps as f64 / seconds / 1e6),
    ])
}

/// The throughput under each policy at budgets from plenty to hardly enough and, in brackets, the
/// percentage of the time stalled; a dash where the budget is too small.
///
/// # Errors
/// If a replay fails for a reason that is not the policy's: a defect.
pub fn policies(iterations: u64) -> Result<String, Box<dyn Error>> {
    const BUDGETS: [f64; 5] = [1.0, 0.5, 0.25, 0.1, 0.05];
    let traces = bundled_traces()?;
    let mut text = String::new();
    for set in Set::all(&traces, &numbers(&SETS[..3]), iterations)? {
        let mut work = Vec::new();
        for policy in PolicyKind::ALL {
            work.extend(BUDGETS.map(|f| (policy, f)));
        }
        let cells = in_parallel("policies", &work, |&(policy, f)| {
            let figures = set.figures(&set.under(policy, f)?);
            let cell = |f: Figures| format!("{:.3} ({:.0})", f.throughput, f.stalled * 100.0);
            Ok(figures.map_or_else(|| "-".to_owned(), cell))
        });
        let cells: Vec<String> = cells.into_iter().collect::<Result<_, ReplayError>>()?;
        let mut rows = table(&["policy", "f = 1", "0.5", "0.25", "0.1", "0.05"]);
        for (policy, cells) in PolicyKind::ALL.into_iter().zip(cells.chunks(BUDGETS.len())) {
            rows.add_row([name(policy)].into_iter().chain(cells.iter().map(String::as_str)));
        }
        writeln!(text, "### {}\n\n{rows}\n", set.name)?;
    }
    Ok(text)
}

/// What each form of hand-over costs, at f = 0.25.
///
/// # Errors
/// If a replay fails.
pub fn hand_overs(iterations: u64) -> Result<String, Box<dyn Error>> {
    let traces = bundled_traces()?;
    let all = Set::all(&traces, &numbers(&SETS), iterations)?;
    let mut work = Vec::new();
    for set in &all {
        let forms = [HandOver::Fenced, HandOver::Isolated];
        work.extend(forms.map(|hand_over| (set, hand_over)));
    }
    let trials = in_parallel("hand-over", &work, |&(set, hand_over)| {
        set.handing_over(hand_over, 0.25).map(|trial| (set.figures(&trial), trial))
    });
    let mut rows = table(&[
        "jobs",
        "hand-over",
        "throughput",
        "start delay",
        "stalled",
        "device memory calls / iteration",
    ]);
    for ((set, hand_over), trial) in work.iter().zip(trials) {
        let (figures, trial) = trial?;
        let figures = figures.ok_or_else(|| trial.reason().unwrap_or("?").to_owned())?;
        rows.add_row([
            set.name.clone(),
            format!("{hand_over:?}"),
            format!("{:.3}", figures.throughput),
            percent(figures.start_delay),
            percent(figures.stalled),
            format!("{:.0}", figures.memory_calls),
        ]);
    }
    Ok(rows.to_string())
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
