//! How long planning takes: to the first plan, and to within a percent of the best of a minute.

use std::path::Path;
use std::time::Instant;

use zico_plan::relief::{Graph, Link, Relief, Strategy, lower_bound};

use crate::family::Network;
use crate::{Failed, clock, data, table, verified};

const SHARES: [f64; 7] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3];
/// Of each network that is drawn.
const OPERATIONS: usize = 4000;
/// As good as the best.
const NEAR: f64 = 1.01;
/// With a link of 25 GB/s.
const LINK: Link = Link::symmetric(25_000_000_000);

/// Seconds to plans, and what those take over the iteration as it was recorded.
struct Timed {
    first: Option<(f64, u64)>,
    /// Until a plan that is within a percent of the best.
    near: Option<f64>,
    best: Option<u64>,
    bound: Option<u64>,
}

/// Prints it for drawn networks and for recorded ones.
pub(crate) fn print(folder: &Path, seconds: f64, seeds: u64) -> Result<(), Failed> {
    let header = ["graph", "operations", "row"].map(str::to_owned).into_iter();
    let header: Vec<String> = header.chain(SHARES.map(|share| share.to_string())).collect();
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, graph) in graphs(folder, seeds)? {
        let rows = ["first s", "within 1% s", "first", "best", "bound", "with link s", "with link"];
        let count = graph.operations().len().to_string();
        let mut rows = rows.map(|row| vec![name.clone(), count.clone(), row.to_owned()]);
        for share in SHARES {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
            let budget = (graph.peak() as f64 * share) as u64;
            let timed = timed(&graph, budget, seconds)?;
            let linked = linked(&graph, budget)?;
            let ratio = |nanos: Option<u64>| crate::ratio(nanos, graph.nanos());
            let second = |s: Option<f64>| s.map_or_else(|| "-".to_owned(), |s| format!("{s:.3}"));
            let cells = [
                second(timed.first.map(|first| first.0)),
                second(timed.near),
                ratio(timed.first.map(|first| first.1)),
                ratio(timed.best),
                ratio(timed.bound),
                format!("{:.3}", linked.0),
                ratio(linked.1),
            ];
            eprintln!("{name} {share} {}", cells.join(" "));
            rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
        }
        rows.into_iter().for_each(|row| {
            table.add_row(row);
        });
    }
    println!("{table}");
    Ok(())
}

fn graphs(folder: &Path, seeds: u64) -> Result<Vec<(String, Graph)>, Failed> {
    let mut all = Vec::new();
    for network in Network::ALL {
        for seed in 1..=seeds {
            let graph = network.graph(OPERATIONS, seed)?;
            all.push((format!("{}-{seed}", network.name()), graph));
        }
    }
    for path in data::files(&folder.join("dtr"))? {
        let graph = data::open(&path)?;
        if graph.operations().len() > OPERATIONS / 2 {
            all.push((data::name(&path), graph));
        }
    }
    Ok(all)
}

/// Plans until nothing can be more than a percent better, or for so many seconds.
fn timed(graph: &Graph, budget: u64, limit: f64) -> Result<Timed, Failed> {
    /// Steps of work between two looks, at first.
    const SLICE: u64 = 1 << 22;
    let bound = lower_bound(graph, None, false, budget);
    let begin = Instant::now();
    let start = clock(begin);
    let relief = Relief::new(graph);
    let mut planner = relief.recompute(budget);
    let mut seen: Vec<(f64, u64)> = Vec::new();
    let mut work = 0;
    loop {
        let found = planner.run(work);
        let seconds = clock(begin) - start;
        if found.feasible && seen.last().is_none_or(|last| found.nanos < last.1) {
            verified(graph, &Link::symmetric(1), &found, budget)?;
            seen.push((seconds, found.nanos));
        }
        let least = bound.map_or(f64::INFINITY, |bound| bound as f64 * NEAR);
        let near = seen.last().is_some_and(|last| last.1 as f64 <= least);
        if near || bound.is_none() || seconds >= limit {
            break;
        }
        work = SLICE.max(work + work / 16);
    }
    let best = seen.last().map(|last| last.1);
    let near = best.and_then(|best| {
        let near = seen.iter().find(|one| one.1 as f64 <= best as f64 * NEAR);
        near.map(|one| one.0)
    });
    Ok(Timed { first: seen.first().copied(), near, best, bound })
}

/// Our planner of everything with no work beyond its first plans: seconds, and the plan's time.
fn linked(graph: &Graph, budget: u64) -> Result<(f64, Option<u64>), Failed> {
    let begin = Instant::now();
    let start = clock(begin);
    let found = Strategy::Zico.plan(graph, &LINK, budget, 0);
    let seconds = clock(begin) - start;
    let found = found.map(|found| verified(graph, &LINK, &found, budget)).transpose()?;
    Ok((seconds, found.flatten()))
}
