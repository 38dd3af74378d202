//! Budgets of the command line as bytes, and whether the jobs can run under them.

use zico_core::{Bytes, PoolConfig, Ticks};
use zico_mock::replay::{Machine, Needs, PolicyKind, ReplayError, needs};
use zico_mock::trace::Trace;

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::progress::progress;
use crate::size::Budget;
use crate::terminal::line;

/// The granularity of the device that jobs are replayed on.
const GRANULARITY: Bytes = Bytes::mib(2);

/// The needs of the jobs, in regions of the given size. Without one, the pool's choice for the
/// smallest budget, or for the jobs if a budget is a share of their needs.
pub(crate) fn needs_for(
    traces: &[&Trace],
    budgets: &[Budget],
    run: &RunArgs,
    machine: &Machine,
) -> Result<Needs, ReplayError> {
    let size = |budget: &Budget| match budget {
        Budget::Size(size) => Some(*size),
        Budget::Share(_) => None,
    };
    let sizes: Option<Vec<Bytes>> = budgets.iter().map(size).collect();
    let smallest = sizes.and_then(|sizes| sizes.into_iter().min());
    let chosen = smallest.map(|budget| PoolConfig::new(budget).region_for(GRANULARITY));
    let bar = progress("alone", 0);
    let needs = needs(traces, run.region_size.or(chosen), run.iterations, machine);
    bar.finish_and_clear();
    needs
}

impl Budget {
    /// In bytes.
    pub(crate) fn of(self, needs: &Needs) -> Bytes {
        match self {
            Self::Size(budget) => budget,
            Self::Share(f) => needs.budget_at(f),
        }
    }
}

/// Refuses a budget that is too small, with the needs of each job. Those of them that take turns
/// need no more than each alone.
pub(crate) fn check(
    policy: PolicyKind,
    budget: Bytes,
    needs: &Needs,
    (traces, slice): (&[&Trace], Option<Ticks>),
) -> Result<(), Failure> {
    let (least, why) = if policy.needs_every_peak() {
        (needs.sum, "each keeps its own peak, so that is the sum of the peaks")
    } else if slice.is_some() {
        let largest = needs.solos.iter().map(|solo| solo.peak).max();
        (largest.unwrap_or_default(), "the largest of the jobs' peaks")
    } else {
        let why = "the largest, over the jobs, of a job's own peak and what the others keep between \
                   their iterations";
        (needs.least, why)
    };
    // A budget counts in whole regions.
    let usable = Bytes::new(budget.value() / needs.region.value() * needs.region.value());
    if usable >= least {
        return Ok(());
    }
    let turns = match slice {
        None => "`--time-slice`, with jobs that take turns, and ",
        Some(_) => "",
    };
    let mut text = format!(
        "a budget of {budget} is {} too small for these jobs. They need {least}: {why}.\n",
        least.saturating_sub(usable),
    );
    for (trace, solo) in traces.iter().zip(&needs.solos) {
        text += &format!(
            "  {}: {} at its peak, {} of it kept between iterations\n",
            line(trace.name()),
            solo.peak,
            solo.kept,
        );
    }
    text += &format!(
        "(counted in regions of {}; `zico inspect` shows the same; below go {turns}`zico replay \
         --relief`, where a trace says what its operations read and write)",
        needs.region
    );
    Err(Failure::CannotShare(text))
}
