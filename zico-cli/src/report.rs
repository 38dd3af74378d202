//! The report: one self-contained HTML file with a picture of the jobs' memory over time.

mod chart;

use minijinja::{AutoEscape, Environment, context};
use zico_core::{Bytes, Ticks};
use zico_mock::replay::Outcome;

use crate::Failure;
use crate::command::Summary;

/// The report of a replay.
pub(crate) fn html(summary: &Summary, outcome: &Outcome) -> Result<String, Failure> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("report.html", include_str!("report.html"))?;
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
