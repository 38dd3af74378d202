//! The figures of a replay: as JSON for scripts, as tables for people.

use std::io::{self, Write};

use serde::Serialize;
use zico_core::Bytes;
use zico_mock::replay::{Figures, Needs, Outcome, ReplayConfig};

use super::conditions::Conditions;
use crate::table::{table, wrapped};
use crate::terminal::line;

/// The figures of a replay. Bytes are bytes, times are seconds of the simulated device.
#[derive(Debug, Serialize)]
pub(crate) struct ReplaySummary {
    pub(crate) policy: &'static str,
    pub(crate) budget_bytes: u64,
    /// Where the budget stands between the least one (0) and the sum of the peaks (1).
    pub(crate) f: f64,
    pub(crate) region_bytes: u64,
    /// The most physical memory that the device gave out.
    pub(crate) peak_held_bytes: u64,
    /// The largest sum of live bytes as requested.
    pub(crate) peak_live_bytes: u64,
    pub(crate) sum_of_solo_peaks_bytes: u64,
    /// L: the least budget under which these jobs can share.
    pub(crate) least_budget_bytes: u64,
    pub(crate) violations: u64,
    pub(crate) makespan_seconds: f64,
    /// The sum over jobs of the rate over the rate alone.
    pub(crate) total_throughput: f64,
    pub(crate) steps: u64,
    pub(crate) memory_calls: u64,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    pub(crate) jobs: Vec<JobSummary>,
}

/// The figures of one job.
#[derive(Debug, Serialize)]
pub(crate) struct JobSummary {
    pub(crate) name: String,
    /// What is charged to it for persistent blocks, in whole regions.
    pub(crate) persistent_bytes: u64,
    /// The most that was charged to it between iterations: with what it carries over.
    pub(crate) kept_bytes: u64,
    pub(crate) solo_peak_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) iterations: u64,
    pub(crate) iterations_per_second: f64,
    pub(crate) solo_iterations_per_second: f64,
    /// The rate over the rate alone.
    pub(crate) relative: f64,
    /// Waiting for iterations to start, summed.
    pub(crate) start_delay_seconds: f64,
    /// Waiting for memory within iterations, summed.
    pub(crate) stall_seconds: f64,
    pub(crate) failure: Option<String>,
}

impl JobSummary {
    /// The mean delay of an iteration's start, in seconds.
    pub(crate) fn mean_delay(&self) -> f64 {
        self.start_delay_seconds / self.iterations.max(1) as f64
    }
}

impl ReplaySummary {
    pub(crate) fn new(outcome: &Outcome, needs: &Needs, config: &ReplayConfig) -> Self {
        let figures = Figures::new(outcome, needs);
        let jobs = outcome.jobs.iter().zip(&needs.solos).zip(&figures.relative);
        let jobs = jobs.map(|((job, solo), &relative)| JobSummary {
            name: job.name.clone(),
            persistent_bytes: job.persistent.value(),
            kept_bytes: job.kept.value(),
            solo_peak_bytes: solo.peak.value(),
            peak_bytes: job.peak.value(),
            iterations: job.iterations,
            iterations_per_second: outcome.rate(job),
            solo_iterations_per_second: solo.rate,
            relative,
            start_delay_seconds: job.start_delay.seconds(),
            stall_seconds: job.stalled.seconds(),
            failure: job.failure.clone(),
        });
        Self {
            policy: outcome.policy,
            budget_bytes: outcome.budget.value(),
            f: needs.f_of(outcome.budget),
            region_bytes: outcome.region.value(),
            peak_held_bytes: outcome.peak_held.value(),
            peak_live_bytes: outcome.peak_live.value(),
            sum_of_solo_peaks_bytes: needs.sum.value(),
            least_budget_bytes: needs.least.value(),
            violations: outcome.violation_count,
            makespan_seconds: outcome.window.seconds(),
            total_throughput: figures.throughput,
            steps: outcome.steps,
            memory_calls: outcome.memory_calls,
            conditions: Conditions::from(&config.machine),
            jobs: jobs.collect(),
        }
    }

    /// No violation, and every job finished its iterations.
    pub(crate) fn is_fine(&self) -> bool {
        self.violations == 0 && self.jobs.iter().all(|job| job.failure.is_none())
    }

    /// How much less than the sum of the jobs' peaks was held, in percent.
    pub(crate) fn saved_percent(&self) -> f64 {
        let sum = self.sum_of_solo_peaks_bytes.max(1) as f64;
        (1.0 - self.peak_held_bytes as f64 / sum) * 100.0
    }

    /// Tables for people; `speed` is steps replayed per second of real time.
    pub(crate) fn print(
        &self,
        out: &mut impl Write,
        outcome: &Outcome,
        speed: f64,
    ) -> io::Result<()> {
        writeln!(
            out,
            "Policy {}, budget {} (f = {:.2}), regions of {}\n{}\n",
            self.policy,
            Bytes::new(self.budget_bytes),
            self.f,
            Bytes::new(self.region_bytes),
            wrapped(&self.conditions.to_string()),
        )?;
        self.print_jobs(out)?;
        writeln!(out)?;
        self.print_whole(out, speed)?;
        for violation in outcome.violations.iter().take(5) {
            writeln!(out, "violation: {violation}")?;
        }
        for job in &self.jobs {
            if let Some(failure) = &job.failure {
                writeln!(out, "{} failed: {failure}", line(&job.name))?;
            }
        }
        Ok(())
    }

    fn print_jobs(&self, out: &mut impl Write) -> io::Result<()> {
        let mut jobs =
            table(&["job", "iter.", "per s", "of alone", "delay", "stalled", "peak", "kept"]);
        for job in &self.jobs {
            jobs.add_row([
                job.name.clone(),
                job.iterations.to_string(),
                format!("{:.2}", job.iterations_per_second),
                format!("{:.0}%", job.relative * 100.0),
                format!("{:.1} ms", job.mean_delay() * 1e3),
                format!("{:.1} ms", job.stall_seconds * 1e3),
                Bytes::new(job.peak_bytes).to_string(),
                Bytes::new(job.kept_bytes).to_string(),
            ]);
        }
        writeln!(out, "{jobs}")?;
        writeln!(
            out,
            "delay: waiting for a start, mean of an iteration; stalled: waiting for memory\n\
             within iterations, in all; kept: charged between iterations"
        )
    }

    fn print_whole(&self, out: &mut impl Write, speed: f64) -> io::Result<()> {
        let sum = Bytes::new(self.sum_of_solo_peaks_bytes);
        for (what, figure) in [
            ("throughput", format!("{:.2} of one job alone", self.total_throughput)),
            ("peak held", Bytes::new(self.peak_held_bytes).to_string()),
            ("budget", Bytes::new(self.budget_bytes).to_string()),
            (
                "sum of the jobs' peaks",
                format!("{sum} ({:.0}% less was held)", self.saved_percent()),
            ),
            ("peak of live bytes", Bytes::new(self.peak_live_bytes).to_string()),
            ("least budget for these jobs", Bytes::new(self.least_budget_bytes).to_string()),
            ("violations", self.violations.to_string()),
            ("time on the device", format!("{:.2} s", self.makespan_seconds)),
            ("device memory calls", self.memory_calls.to_string()),
            ("replayed", format!("{} steps at {:.1} million a second", self.steps, speed / 1e6)),
        ] {
            writeln!(out, "{what:>28}  {figure}")?;
        }
        Ok(())
    }
}
