//! The results of a replay in real time: as JSON for scripts, as tables for people.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zico_core::{Bytes, Counts};
use zico_cuda::CallCost;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::table;
use crate::terminal::{line, stdout};

/// The results.
pub(crate) struct Outcome {
    pub(super) device: String,
    pub(super) policy: &'static str,
    pub(super) budget: Bytes,
    pub(super) region: Bytes,
    pub(super) window: Duration,
    pub(super) held: Bytes,
    pub(super) counts: Counts,
    pub(super) checked: u64,
    pub(super) mismatches: u64,
    pub(super) calls: Vec<CallCost>,
    pub(super) jobs: Vec<JobOutcome>,
}

/// The results of one job.
#[derive(Serialize, Deserialize)]
pub(super) struct JobOutcome {
    pub(super) name: String,
    pub(super) iterations: u64,
    /// When each of its iterations ended, from the moment that the jobs began.
    pub(super) ends: Vec<Duration>,
    pub(super) start_delay: Duration,
    pub(super) stalled: Duration,
    pub(super) persistent: Bytes,
    /// With what it carried over from one iteration to the next.
    pub(super) kept: Bytes,
    pub(super) peak: Bytes,
    /// What its process has said to the broker, if it has one of its own.
    pub(super) messages: Option<u64>,
    pub(super) failure: Option<String>,
}

impl JobOutcome {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            iterations: 0,
            ends: Vec::new(),
            start_delay: Duration::ZERO,
            stalled: Duration::ZERO,
            persistent: Bytes::ZERO,
            kept: Bytes::ZERO,
            peak: Bytes::ZERO,
            messages: None,
            failure: None,
        }
    }
}

/// Prints it. All is well if every pattern held and every job did its iterations.
pub(crate) fn show(outcome: &Outcome, json: bool) -> Result<Exit, Failure> {
    let mut out = stdout();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&Json::new(outcome))?)?;
    } else {
        outcome.print(&mut out)?;
    }
    let fine = outcome.mismatches == 0 && outcome.jobs.iter().all(|job| job.failure.is_none());
    Ok(if fine { Exit::Fine } else { Exit::Bad })
}

impl Outcome {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { device, policy, budget, region, .. } = self;
        writeln!(out, "{device}, policy {policy}, budget {budget}, regions of {region}\n")?;
        let in_processes = self.jobs.iter().any(|job| job.messages.is_some());
        let last = if in_processes { &["messages/iter."][..] } else { &[] };
        let mut jobs =
            table(&[&["job", "iter.", "per s", "delay", "stalled", "peak", "kept"], last].concat());
        for job in &self.jobs {
            let mut row = vec![
                job.name.clone(),
                job.iterations.to_string(),
                format!("{:.2}", job.iterations as f64 / self.window.as_secs_f64()),
                format!("{:.1} ms", job.start_delay.as_secs_f64() * 1e3),
                format!("{:.1} ms", job.stalled.as_secs_f64() * 1e3),
                job.peak.to_string(),
                job.kept.to_string(),
            ];
            if in_processes {
                let iterations = job.iterations.max(1) as f64;
                row.push(format!("{:.1}", job.messages.unwrap_or(0) as f64 / iterations));
            }
            jobs.add_row(row);
        }
        writeln!(out, "{jobs}\n")?;
        let mut calls = table(&["driver call", "calls", "mean", "longest", "in all"]);
        for cost in &self.calls {
            calls.add_row([
                cost.function.to_owned(),
                cost.calls.to_string(),
                cost.mean().to_string(),
                cost.longest.to_string(),
                cost.total.to_string(),
            ]);
        }
        if !self.calls.is_empty() {
            writeln!(out, "{calls}\n")?;
        }
        for (what, figure) in [
            ("peak held", self.held.to_string()),
            ("patterns checked", self.checked.to_string()),
            ("that were wrong", self.mismatches.to_string()),
            ("regions created, mapped, unmapped", {
                let Counts { creates, maps, unmaps, .. } = self.counts;
                format!("{creates}, {maps}, {unmaps}")
            }),
            ("time", format!("{:.2} s", self.window.as_secs_f64())),
        ] {
            writeln!(out, "{what:>34}  {figure}")?;
        }
        for job in &self.jobs {
            if let Some(failure) = &job.failure {
                writeln!(out, "{} failed: {failure}", line(&job.name))?;
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Json<'o> {
    device: &'o str,
    policy: &'static str,
    budget_bytes: u64,
    region_bytes: u64,
    seconds: f64,
    peak_held_bytes: u64,
    creates: u64,
    maps: u64,
    unmaps: u64,
    patterns_checked: u64,
    mismatches: u64,
    calls: Vec<CallJson>,
    jobs: Vec<JobJson<'o>>,
}

#[derive(Serialize)]
struct CallJson {
    function: &'static str,
    calls: u64,
    total_seconds: f64,
    longest_seconds: f64,
}

#[derive(Serialize)]
struct JobJson<'o> {
    name: &'o str,
    iterations: u64,
    iteration_ends_seconds: Vec<f64>,
    start_delay_seconds: f64,
    stall_seconds: f64,
    peak_bytes: u64,
    persistent_bytes: u64,
    kept_bytes: u64,
    messages: Option<u64>,
    failure: Option<&'o str>,
}

impl<'o> Json<'o> {
    fn new(outcome: &'o Outcome) -> Self {
        let call = |cost: &CallCost| CallJson {
            function: cost.function,
            calls: cost.calls,
            total_seconds: cost.total.seconds(),
            longest_seconds: cost.longest.seconds(),
        };
        let job = |job: &'o JobOutcome| JobJson {
            name: &job.name,
            iterations: job.iterations,
            iteration_ends_seconds: job.ends.iter().map(Duration::as_secs_f64).collect(),
            start_delay_seconds: job.start_delay.as_secs_f64(),
            stall_seconds: job.stalled.as_secs_f64(),
            peak_bytes: job.peak.value(),
            persistent_bytes: job.persistent.value(),
            kept_bytes: job.kept.value(),
            messages: job.messages,
            failure: job.failure.as_deref(),
        };
        Self {
            device: &outcome.device,
            policy: outcome.policy,
            budget_bytes: outcome.budget.value(),
            region_bytes: outcome.region.value(),
            seconds: outcome.window.as_secs_f64(),
            peak_held_bytes: outcome.held.value(),
            creates: outcome.counts.creates,
            maps: outcome.counts.maps,
            unmaps: outcome.counts.unmaps,
            patterns_checked: outcome.checked,
            mismatches: outcome.mismatches,
            calls: outcome.calls.iter().map(call).collect(),
            jobs: outcome.jobs.iter().map(job).collect(),
        }
    }
}
