//! Reports: self-contained HTML files with pictures of the jobs' memory over time, and curves.

mod areas;
mod axes;
mod chart;
mod curves;
mod packing;
mod panels;
mod relief;
mod relief_curves;
mod scale;

pub use curves::{Curves, Panel, curves};

use minijinja::{AutoEscape, Environment, context};
use zico_core::Bytes;
use zico_mock::replay::Outcome;
use zico_plan::Block;
use zico_plan::relief::Graph;

use crate::failure::Failure;
use crate::size::ticks;
use crate::summary::{
    BaselineHeight, Comparison, JobSummary, LEGEND, PlanSummary, Planned, RELIEF_HEADER,
    RELIEF_LEGEND, ReliefRow, ReliefSummary, ReplaySummary, Tried, UnderPolicy,
};

/// The report of a replay.
pub(crate) fn replay(summary: &ReplaySummary, outcome: &Outcome) -> Result<String, Failure> {
    let jobs: Vec<minijinja::Value> = summary.jobs.iter().enumerate().map(job_row).collect();
    let budget = Bytes::new(summary.budget_bytes);
    let violations: Vec<String> =
        outcome.violations.iter().take(20).map(ToString::to_string).collect();
    let page = environment()?.get_template("replay.html")?.render(context! {
        title => summary.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>().join(" + "),
        policy => summary.policy,
        budget => budget.to_string(),
        f => format!("{:.2}", summary.f),
        region => Bytes::new(summary.region_bytes).to_string(),
        throughput => format!("{:.2}", summary.total_throughput),
        peak_held => Bytes::new(summary.peak_held_bytes).to_string(),
        peak_live => Bytes::new(summary.peak_live_bytes).to_string(),
        sum_of_peaks => Bytes::new(summary.sum_of_solo_peaks_bytes).to_string(),
        least => Bytes::new(summary.least_budget_bytes).to_string(),
        saved => format!("{:.0}", summary.saved_percent()),
        violation_count => summary.violations,
        violations,
        window => outcome.window.to_string(),
        memory_calls => summary.memory_calls,
        conditions => summary.conditions.to_string(),
        version => env!("CARGO_PKG_VERSION"),
        jobs,
        chart => minijinja::value::Serde(chart::chart(outcome)),
    })?;
    Ok(page)
}

/// The report of a comparison.
pub(crate) fn comparison(
    comparison: &Comparison,
    trials: &[(Bytes, Vec<Tried>)],
) -> Result<String, Failure> {
    let names: Vec<&str> = comparison.jobs.iter().map(|job| job.name.as_str()).collect();
    let jobs = comparison.jobs.iter().enumerate().map(|(i, job)| {
        context! {
            colour => i % areas::COLOURS,
            name => job.name.as_str(),
            rate => format!("{:.2}", job.solo_iterations_per_second),
            peak => Bytes::new(job.solo_peak_bytes).to_string(),
            kept => Bytes::new(job.kept_bytes).to_string(),
        }
    });
    let budgets = comparison.budgets.iter().zip(trials).map(|(under, (budget, tried))| {
        let (header, cells) = under.table(names.len());
        let row = |(policy, cells): (&UnderPolicy, Vec<String>)| {
            context! {
                name => policy.policy,
                best => policy.best,
                cells => cells,
                throughput => policy.figures.as_ref().map(|f| format!("{:.3}", f.total_throughput)),
                held => policy.figures.as_ref().map(|f| Bytes::new(f.peak_held_bytes).to_string()),
                reason => policy.reason.as_deref(),
            }
        };
        context! {
            title => under.title(),
            header => header,
            rows => under.policies.iter().zip(cells).map(row).collect::<Vec<_>>(),
            picture => minijinja::value::Serde(panels::panels(*budget, tried)),
        }
    });
    Ok(environment()?.get_template("comparison.html")?.render(context! {
        title => names.join(" + "),
        iterations => comparison.iterations,
        hand_over => comparison.hand_over.as_str(),
        region => Bytes::new(comparison.region_bytes).to_string(),
        least => Bytes::new(comparison.least_budget_bytes).to_string(),
        sum_of_peaks => Bytes::new(comparison.sum_of_solo_peaks_bytes).to_string(),
        conditions => comparison.conditions.to_string(),
        legend => LEGEND,
        version => env!("CARGO_PKG_VERSION"),
        jobs => jobs.collect::<Vec<_>>(),
        budgets => budgets.collect::<Vec<_>>(),
    })?)
}

