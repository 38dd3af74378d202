//! The figures of a comparison: as JSON for scripts, as tables for people.

use std::io::{self, Write};
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use zico_core::Bytes;
use zico_mock::replay::{Figures, Machine, Needs, Solo, Trial, names};
use zico_mock::trace::Trace;

use super::conditions::Conditions;
use crate::args::RunArgs;
use crate::table::{table, wrapped};
use crate::timed::percentiles;

/// The trial of one policy under one budget.
pub(crate) struct Tried {
    pub(crate) policy: &'static str,
    pub(crate) trial: Trial,
    /// The real time taken by each of its decisions.
    pub(crate) costs: Vec<Duration>,
}

/// All policies under all budgets. Bytes are bytes; times are seconds of the simulated device, but
/// for what decisions cost.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) region_bytes: u64,
    pub(crate) sum_of_solo_peaks_bytes: u64,
    /// L: the least budget under which these jobs can share.
    pub(crate) least_budget_bytes: u64,
    pub(crate) iterations: u64,
    pub(crate) hand_over: String,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    pub(crate) jobs: Vec<Alone>,
    pub(crate) budgets: Vec<UnderBudget>,
}

/// A job that has the device for itself, and memory to spare.
#[derive(Debug, Serialize)]
pub(crate) struct Alone {
    pub(crate) name: String,
    pub(crate) persistent_bytes: u64,
    /// With what it carries over from one iteration to the next.
    pub(crate) kept_bytes: u64,
    pub(crate) solo_peak_bytes: u64,
    pub(crate) solo_iterations_per_second: f64,
}

/// All policies under one budget.
#[derive(Debug, Serialize)]
pub(crate) struct UnderBudget {
    pub(crate) budget_bytes: u64,
    /// Where the budget stands between the least one (0) and the sum of the peaks (1).
    pub(crate) f: f64,
    pub(crate) policies: Vec<UnderPolicy>,
}

/// One policy under one budget.
#[derive(Debug, Serialize)]
pub(crate) struct UnderPolicy {
    pub(crate) policy: &'static str,
    /// Whether none has more throughput, as far as the table shows.
    pub(crate) best: bool,
    /// None if it cannot run.
    pub(crate) figures: Option<Shown>,
    /// Why it cannot.
    pub(crate) reason: Option<String>,
    /// Whether that is because jobs waited for ever.
    pub(crate) stuck: bool,
    pub(crate) violations: u64,
    /// How often the policy was asked.
    pub(crate) decisions: u64,
    /// The real time taken by decisions; it varies from run to run.
    pub(crate) decision_cost: Option<Cost>,
}

/// The figures of one policy under one budget.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    /// The sum over jobs of the rate over the rate alone.
    pub(crate) total_throughput: f64,
    /// The same of each job, in their order.
    pub(crate) relative: Vec<f64>,
    /// Jain's index of these.
    pub(crate) fairness: f64,
    pub(crate) peak_held_bytes: u64,
    /// Waiting for iterations to start: the share of the time, mean over jobs.
    pub(crate) start_delay_share: f64,
    /// Waiting for memory within iterations, likewise.
    pub(crate) stall_share: f64,
    pub(crate) iterations: u64,
    pub(crate) memory_calls_per_iteration: f64,
    /// What went to the host and came from it.
    pub(crate) moved_bytes: u64,
    pub(crate) makespan_seconds: f64,
}

/// The real time taken by decisions.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) median_seconds: f64,
    pub(crate) p99_seconds: f64,
}

