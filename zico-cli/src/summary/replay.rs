//! The figures of a replay: as JSON for scripts, as tables for people.

use std::io::{self, Write};
use std::iter;

use serde::Serialize;
use zico_core::Bytes;
use zico_mock::replay::{Figures, Needs, Outcome, Relieved, ReplayConfig};

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
    /// What copies took to the host, of relief and of turns.
    pub(crate) moved_out_bytes: u64,
    /// And back.
    pub(crate) moved_back_bytes: u64,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    /// With `--relief`.
    pub(crate) relief: Option<ReliefOfReplay>,
    pub(crate) jobs: Vec<JobSummary>,
}

/// How jobs were relieved.
#[derive(Debug, Serialize)]
pub(crate) struct ReliefOfReplay {
    pub(crate) strategy: &'static str,
    pub(crate) link_out_bytes_per_second: u64,
    pub(crate) link_back_bytes_per_second: u64,
    /// The share of what no job keeps that each may have at once.
    pub(crate) share: f64,
    /// The jobs run by turns of some iterations, between which what persists is on the host.
    pub(crate) in_turns: bool,
    /// The throughput of one job at a time, alone in the budget, with a plan if it needs one; none
    /// where there is no plan.
    pub(crate) one_at_a_time_throughput: Option<f64>,
}

impl ReliefOfReplay {
    fn sharing(&self) -> String {
        if self.in_turns {
            "by turns: what persists of the others is on the host".to_owned()
        } else {
            format!("each job may have {:.0}% of what no job keeps", self.share * 100.0)
        }
    }
}

/// The plan that a job carried out. Times are those of an iteration by itself.
#[derive(Debug, Serialize)]
pub(crate) struct PlanOfJob {
    pub(crate) planned_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) recomputed_seconds: f64,
    pub(crate) moved_bytes: u64,
    /// The iterations of a turn, where jobs run by turns.
    pub(crate) turn_iterations: Option<u64>,
}

impl From<&Relieved> for PlanOfJob {
    fn from(plan: &Relieved) -> Self {
        let outcome = plan.outcome();
        Self {
            planned_bytes: plan.budget().value(),
            peak_bytes: outcome.peak,
            seconds: outcome.nanos as f64 / 1e9,
            recomputed_seconds: outcome.recomputed as f64 / 1e9,
            moved_bytes: outcome.moved,
            turn_iterations: plan.turn(),
        }
    }
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
    /// What its transfers came to in all.
    pub(crate) moved_bytes: u64,
    /// Its plan of relief, if it had one.
    pub(crate) plan: Option<PlanOfJob>,
    pub(crate) failure: Option<String>,
}

impl JobSummary {
    /// The mean delay of an iteration's start, in seconds.
    pub(crate) fn mean_delay(&self) -> f64 {
        self.start_delay_seconds / self.iterations.max(1) as f64
    }
}

impl ReplaySummary {
    pub(crate) fn new(
        outcome: &Outcome,
        needs: &Needs,
        config: &ReplayConfig,
        relief: Option<ReliefOfReplay>,
    ) -> Self {
        let figures = Figures::new(outcome, needs);
        let plans = config.relief.iter().map(Option::as_deref).chain(iter::repeat(None));
        let jobs = outcome.jobs.iter().zip(&needs.solos).zip(&figures.relative).zip(plans);
        let jobs = jobs.map(|(((job, solo), &relative), plan)| JobSummary {
            moved_bytes: job.moved.value(),
            plan: plan.map(PlanOfJob::from),
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
            moved_out_bytes: outcome.traffic.0.value(),
            moved_back_bytes: outcome.traffic.1.value(),
            conditions: Conditions::from(&config.machine),
            relief,
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
        self.print_relief(out)?;
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

    fn print_relief(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(relief) = &self.relief else { return Ok(()) };
        let mut plans = table(&[
            "job",
            "planned for",
            "an iteration",
            "again",
            "moved",
            "turn",
            "moved in all",
        ]);
        for job in &self.jobs {
            let with = |figure: fn(&PlanOfJob) -> String| {
                job.plan.as_ref().map_or_else(|| "-".to_owned(), figure)
            };
            plans.add_row([
                job.name.clone(),
                with(|plan| Bytes::new(plan.planned_bytes).to_string()),
                with(|plan| format!("{:.2} ms", plan.seconds * 1e3)),
                with(|plan| format!("{:.2} ms", plan.recomputed_seconds * 1e3)),
                with(|plan| Bytes::new(plan.moved_bytes).to_string()),
                with(|plan| plan.turn_iterations.map_or_else(|| "-".to_owned(), |n| n.to_string())),
                Bytes::new(job.moved_bytes).to_string(),
            ]);
        }
        let alone = relief.one_at_a_time_throughput;
        let alone = alone.map_or_else(|| "no plan".to_owned(), |alone| format!("{alone:.2}"));
        writeln!(
            out,
            "{plans}\nplans of {}, {} GB/s out and {} back; {}.\n\
             planned for, an iteration, again, moved: the plan by itself; turn: its iterations; -: as recorded\n\
             throughput of one job at a time, alone in the budget: {alone}\n",
            relief.strategy,
            relief.link_out_bytes_per_second as f64 / 1e9,
            relief.link_back_bytes_per_second as f64 / 1e9,
            relief.sharing(),
        )
    }

    fn print_whole(&self, out: &mut impl Write, speed: f64) -> io::Result<()> {
        let sum = Bytes::new(self.sum_of_solo_peaks_bytes);
        let moved = (Bytes::new(self.moved_out_bytes), Bytes::new(self.moved_back_bytes));
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
            ("moved to the host, back", format!("{}, {}", moved.0, moved.1)),
            ("replayed", format!("{} steps at {:.1} million a second", self.steps, speed / 1e6)),
        ] {
            writeln!(out, "{what:>28}  {figure}")?;
        }
        Ok(())
    }
}
