//! `zico relief`

use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zico_plan::relief::{Graph, Strategy, Terms, check, lower_bound, simulate};

use crate::args::Relief as Args;
use crate::output::Output;
use crate::summary::{Planned, ReliefRow, ReliefSummary};
use crate::{Exit, Failure, relief, report};

/// Plans an iteration within each budget by each strategy.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let options = relief::Options { unit: args.time_unit.nanos(), times: args.times.clone() };
    let file = Output::of(args.report.as_deref(), args.force, [&args.trace])?;
    let relief::Input { graph, name, names, notes } = relief::open(&args.trace, &options)?;
    let graph = if args.resident { graph.with_resident_state() } else { graph };
    for note in notes.into_iter().filter(|_| !args.json) {
        // Standard error may be closed.
        let _ = writeln!(crate::terminal::stderr(), "zico: {}", crate::terminal::line(&note));
    }
    let strategies: &[Strategy] =
        if args.strategy.is_empty() { &Strategy::ALL } else { &args.strategy };
    let name = name.unwrap_or_else(|| file_name(&args.trace));
    let bar = progress(args.budget.len() * strategies.len());
    let mut summary = ReliefSummary {
        name,
        operations: graph.operations().len(),
        storages: graph.storages().len(),
        peak_bytes: graph.peak(),
        working_set_bytes: graph.working_set(),
        resident_set_bytes: graph.resident_set(),
        seconds: seconds(graph.nanos()),
        rows: Vec::new(),
    };
    // Of each budget the fastest plan, to be drawn.
    let mut best = Vec::with_capacity(args.budget.len());
    for budget in &args.budget {
        let budget = budget.bytes(summary.peak_bytes);
        let mut fastest: Option<Planned> = None;
        let first = summary.rows.len();
        for &strategy in strategies {
            bar.set_message(strategy.name());
            let (row, planned) = match row_of_same_plan(&graph, strategy, &summary.rows[first..]) {
                Some(row) => (row, None),
                None => row(&graph, args, budget, strategy),
            };
            summary.rows.push(row);
            let nanos = |planned: &Planned| planned.outcome.nanos;
            if planned.as_ref().is_some_and(|new| {
                fastest.as_ref().is_none_or(|fastest| nanos(new) < nanos(fastest))
            }) {
                fastest = planned;
            }
            bar.inc(1);
        }
        best.push((budget, fastest));
    }
    bar.finish_and_clear();
    if let Some(file) = file {
        let link = link(args);
        file.write(&report::relief(&summary, &link, &graph, &names, &best)?)?;
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        summary.print(&mut out)?;
        if let Some(path) = &args.report {
            writeln!(out, "Report: {}", path.display())?;
        }
    }
    let fits = |rows: &[ReliefRow]| rows.iter().any(|row| row.feasible);
    let all = summary.rows.chunks(strategies.len()).all(fits);
    Ok(if all { Exit::Fine } else { Exit::Bad })
}

/// The file's name up to its first dot.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// A bar where somebody is looking.
fn progress(rows: usize) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(10);
    let bar = ProgressBar::with_draw_target(Some(rows as u64), target);
    // A template that cannot be read leaves the default look.
    let style = "planning, {msg} {spinner} {wide_bar} {pos}/{len}, {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The link in words.
fn link(args: &Args) -> String {
    let rate = |rate: u64| rate as f64 / 1e9;
    format!("{} GB/s out, {} GB/s back", rate(args.link.out), rate(args.link.back))
}

/// The row of a strategy, if another one of these rows is of the same plan: where no encoding is
/// lossy, none can be used.
fn row_of_same_plan(graph: &Graph, strategy: Strategy, rows: &[ReliefRow]) -> Option<ReliefRow> {
    if strategy != Strategy::ZicoLossy || graph.has_lossy_encodings() {
        return None;
    }
    let exact = rows.iter().find(|row| row.strategy == Strategy::Zico.name())?;
    Some(ReliefRow { strategy: strategy.name(), ..exact.clone() })
}

fn row(
    graph: &Graph,
    args: &Args,
    budget: u64,
    strategy: Strategy,
) -> (ReliefRow, Option<Planned>) {
    let link = &args.link;
    let before = Instant::now();
    let found = strategy.plan(graph, link, budget, args.work);
    let plan_seconds = before.elapsed().as_secs_f64();
    let bound = lower_bound(graph, strategy.moves().then_some(link), true, budget);
    let mut row = ReliefRow {
        strategy: strategy.name(),
        budget_bytes: budget,
        feasible: false,
        seconds: None,
        peak_bytes: None,
        moved_bytes: None,
        recomputed_seconds: None,
        lower_bound_seconds: bound.map(seconds),
        checked: false,
        plan_seconds,
    };
    let planned = found.and_then(|found| {
        let outcome = simulate(graph, link, &found.steps, budget).ok()?;
        Some(Planned { strategy: strategy.name(), steps: found.steps, outcome })
    });
    if let Some(Planned { steps, outcome, .. }) = &planned {
        let terms = Terms { budget, lossy: strategy.lossy() };
        let checked = check(graph, link, steps, &outcome.spans, terms);
        row.feasible = true;
        row.checked = checked == Ok(outcome.peak);
        row.seconds = Some(seconds(outcome.nanos));
        row.peak_bytes = Some(outcome.peak);
        row.moved_bytes = Some(outcome.moved);
        row.recomputed_seconds = Some(seconds(outcome.recomputed));
    }
    (row, planned)
}