impl Comparison {
    pub(crate) fn new(
        traces: &[&Trace],
        needs: &Needs,
        run: &RunArgs,
        machine: &Machine,
        budgets: Vec<UnderBudget>,
    ) -> Self {
        let alone = |(name, solo): (String, &Solo)| Alone {
            name,
            persistent_bytes: solo.persistent.value(),
            kept_bytes: solo.kept.value(),
            solo_peak_bytes: solo.peak.value(),
            solo_iterations_per_second: solo.rate,
        };
        let hand_over = run.hand_over.to_possible_value();
        Self {
            region_bytes: needs.region.value(),
            sum_of_solo_peaks_bytes: needs.sum.value(),
            least_budget_bytes: needs.least.value(),
            iterations: run.iterations,
            hand_over: hand_over.map(|name| name.get_name().to_owned()).unwrap_or_default(),
            conditions: Conditions::from(machine),
            jobs: names(traces).into_iter().zip(&needs.solos).map(alone).collect(),
            budgets,
        }
    }

    /// No violation, and no endless wait.
    pub(crate) fn is_fine(&self) -> bool {
        let all = self.budgets.iter().flat_map(|budget| &budget.policies);
        all.into_iter().all(|policy| policy.violations == 0 && !policy.stuck)
    }

    /// Tables for people.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let conditions = format!(
            "{} iterations of each job, {} hand-over, regions of {}, {}",
            self.iterations,
            self.hand_over,
            Bytes::new(self.region_bytes),
            self.conditions,
        );
        writeln!(out, "{}\n", wrapped(&conditions))?;
        self.print_jobs(out)?;
        for budget in &self.budgets {
            writeln!(out, "\nBudget {}\n", budget.title())?;
            budget.print(out, self.jobs.len())?;
        }
        writeln!(out, "\n{}", wrapped(LEGEND))
    }

    fn print_jobs(&self, out: &mut impl Write) -> io::Result<()> {
        let mut jobs = table(&["job alone", "", "per s", "peak", "kept"]);
        for (i, job) in self.jobs.iter().enumerate() {
            jobs.add_row([
                job.name.clone(),
                format!("#{}", i + 1),
                format!("{:.2}", job.solo_iterations_per_second),
                Bytes::new(job.solo_peak_bytes).to_string(),
                Bytes::new(job.kept_bytes).to_string(),
            ]);
        }
        writeln!(out, "{jobs}")
    }
}

/// What the columns mean.
pub(crate) const LEGEND: &str = "\
    total: the sum over jobs of the rate over the rate alone, 1 is one job's worth, * the most; #1, #2: \
    each job's rate over its rate alone; held: the most held at once, GiB; delay, stall: time spent \
    waiting for starts and, within iterations, for memory, mean over jobs; Jain: the fairness index \
    of #1, #2 and so on (Jain, Chiu, Hawe 1984), 1 is all the same; asked: decisions of the policy; us: \
    what they cost in real time, microseconds, median and 99th percentile; calls: device memory calls per \
    iteration; moved: to the host and from it, GiB; viol.: violations seen by the oracle";

impl UnderBudget {
    pub(crate) fn new(budget: Bytes, needs: &Needs, mut policies: Vec<UnderPolicy>) -> Self {
        let shown = |policy: &UnderPolicy| Some(thousandths(policy.figures.as_ref()?));
        let most = policies.iter().filter_map(shown).max();
        for policy in &mut policies {
            policy.best = most.is_some() && shown(policy) == most;
        }
        Self { budget_bytes: budget.value(), f: needs.f_of(budget), policies }
    }

    /// The budget, as a heading says it.
    pub(crate) fn title(&self) -> String {
        format!("{} (f = {:.2})", Bytes::new(self.budget_bytes), self.f)
    }

    /// Whether anything crosses the link to the host.
    fn moves(&self) -> bool {
        let mut figures = self.policies.iter().filter_map(|policy| policy.figures.as_ref());
        figures.any(|figures| figures.moved_bytes > 0)
    }

