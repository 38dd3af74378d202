//! `zico replay`

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zico_core::{Bytes, PoolConfig};
use zico_mock::replay::{Needs, PolicyKind, ReplayConfig, needs, replay};
use zico_mock::trace::Trace;

use super::Summary;
use crate::args::Replay;
use crate::load::load_all;
use crate::report;
use crate::size::Budget;
use crate::{Exit, Failure};

/// The granularity of the device that jobs are replayed on.
const GRANULARITY: Bytes = Bytes::mib(2);

/// Replays the jobs and says how it went.
pub(crate) fn run(args: &Replay) -> Result<Exit, Failure> {
    let loaded = load_all(&args.traces)?;
    let traces: Vec<&Trace> = loaded.iter().collect();
    let machine = args.machine.machine();
    let region = args.region_size.or(match args.budget {
        Budget::Size(budget) => Some(PoolConfig::new(budget).region_for(GRANULARITY)),
        Budget::Share(_) => None,
    });
    let bar = progress("alone", 0);
    let needs = needs(&traces, region, args.iterations, &machine)?;
    bar.finish_and_clear();
    let budget = match args.budget {
        Budget::Size(budget) => budget,
        Budget::Share(f) => needs.budget_at(f),
    };
    let policy = PolicyKind::from(args.policy);
    check(policy, budget, &needs, &traces)?;
    let jobs = if policy == PolicyKind::Static { needs.shares(budget) } else { Vec::new() };
    let config = ReplayConfig {
        budget,
        region: Some(needs.region),
        policy,
        jobs,
        detect: false,
        hand_over: args.hand_over.into(),
        iterations: args.iterations,
        machine,
    };
    let bar = progress("together", args.iterations * traces.len() as u64);
    let before = Instant::now();
    let outcome = replay(&traces, &config, &mut |done| bar.set_position(done))?;
    let speed = outcome.steps as f64 / before.elapsed().as_secs_f64();
    bar.finish_and_clear();

    let summary = Summary::new(&outcome, &needs, &config);
    if let Some(path) = &args.report {
        let html = report::html(&summary, &outcome)?;
        let failed = |source| Failure::Write { path: path.clone(), source };
        std::fs::write(path, html).map_err(failed)?;
    }
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        summary.print(&mut out, &outcome, speed)?;
        if let Some(path) = &args.report {
            writeln!(out, "Report: {}", path.display())?;
        }
    }
    Ok(if summary.is_fine() { Exit::Fine } else { Exit::Bad })
}

/// Refuses what cannot work, and says which job needs what.
fn check(
    policy: PolicyKind,
    budget: Bytes,
    needs: &Needs,
    traces: &[&Trace],
) -> Result<(), Failure> {
    let (least, why) = if policy.needs_every_peak() {
        (needs.sum, "each keeps its own peak, so that is the sum of the peaks")
    } else {
        let why = "the largest, over the jobs, of a job's own peak and what the others keep between \
                   their iterations";
        (needs.least, why)
    };
    // A budget counts in whole regions.
    let usable = Bytes::new(budget.value() / needs.region.value() * needs.region.value());
    if usable >= least {
        return Ok(());
    }
    let mut text = format!(
        "a budget of {budget} is {} too small for these jobs. They need {least}: {why}.\n",
        least.saturating_sub(usable),
    );
    for (trace, solo) in traces.iter().zip(&needs.solos) {
        text += &format!(
            "  {}: {} at its peak, {} of it kept between iterations\n",
            trace.name(),
            solo.peak,
            solo.persistent,
        );
    }
    text += &format!("(counted in regions of {}; `zico inspect` shows the same)", needs.region);
    Err(Failure::CannotShare(text))
}

/// A bar, or a spinner where nobody knows how long it takes; nothing where nobody is looking.
fn progress(what: &'static str, of: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target((of > 0).then_some(of), ProgressDrawTarget::stderr());
    let template = if of > 0 {
        "replaying {msg} {wide_bar} {pos}/{len} iterations, {eta} left"
    } else {
        "replaying each {msg} {spinner} {elapsed}"
    };
    // A template that cannot be read leaves the default look.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