/// The report of a plan of these blocks.
pub(crate) fn packing(summary: &PlanSummary, blocks: &[Block]) -> Result<String, Failure> {
    let size = |bytes: u64| Bytes::new(bytes).to_string();
    let known = |known: &BaselineHeight| {
        context! { name => known.name, height => size(known.height), over => summary.over(known.height) }
    };
    Ok(environment()?.get_template("packing.html")?.render(context! {
        name => summary.name.as_str(),
        blocks => summary.blocks,
        verdict => summary.verdict(),
        height => size(summary.height),
        bound => size(summary.lower_bound),
        over => summary.over(summary.height),
        milliseconds => format!("{:.1}", summary.seconds * 1e3),
        work => summary.work,
        baselines => summary.baselines.iter().map(known).collect::<Vec<_>>(),
        version => env!("CARGO_PKG_VERSION"),
        chart => minijinja::value::Serde(packing::chart(summary, blocks)),
    })?)
}

/// The report of relief: strategies at each budget, with the fastest plan of each.
pub(crate) fn relief(
    summary: &ReliefSummary,
    link: &str,
    graph: &Graph,
    names: &[String],
    best: &[(u64, Option<Planned>)],
) -> Result<String, Failure> {
    let over = |bytes: u64| bytes as f64 / summary.peak_bytes.max(1) as f64;
    let mut strategies: Vec<relief_curves::Curve> = Vec::new();
    for row in &summary.rows {
        let time = row.seconds.map(|seconds| seconds / summary.seconds.max(1e-12));
        let point = (over(row.budget_bytes), time);
        match strategies.iter_mut().find(|(name, _)| name == row.strategy) {
            Some((_, points)) => points.push(point),
            None => strategies.push((row.strategy.to_owned(), vec![point])),
        }
    }
    let count = strategies.len().max(1);
    let budgets = best.iter().zip(summary.rows.chunks(count)).map(|((budget, planned), rows)| {
        let best = planned.as_ref().map(|planned| planned.strategy);
        let row = |row: &ReliefRow| {
            context! { best => best == Some(row.strategy), cells => row.cells(summary.seconds) }
        };
        let chart = planned.as_ref().map(|planned| {
            let (steps, outcome) = (&planned.steps, &planned.outcome);
            let drawn = relief::Drawn { graph, names, steps, outcome, budget: *budget };
            minijinja::value::Serde(relief::chart(&drawn))
        });
        context! {
            title => format!("{} ({:.2} of the peak)", Bytes::new(*budget), over(*budget)),
            rows => rows.iter().map(row).collect::<Vec<_>>(),
            best,
            chart,
        }
    });
    let budgets: Vec<minijinja::Value> = budgets.collect();
    Ok(environment()?.get_template("relief.html")?.render(context! {
        name => summary.name.as_str(),
        operations => summary.operations,
        storages => summary.storages,
        peak => Bytes::new(summary.peak_bytes).to_string(),
        seconds => format!("{:.6}", summary.seconds),
        link,
        header => RELIEF_HEADER,
        legend => RELIEF_LEGEND,
        version => env!("CARGO_PKG_VERSION"),
        budgets,
        curves => minijinja::value::Serde(relief_curves::curves(strategies)),
    })?)
}

fn environment() -> Result<Environment<'static>, Failure> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    for (name, template) in [
        ("style.css", include_str!("style.css")),
        ("replay.html", include_str!("replay.html")),
        ("curves.svg", include_str!("curves.svg")),
        ("comparison.html", include_str!("comparison.html")),
        ("packing.html", include_str!("packing.html")),
        ("relief.html", include_str!("relief.html")),
    ] {
        environment.add_template(name, template)?;
    }
    Ok(environment)
}

fn job_row((i, job): (usize, &JobSummary)) -> minijinja::Value {
    context! {
        colour => i % areas::COLOURS,
        name => job.name.as_str(),
        iterations => job.iterations,
        rate => format!("{:.2}", job.iterations_per_second),
        relative => format!("{:.0}", job.relative * 100.0),
        delay => ticks(job.mean_delay()).to_string(),
        stalled => ticks(job.stall_seconds).to_string(),
        peak => Bytes::new(job.peak_bytes).to_string(),
        kept => Bytes::new(job.kept_bytes).to_string(),
        failure => job.failure.as_deref(),
    }
}
