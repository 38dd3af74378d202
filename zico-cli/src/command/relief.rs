//! `zico relief`

use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use zico_core::Bytes;
use zico_plan::relief::{Graph, Strategy, Terms, check, lower_bound, simulate};

use crate::args::Relief as Args;
use crate::relief;
use crate::table::table;
use crate::{Exit, Failure};

/// Plans an iteration within each budget by each strategy.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let options = relief::Options { unit: args.time_unit.nanos(), times: args.times.clone() };
    let relief::Input { graph, name, notes } = relief::open(&args.trace, &options)?;
    for note in notes {
        // Standard error may be closed.
        let _ = writeln!(crate::terminal::stderr(), "zico: {}", crate::terminal::line(&note));
    }
    let strategies: &[Strategy] =
        if args.strategy.is_empty() { &Strategy::ALL } else { &args.strategy };
    let name = name.unwrap_or_else(|| file_name(&args.trace));
    let bar = progress(args.budget.len() * strategies.len());
    let mut summary = Summary {
        name,
        operations: graph.operations().len(),
        storages: graph.storages().len(),
        peak_bytes: graph.peak(),
        seconds: seconds(graph.nanos()),
        rows: Vec::new(),
    };
    for budget in &args.budget {
        for &strategy in strategies {
            bar.set_message(strategy.name());
            summary.rows.push(row(&graph, args, budget.bytes(summary.peak_bytes), strategy));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        summary.print(&mut out)?;
    }
    let fits = |rows: &[Row]| rows.iter().any(|row| row.feasible);
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

fn row(graph: &Graph, args: &Args, budget: u64, strategy: Strategy) -> Row {
    let link = &args.link;
    let before = Instant::now();
    let found = strategy.plan(graph, link, budget, args.work);
    let plan_seconds = before.elapsed().as_secs_f64();
    let bound = lower_bound(graph, strategy.moves().then_some(link), false, budget);
    let mut row = Row {
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
    let outcome = found.and_then(|found| {
        let outcome = simulate(graph, link, &found.steps, budget).ok()?;
        Some((found.steps, outcome))
    });
    if let Some((steps, outcome)) = outcome {
        let terms = Terms { budget, lossy: false };
        let checked = check(graph, link, &steps, &outcome.spans, terms);
        row.feasible = true;
        row.checked = checked == Ok(outcome.peak);
        row.seconds = Some(seconds(outcome.nanos));
        row.peak_bytes = Some(outcome.peak);
        row.moved_bytes = Some(outcome.moved);
        row.recomputed_seconds = Some(seconds(outcome.recomputed));
    }
    row
}

/// What comes of all strategies at all budgets.
#[derive(Debug, Serialize)]
struct Summary {
    name: String,
    operations: usize,
    storages: usize,
    /// As the program was recorded.
    peak_bytes: u64,
    /// Each operation once.
    seconds: f64,
    rows: Vec<Row>,
}

/// A strategy at a budget; without figures where it does not fit.
#[derive(Debug, Serialize)]
struct Row {
    strategy: &'static str,
    budget_bytes: u64,
    feasible: bool,
    seconds: Option<f64>,
    peak_bytes: Option<u64>,
    /// Over the link, both ways.
    moved_bytes: Option<u64>,
    recomputed_seconds: Option<f64>,
    /// None where no plan at all fits in the budget.
    lower_bound_seconds: Option<f64>,
    /// Whether the checker agrees.
    checked: bool,
    plan_seconds: f64,
}

impl Summary {
    fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        writeln!(
            out,
            "{}: {} operations, {} storages, {} at the peak, {:.6} s",
            crate::terminal::line(&self.name),
            self.operations,
            self.storages,
            Bytes::new(self.peak_bytes),
            self.seconds
        )?;
        let mut rows = table(&[
            "strategy",
            "budget",
            "time",
            "over the bound",
            "peak",
            "moved",
            "recomputed s",
            "checked",
            "planned in s",
        ]);
        for row in &self.rows {
            rows.add_row(row.cells(self.seconds));
        }
        writeln!(out, "{rows}")?;
        let legend = "time: of the iteration, over that without relief";
        writeln!(out, "{legend}")?;
        Ok(())
    }
}

impl Row {
    fn cells(&self, base: f64) -> [String; 9] {
        let budget = Bytes::new(self.budget_bytes).to_string();
        let none = || "-".to_owned();
        let ratio = |one: Option<f64>, other: f64| {
            one.map_or_else(none, |one| {
                format!("{:.4}", if other > 0.0 { one / other } else { 1.0 })
            })
        };
        let size =
            |bytes: Option<u64>| bytes.map_or_else(none, |bytes| Bytes::new(bytes).to_string());
        let time =
            if self.feasible { ratio(self.seconds, base) } else { "does not fit".to_owned() };
        let checked = match (self.feasible, self.checked) {
            (true, true) => "yes",
            (true, false) => "NO",
            (false, _) => "-",
        };
        [
            self.strategy.to_owned(),
            budget,
            time,
            self.lower_bound_seconds.map_or_else(none, |bound| ratio(self.seconds, bound)),
            size(self.peak_bytes),
            size(self.moved_bytes),
            self.recomputed_seconds.map_or_else(none, |seconds| format!("{seconds:.6}")),
            checked.to_owned(),
            format!("{:.3}", self.plan_seconds),
        ]
    }
}
