//! `zico plan`

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zico_core::Bytes;
use zico_plan::{Block, Plan, PlanError, Planner};

use crate::args::Plan as Args;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::Problem;
use crate::output::Output;
use crate::report;
use crate::summary::PlanSummary;
use crate::terminal::stdout;

/// The planner's steps between two updates of the progress bar.
const SLICE: u64 = 1 << 24;

/// Plans blocks and prints the plan's quality.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let file = Output::of(args.report.as_deref(), args.force, [&args.file])?;
    let problem = Problem::open(&args.file, &args.recording)?;
    let refused = |source: PlanError| Failure::Plan { name: problem.name.clone(), source };
    let before = Instant::now();
    let plan = work(args, &problem.blocks).map_err(refused)?;
    let seconds = before.elapsed().as_secs_f64();
    let summary = PlanSummary::new(args, &problem, plan, seconds).map_err(refused)?;
    if let Some(file) = file {
        file.write(&report::packing(&summary, &problem.blocks)?)?;
    }
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        summary.print(&mut out)?;
        if let Some(path) = &args.report {
            writeln!(out, "Report: {}", path.display())?;
        }
    }
    Ok(if summary.feasible { Exit::Fine } else { Exit::Bad })
}

/// Runs the planner in slices, and shows the progress.
fn work(args: &Args, blocks: &[Block]) -> Result<Plan, PlanError> {
    let bar = progress(args.work);
    let mut planner = Planner::new(blocks)?
        .capacity(args.capacity.map(Bytes::value))
        .regions(args.region_size.map(Bytes::value));
    let mut left = args.work;
    loop {
        planner = planner.work(left.min(SLICE));
        let plan = planner.run();
        bar.set_position(plan.work);
        bar.set_message(format!("{:.4} of the bound", plan.gap()));
        let done = plan.work.saturating_sub(args.work - left);
        if done == 0 || plan.work >= args.work {
            bar.finish_and_clear();
            return Ok(plan);
        }
        left = args.work - plan.work;
    }
}

/// A progress bar if standard error is a terminal.
fn progress(steps: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    // A template that cannot be read leaves the default look.
    let style = "planning, {msg} {spinner} {wide_bar} {human_pos}/{human_len} steps, {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.set_message("first plan");
    // The first plan of a million blocks takes seconds.
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
