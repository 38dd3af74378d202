//! What jobs need when they run alone, and what that says about budgets.

use zico_core::{Bytes, JobConfig, PoolConfig};

use super::{GRANULARITY, Machine, PolicyKind, ReplayConfig, ReplayError, replay};
use crate::trace::Trace;

/// One job alone on the device, with memory to spare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solo {
    /// The most that it holds, in whole regions.
    pub peak: Bytes,
    /// The most that it has leased, in program order: without what the device had yet to pass.
    pub peak_leased: Bytes,
    /// What it keeps between iterations, in whole regions.
    pub persistent: Bytes,
    /// Its iterations per second, after the first.
    pub rate: f64,
}

/// What a set of jobs needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// The size of a region that the figures are in.
    pub region: Bytes,
    /// Each job alone, in the order given.
    pub solos: Vec<Solo>,
    /// L: the least budget under which they can share: the largest, over jobs, of its peak and what
    /// the others keep (Salus's safety condition with one lane).
    pub least: Bytes,
    /// S: the sum of the peaks; from there on nobody has to wait.
    pub sum: Bytes,
}

impl Needs {
    /// The budget at `f`: 0 is the least one, 1 the sum of the peaks. Whole regions, rounded up.
    #[must_use]
    pub fn budget_at(&self, f: f64) -> Bytes {
        let span = self.sum.saturating_sub(self.least).value() as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        let above = Bytes::new((span * f.max(0.0)) as u64);
        let budget = self.least.saturating_add(above);
        budget.round_up(self.region).unwrap_or(budget)
    }

    /// On which terms the jobs join under `policy`. [`PolicyKind::Static`] gives each a cap: the budget
    /// divided in proportion to their peaks, with which it needs the least. Others give none.
    #[must_use]
    pub fn terms(&self, policy: PolicyKind, budget: Bytes) -> Vec<JobConfig> {
        if policy != PolicyKind::Static {
            return Vec::new();
        }
        let sum = u128::from(self.sum.value()).max(1);
        let share = |solo: &Solo| {
            let share = u128::from(budget.value()) * u128::from(solo.peak.value()) / sum;
            JobConfig::default().cap(Bytes::new(u64::try_from(share).unwrap_or(u64::MAX)))
        };
        self.solos.iter().map(share).collect()
    }

    /// Where a budget stands: 0 at the least one, 1 at the sum of the peaks.
    #[must_use]
    pub fn f_of(&self, budget: Bytes) -> f64 {
        let span = self.sum.saturating_sub(self.least).value() as f64;
        if span == 0.0 {
            return if budget >= self.least { 1.0 } else { -1.0 };
        }
        (budget.value() as f64 - self.least.value() as f64) / span
    }
}

/// Runs one job alone for `iterations` iterations, with regions of `region` bytes.
///
/// # Errors
/// As [`replay`].
pub fn solo(
    trace: &Trace,
    region: Bytes,
    iterations: u64,
    machine: &Machine,
) -> Result<Solo, ReplayError> {
    // A job alone cannot need more than its live bytes, a region per block at most aside: twice
    // that and some regions is memory to spare.
    let live = trace.stats().peak;
    let spare =
        live.saturating_add(live).saturating_add(Bytes::new(region.value().saturating_mul(16)));
    let config = ReplayConfig {
        region: Some(region),
        iterations,
        machine: machine.clone(),
        policy: PolicyKind::Zico,
        ..ReplayConfig::new(spare.round_up(region).unwrap_or(spare))
    };
    let outcome = replay(&[trace], &config, &mut |_| {})?;
    let job = &outcome.jobs[0];
    Ok(Solo {
        peak: job.peak,
        peak_leased: job.peak_leased,
        persistent: job.persistent,
        rate: outcome.rate(job),
    })
}

/// What jobs need together, from running each alone. With no `region` given it is the one that a
/// pool would choose for a budget of the sum of the jobs' live bytes at their peaks.
///
/// # Errors
/// As [`replay`].
pub fn needs(
    traces: &[&Trace],
    region: Option<Bytes>,
    iterations: u64,
    machine: &Machine,
) -> Result<Needs, ReplayError> {
    let live = traces.iter().fold(Bytes::ZERO, |sum, trace| sum.saturating_add(trace.stats().peak));
    let region = region.unwrap_or_else(|| PoolConfig::new(live).region_for(GRANULARITY));
    let solos: Vec<Solo> = traces
        .iter()
        .map(|trace| solo(trace, region, iterations, machine))
        .collect::<Result<_, _>>()?;
    let kept = |of: &dyn Fn(&Solo) -> Bytes| {
        solos.iter().fold(Bytes::ZERO, |sum, solo| sum.saturating_add(of(solo)))
    };
    let persistent = kept(&|solo| solo.persistent);
    let beside = |solo: &Solo| solo.peak.saturating_add(persistent.saturating_sub(solo.persistent));
    let least = solos.iter().map(beside).max().unwrap_or_default();
    let sum = kept(&|solo| solo.peak);
    Ok(Needs { region, solos, least, sum })
}
