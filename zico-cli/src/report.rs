//! The report: one self-contained HTML file with a picture of the jobs' memory over time.

mod chart;
mod packing;

use minijinja::{AutoEscape, Environment, context};
use zico_core::plan::Block;
use zico_core::{Bytes, Ticks};
use zico_mock::replay::Outcome;

use crate::Failure;
use crate::command::Summary;
use crate::command::plan::{Known, Summary as Packed};

/// The report of a replay.
pub(crate) fn html(summary: &Summary, outcome: &Outcome) -> Result<String, Failure> {
    let environment = environment()?;
    let jobs: Vec<minijinja::Value> = summary.jobs.iter().enumerate().map(job_row).collect();
    let budget = Bytes::new(summary.budget_bytes);
    let violations: Vec<String> =
        outcome.violations.iter().take(20).map(ToString::to_string).collect();
    let page = environment.get_template("report.html")?.render(context! {
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
        conditions => summary.conditions(),
        version => env!("CARGO_PKG_VERSION"),
        jobs,
        chart => minijinja::value::Serde(chart::chart(outcome)),
    })?;
    Ok(page)
}

/// The report of a plan of these blocks.
pub(crate) fn packing(summary: &Packed, blocks: &[Block]) -> Result<String, Failure> {
    let environment = environment()?;
    let size = |bytes: u64| Bytes::new(bytes).to_string();
    let known = |known: &Known| {
        context! { name => known.name, height => size(known.height), over => summary.over(known.height) }
    };
    let page = environment.get_template("packing.html")?.render(context! {
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
    })?;
    Ok(page)
}

fn environment() -> Result<Environment<'static>, Failure> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("style.css", include_str!("report/style.css"))?;
    environment.add_template("report.html", include_str!("report.html"))?;
    environment.add_template("packing.html", include_str!("report/packing.html"))?;
    Ok(environment)
}

fn job_row((i, job): (usize, &crate::command::JobSummary)) -> minijinja::Value {
    context! {
        colour => i % chart::COLOURS,
        name => job.name.as_str(),
        iterations => job.iterations,
        rate => format!("{:.2}", job.iterations_per_second),
        relative => format!("{:.0}", job.relative() * 100.0),
        delay => Ticks::new(nanos(job.mean_delay())).to_string(),
        stalled => Ticks::new(nanos(job.stall_seconds)).to_string(),
        peak => Bytes::new(job.peak_bytes).to_string(),
        kept => Bytes::new(job.persistent_bytes).to_string(),
        failure => job.failure.as_deref(),
    }
}

fn nanos(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let nanos = (seconds * 1e9).round() as u64;
    nanos
}