    /// The header of the table for this many jobs, and the rows.
    pub(crate) fn table(&self, jobs: usize) -> (Vec<String>, Vec<Vec<String>>) {
        let each = (1..=jobs).map(|job| format!("#{job}"));
        let moved: &[&str] = if self.moves() { &["moved"] } else { &[] };
        let rest = ["held", "delay", "stall", "Jain", "asked", "us", "calls", "viol."];
        let strings = |of: &[&str]| of.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let first = strings(&["policy", "total"]).into_iter().chain(each);
        let header: Vec<String> = first.chain(strings(moved)).chain(strings(&rest)).collect();
        let cells = |policy: &UnderPolicy| policy.cells(header.len(), !moved.is_empty());
        let rows = self.policies.iter().map(cells).collect();
        (header, rows)
    }

    fn print(&self, out: &mut impl Write, jobs: usize) -> io::Result<()> {
        let (header, rows) = self.table(jobs);
        let mut all = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
        for row in rows {
            all.add_row(row);
        }
        writeln!(out, "{all}")?;
        for policy in &self.policies {
            if let Some(line) = policy.reason.as_ref().and_then(|reason| reason.lines().next()) {
                writeln!(out, "{}", wrapped(&format!("- {}: {line}", policy.policy)))?;
            }
        }
        Ok(())
    }
}

/// The throughput as the table shows it, to compare.
fn thousandths(figures: &Shown) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let thousandths = (figures.total_throughput * 1e3).round() as u64;
    thousandths
}

impl UnderPolicy {
    pub(crate) fn new(tried: &Tried, needs: &Needs) -> Self {
        let seconds = |cost: Duration| cost.as_secs_f64();
        let cost = percentiles(&mut tried.costs.clone()).map(|costs| costs.map(seconds));
        Self {
            policy: tried.policy,
            best: false,
            figures: tried.trial.outcome().map(|outcome| {
                let figures = Figures::new(outcome, needs);
                Shown {
                    total_throughput: figures.throughput,
                    relative: figures.relative,
                    fairness: figures.fairness,
                    peak_held_bytes: outcome.peak_held.value(),
                    start_delay_share: figures.start_delay,
                    stall_share: figures.stalled,
                    iterations: figures.iterations,
                    memory_calls_per_iteration: figures.memory_calls,
                    moved_bytes: outcome.traffic.0.saturating_add(outcome.traffic.1).value(),
                    makespan_seconds: outcome.window.seconds(),
                }
            }),
            reason: tried.trial.reason().map(ToOwned::to_owned),
            stuck: matches!(tried.trial, Trial::Stuck { .. }),
            violations: tried.trial.violations(),
            decisions: tried.costs.len() as u64,
            decision_cost: cost
                .map(|[median_seconds, p99_seconds]| Cost { median_seconds, p99_seconds }),
        }
    }

    /// One row of the table.
    fn cells(&self, columns: usize, moves: bool) -> Vec<String> {
        let name = format!("{}{}", self.policy, if self.best { " *" } else { "" });
        let dash = || "-".to_owned();
        let Some(figures) = &self.figures else {
            let dashes = std::iter::repeat_with(dash).take(columns - 2);
            return [name].into_iter().chain(dashes).chain([self.violations.to_string()]).collect();
        };
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let micros = |cost: Cost| {
            format!("{:.2} / {:.2}", cost.median_seconds * 1e6, cost.p99_seconds * 1e6)
        };
        let each = figures.relative.iter().map(|relative| format!("{:.0}%", relative * 100.0));
        let gib = |bytes: u64| format!("{:.2}", bytes as f64 / f64::from(1 << 30));
        let rest = [
            gib(figures.peak_held_bytes),
            percent(figures.start_delay_share),
            percent(figures.stall_share),
            format!("{:.3}", figures.fairness),
            self.decisions.to_string(),
            self.decision_cost.map_or_else(dash, micros),
            format!("{:.0}", figures.memory_calls_per_iteration),
            self.violations.to_string(),
        ];
        let first = [name, format!("{:.3}", figures.total_throughput)];
        let moved = moves.then(|| gib(figures.moved_bytes));
        first.into_iter().chain(each).chain(moved).chain(rest).collect()
    }
}
