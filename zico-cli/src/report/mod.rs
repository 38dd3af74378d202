//! Reports: self-contained HTML files with pictures of the jobs' memory over time, and curves.

mod areas;
mod axes;
mod chart;
mod curves;
mod packing;
mod panels;
mod scale;

pub use curves::{Curves, Panel, curves};

use minijinja::{AutoEscape, Environment, context};
use zico_core::Bytes;
use zico_mock::replay::Outcome;
use zico_plan::Block;

use crate::failure::Failure;
use crate::size::ticks;
use crate::summary::{
    BaselineHeight, Comparison, JobSummary, LEGEND, PlanSummary, ReplaySummary, Tried, UnderBudget,
    UnderPolicy,
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
        let row = |policy: &UnderPolicy| {
            context! {
                name => policy.policy,
                best => policy.best,
                cells => policy.cells(names.len()),
                throughput => policy.figures.as_ref().map(|f| format!("{:.3}", f.total_throughput)),
                held => policy.figures.as_ref().map(|f| Bytes::new(f.peak_held_bytes).to_string()),
                reason => policy.reason.as_deref(),
            }
        };
        context! {
            title => under.title(),
            header => UnderBudget::header(names.len()),
            rows => under.policies.iter().map(row).collect::<Vec<_>>(),
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

fn environment() -> Result<Environment<'static>, Failure> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    for (name, template) in [
        ("style.css", include_str!("style.css")),
        ("replay.html", include_str!("replay.html")),
        ("curves.svg", include_str!("curves.svg")),
        ("comparison.html", include_str!("comparison.html")),
        ("packing.html", include_str!("packing.html")),
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
