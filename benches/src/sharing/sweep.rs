//! Throughput against the budget, for every pair of recorded jobs, under every policy.

use std::error::Error;

use zico_cli::report::{Curves, Panel, curves};
use zico_mock::replay::{PolicyKind, ReplayError};

use super::{Set, bundled_traces, in_parallel, name, pairs};

/// Budgets from f = 0 to 1 in so many steps.
const STEPS: u32 = 20;

/// The picture as SVG: a panel for each pair, a curve for each policy.
///
/// # Errors
/// If a replay fails for a reason that is not the policy's: a defect.
pub fn sweep(iterations: u64) -> Result<String, Box<dyn Error>> {
    let traces = bundled_traces()?;
    let sets = Set::all(&traces, &pairs(traces.len()), iterations)?;
    let mut work = Vec::new();
    for set in &sets {
        for policy in PolicyKind::ALL {
            work.extend((0..=STEPS).map(|i| (set, policy, f64::from(i) / f64::from(STEPS))));
        }
    }
    let points = in_parallel("sweep", &work, |&(set, policy, f)| {
        let trial = set.under(policy, f)?;
        Ok((f, set.figures(&trial).map(|figures| figures.throughput)))
    });
    let points: Vec<(f64, Option<f64>)> = points.into_iter().collect::<Result<_, ReplayError>>()?;
    let budgets = STEPS as usize + 1;
    let panels = sets.iter().zip(points.chunks(budgets * PolicyKind::ALL.len()));
    let picture = Curves {
        title: "Throughput of two jobs, in jobs alone, against the budget: f = 0 is the least, f = 1 the sum \
                of the peaks"
            .to_owned(),
        names: PolicyKind::ALL.map(|policy| name(policy).to_owned()).to_vec(),
        panels: panels
            .map(|(set, points)| Panel {
                title: set.name.clone(),
                curves: points.chunks(budgets).map(<[_]>::to_vec).collect(),
            })
            .collect(),
    };
    Ok(curves(&picture)?)
}
