//! Checkmate's table of approximations: the cost of each over the least that is known, as a
//! geometric mean over budgets.

use std::path::Path;

use zico_plan::relief::{Graph, Link, Relief, Strategy};

use crate::{Failed, data, table, verified};

/// Those without a link that make no use of encodings.
const STRATEGIES: [Strategy; 12] = [
    Strategy::ChenSqrt,
    Strategy::ApSqrt,
    Strategy::ChenGreedy,
    Strategy::ApGreedy,
    Strategy::Griewank,
    Strategy::CheckmateLp,
    Strategy::Knapsack,
    Strategy::Echo,
    Strategy::Dtr,
    Strategy::DtrEq,
    Strategy::DtrLru,
    Strategy::Recompute,
];

/// Budgets between the least memory of any plan and what is kept without one.
const BUDGETS: u64 = 20;

/// Prints it for each graph in a folder that says where its backward pass begins.
pub(crate) fn print(folder: &Path, work: u64) -> Result<(), Failed> {
    let mut table = table(&["graph", "budgets", "strategy", "plans", "ratio", "worst"]);
    for path in data::files(folder)? {
        let graph = data::open(&path)?;
        if graph.kind(0).is_none() {
            continue;
        }
        let budgets = budgets(&graph);
        let best: Vec<Option<u64>> =
            budgets.iter().map(|&budget| best(&graph, budget, work)).collect::<Result<_, _>>()?;
        for strategy in STRATEGIES {
            let mut ratios = Vec::new();
            for (&budget, &best) in budgets.iter().zip(&best) {
                let link = Link::symmetric(1);
                // The first plan of ours, beside the best that is known.
                let Some(found) = strategy.plan(&graph, &link, budget, 0) else { continue };
                let nanos = verified(&graph, &link, &found, budget)?;
                if let (Some(nanos), Some(best)) = (nanos, best) {
                    ratios.push(nanos as f64 / best as f64);
                }
            }
            let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
            let worst = ratios.iter().copied().fold(f64::NAN, f64::max);
            let figure = |value: f64| {
                if value.is_nan() { "-".to_owned() } else { format!("{value:.3}") }
            };
            table.add_row([
                data::name(&path),
                best.iter().flatten().count().to_string(),
                strategy.name().to_owned(),
                ratios.len().to_string(),
                figure(mean.exp()),
                figure(worst),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

/// From the least memory up to just below the peak.
fn budgets(graph: &Graph) -> Vec<u64> {
    let least = graph.working_set();
    let most = graph.live().into_iter().max().unwrap_or(0);
    (0..BUDGETS).map(|at| least + (most - least) / BUDGETS * at).collect()
}

pub(crate) fn best(graph: &Graph, budget: u64, work: u64) -> Result<Option<u64>, Failed> {
    let relief = Relief::new(graph);
    let found = relief.recompute(budget).run(work);
    verified(graph, &Link::symmetric(1), &found, budget)
}
