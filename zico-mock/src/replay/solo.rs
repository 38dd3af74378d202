//! The needs of jobs that run alone, and the budgets derived from them.

use zico_core::{Bytes, JobConfig, PoolConfig};

use super::{GRANULARITY, Machine, PolicyKind, ReplayConfig, ReplayError, replay};
use crate::trace::Trace;

/// Figures of one job alone on the device, with ample memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solo {
    /// The most that it holds, in whole regions.
    pub peak: Bytes,
    /// The most that it has leased, in program order: without what the device had yet to pass.
    pub peak_leased: Bytes,
    /// What it has leased for persistent blocks, in whole regions.
    pub persistent: Bytes,
    /// What it keeps while it does not run, in whole regions: what persists, and what it carries
    /// over from one iteration to the next, such as a loss that the next one's replaces.
    pub kept: Bytes,
    /// Its iterations per second, after the first.
    pub rate: f64,
}

/// The needs of a set of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// The size of a region that the figures are in.
    pub region: Bytes,
    /// Each job alone, in the order given.
    pub solos: Vec<Solo>,
    /// L: the least budget under which they can share: the largest, over jobs, of its peak and what
    /// the others keep (Salus's safety condition with one lane).
    pub least: Bytes,
    /// S: the sum of the peaks; from there on no job has to wait.
    pub sum: Bytes,
}

impl Needs {
    /// The budget at `f`: 0 is the least one, 1 the sum of the peaks; below 0 the jobs need
    /// [relief](super::relieve). Whole regions, rounded up.
    #[must_use]
    pub fn budget_at(&self, f: f64) -> Bytes {
        let span = self.sum.saturating_sub(self.least).value() as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        let (above, below) = (Bytes::new((span * f) as u64), Bytes::new((span * -f) as u64));
        let budget = self.least.saturating_add(above).saturating_sub(below);
        budget.round_up(self.region).unwrap_or(budget)
    }

    /// On which terms the jobs join under `policy`. [`PolicyKind::Static`] gives each a cap: the
    /// budget divided in proportion to their peaks, with which it needs the least. Others give
    /// none.
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
        kept: job.kept.at_least(job.persistent),
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
    let summed = |of: &dyn Fn(&Solo) -> Bytes| {
        solos.iter().fold(Bytes::ZERO, |sum, solo| sum.saturating_add(of(solo)))
    };
    let kept = summed(&|solo| solo.kept);
    let beside = |solo: &Solo| solo.peak.saturating_add(kept.saturating_sub(solo.kept));
    let least = solos.iter().map(beside).max().unwrap_or_default();
    let sum = summed(&|solo| solo.peak);
    Ok(Needs { region, solos, least, sum })
}

#[cfg(test)]
mod tests {
    use zico_core::{Lifetime, Ticks};

    use super::*;
    use crate::trace::bundled;
    use crate::trace::{BlockId, Iteration, Step};

    /// Five persistent blocks of 1 MiB, and iterations that take 10 MiB more, run and give them
    /// back.
    fn plain() -> Trace {
        let alloc = |block: u32, bytes, lifetime| Step::Alloc {
            block: BlockId::new(block),
            bytes,
            lifetime,
        };
        let setup = (0..5).map(|block| alloc(block, Bytes::mib(1), Lifetime::Persistent));
        let iteration = |block: u32| {
            let steps = vec![
                alloc(block, Bytes::mib(5), Lifetime::Iteration),
                Step::Launch { work: Ticks::millis(5) },
                alloc(block + 1, Bytes::mib(5), Lifetime::Iteration),
                Step::Launch { work: Ticks::millis(5) },
                Step::Free { block: BlockId::new(block) },
                Step::Free { block: BlockId::new(block + 1) },
            ];
            Iteration::new(steps, Ticks::millis(10))
        };
        let iterations = [5, 7, 9].map(iteration).to_vec();
        Trace::new("job".into(), String::new(), setup.collect(), iterations).unwrap()
    }

    fn alone(trace: &Trace, iterations: u64) -> Needs {
        needs(&[trace, trace], Some(Bytes::mib(2)), iterations, &Machine::default()).unwrap()
    }

    /// Others cannot get what a job holds while it waits for its next iteration, whether it
    /// persists or not.
    #[test]
    fn what_is_carried_from_one_iteration_to_the_next_is_kept() {
        let (plain, carrying) = (plain(), plain().carrying(Bytes::mib(8)).unwrap());
        for iterations in [1, 2, 5, 20] {
            let solo = alone(&plain, iterations).solos[0];
            assert_eq!((solo.persistent, solo.kept), (Bytes::mib(6), Bytes::mib(6)));
            let needs = alone(&carrying, iterations);
            let Solo { peak, persistent, kept, .. } = needs.solos[0];
            assert_eq!((persistent, kept), (Bytes::mib(6), Bytes::mib(14)), "{iterations}");
            // 5 MiB that persist, 10 of the iteration, and where it ends two of 8.
            let least = if iterations == 1 { 6 + 8 } else { 6 + 16 };
            assert!(peak >= Bytes::mib(least), "{iterations}: {peak}");
            assert_eq!(needs.least, peak.saturating_add(kept), "{iterations}");
            assert_eq!(needs.sum, peak.saturating_add(peak), "{iterations}");
        }
    }

    /// What the setup leaves to be freed by the first iteration is held as long as that has to
    /// wait.
    #[test]
    fn what_the_first_iteration_finds_is_kept() {
        let block = |block: u32| BlockId::new(block);
        let lifetime = Lifetime::Iteration;
        let setup = vec![Step::Alloc { block: block(0), bytes: Bytes::mib(6), lifetime }];
        let steps = vec![
            Step::Free { block: block(0) },
            Step::Alloc { block: block(1), bytes: Bytes::mib(4), lifetime },
            Step::Free { block: block(1) },
        ];
        let again = steps[1..].iter().map(|step| match *step {
            Step::Alloc { bytes, lifetime, .. } => Step::Alloc { block: block(2), bytes, lifetime },
            _ => Step::Free { block: block(2) },
        });
        let iterations = vec![
            Iteration::new(steps.clone(), Ticks::ZERO),
            Iteration::new(again.collect(), Ticks::ZERO),
        ];
        let trace = Trace::new("job".into(), String::new(), setup, iterations).unwrap();
        let solo = alone(&trace, 3).solos[0];
        assert_eq!((solo.persistent, solo.kept), (Bytes::ZERO, Bytes::mib(6)));
    }

    /// The recorded jobs carry nothing over: what has been measured of them stands.
    #[test]
    fn recorded_jobs_keep_what_persists() {
        for name in bundled::names() {
            let trace = bundled::open(name).unwrap();
            let solo = solo(&trace, Bytes::mib(2), 4, &Machine::default()).unwrap();
            assert_eq!(solo.kept, solo.persistent, "{name}");
        }
    }
}
