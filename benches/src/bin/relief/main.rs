//! How far planners of relief come, on data in a folder: `checkmate/*.json` (graphs with the costs
//! that Checkmate's exact program reached), `graphs/*.json` (node-link), `dtr/*.log.gz` (logs of
//! DTR's recorder).
//!
//! ```text
//! cargo run --release -p zico-bench --bin relief -- FOLDER checkmate [WORK]
//! cargo run --release -p zico-bench --bin relief -- FOLDER graphs | recompute | link [WORK]
//! cargo run --release -p zico-bench --bin relief -- FOLDER ratios | artifact [WORK]
//! cargo run --release -p zico-bench --bin relief -- FOLDER planning [SECONDS [SEEDS]]
//! ```
//!
//! *first*: the first plan, with no work beyond it; *best*: with WORK steps more (2^28 unless
//! given). Seconds are those that the process was on a CPU (from `/proc`; elsewhere by the clock).
//! Each plan is simulated and goes through the checker; one that is refused stops the program.

mod artifact;
mod data;
mod family;
mod planning;
mod ratios;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use zico_bench::table::table;
use zico_plan::relief::{
    Found, Graph, Link, Relief, Strategy, Terms, check, lower_bound, simulate,
};

pub(crate) type Failed = Box<dyn Error>;

const WORK: u64 = 1 << 28;
const SHARES: [f64; 8] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2];
/// GB/s each way.
const LINKS: [u64; 3] = [12, 25, 50];

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let table = arguments
        .next()
        .ok_or("which table: checkmate, graphs, recompute, link, ratios, artifact or planning?")?;
    if table == "planning" {
        let seconds = arguments.next().map_or(Ok(60.0), |seconds| seconds.parse())?;
        let seeds = arguments.next().map_or(Ok(1), |seeds| seeds.parse())?;
        return planning::print(&folder, seconds, seeds);
    }
    let work = arguments.next().map_or(Ok(WORK), |work| work.parse())?;
    match table.as_str() {
        "checkmate" => checkmate(&folder.join("checkmate"), work),
        "graphs" => shares(&folder.join("graphs"), work),
        "recompute" => shares(&folder.join("dtr"), work),
        "link" => links(&folder.join("dtr"), work),
        "artifact" => artifact::print(&folder.join("graphs"), work),
        "ratios" => ratios::print(&folder.join("graphs"), work),
        other => Err(format!("{other} is no table").into()),
    }
}

/// Seconds on a CPU since the start.
pub(crate) fn clock(begin: Instant) -> f64 {
    let on_cpu = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = on_cpu.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

/// The time of a plan that the checker has passed.
pub(crate) fn verified(
    graph: &Graph,
    link: &Link,
    found: &Found,
    budget: u64,
) -> Result<Option<u64>, Failed> {
    if !found.feasible {
        return Ok(None);
    }
    let outcome = simulate(graph, link, &found.steps, budget)?;
    check(graph, link, &found.steps, &outcome.spans, Terms { budget, lossy: false })?;
    Ok(Some(outcome.nanos))
}

pub(crate) fn ratio(nanos: Option<u64>, base: u64) -> String {
    nanos.map_or_else(|| "-".to_owned(), |nanos| format!("{:.4}", nanos as f64 / base as f64))
}

/// A first plan, the best one, and the seconds that they took.
struct Tried {
    first: Option<u64>,
    first_seconds: f64,
    best: Option<u64>,
    seconds: f64,
}

fn recompute(graph: &Graph, budget: u64, work: u64) -> Result<Tried, Failed> {
    let link = Link::symmetric(1);
    let begin = Instant::now();
    let start = clock(begin);
    let relief = Relief::new(graph);
    let mut planner = relief.recompute(budget);
    let first = planner.run(0);
    let middle = clock(begin);
    let best = planner.run(work);
    let end = clock(begin);
    Ok(Tried {
        first: verified(graph, &link, &first, budget)?,
        first_seconds: middle - start,
        best: verified(graph, &link, &best, budget)?,
        seconds: end - start,
    })
}

fn checkmate(folder: &Path, work: u64) -> Result<(), Failed> {
    let mut table = table(&[
        "graph",
        "GiB",
        "Gurobi",
        "its s",
        "its bound",
        "first",
        "first s",
        "best",
        "best s",
        "best / Gurobi",
        "our bound",
    ]);
    for path in data::files(folder)? {
        let (graph, file) = data::exact(&path)?;
        let budgets = file["budgets_GiB"].as_object().ok_or("no budgets")?;
        for (gib, known) in budgets {
            let budget = gib.parse::<f64>()? * (1_u64 << 30) as f64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let budget = budget as u64;
            let tried = recompute(&graph, budget, work)?;
            let bound = lower_bound(&graph, None, false, budget);
            let cost = |nanos: Option<u64>| {
                nanos.map_or_else(|| "-".to_owned(), |nanos| (nanos / 10_000).to_string())
            };
            let optimum = known["cost"].as_u64().ok_or("no cost")?;
            table.add_row([
                data::name(&path),
                gib.clone(),
                optimum.to_string(),
                known["solver_seconds"].to_string(),
                known["lower_bound"].to_string(),
                cost(tried.first),
                format!("{:.3}", tried.first_seconds),
                cost(tried.best),
                format!("{:.1}", tried.seconds),
                ratio(tried.best, optimum * 10_000),
                cost(bound),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

/// Budgets by shares of the recorded peak, recomputation alone.
fn shares(folder: &Path, work: u64) -> Result<(), Failed> {
    let header: Vec<String> = ["graph", "operations", "plan"].map(str::to_owned).to_vec();
    let header = header.into_iter().chain(SHARES.map(|share| share.to_string()));
    let header: Vec<String> = header.collect();
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for path in data::files(folder)? {
        let graph = data::open(&path)?;
        let rows = ["first", "first s", "best", "best s", "bound"];
        let mut rows = rows.map(|row| {
            vec![data::name(&path), graph.operations().len().to_string(), row.to_owned()]
        });
        for share in SHARES {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
            let budget = (graph.peak() as f64 * share) as u64;
            let tried = recompute(&graph, budget, work)?;
            let bound = lower_bound(&graph, None, false, budget);
            let cells = [
                ratio(tried.first, graph.nanos()),
                format!("{:.3}", tried.first_seconds),
                ratio(tried.best, graph.nanos()),
                format!("{:.1}", tried.seconds),
                ratio(bound, graph.nanos()),
            ];
            rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
        }
        rows.into_iter().for_each(|row| {
            table.add_row(row);
        });
    }
    println!("{table}");
    Ok(())
}

/// The same with a link, each strategy that uses it.
fn links(folder: &Path, work: u64) -> Result<(), Failed> {
    let header = ["graph", "GB/s", "strategy"].map(str::to_owned).into_iter();
    let header: Vec<String> = header.chain(SHARES.map(|share| share.to_string())).collect();
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for path in data::files(folder)? {
        let graph = data::open(&path)?;
        for rate in LINKS {
            let link = Link::symmetric(rate * 1_000_000_000);
            for strategy in Strategy::ALL.into_iter().filter(|strategy| strategy.moves()) {
                let mut row = vec![data::name(&path), rate.to_string(), strategy.name().to_owned()];
                for share in SHARES {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "positive"
                    )]
                    let budget = (graph.peak() as f64 * share) as u64;
                    let found = strategy.plan(&graph, &link, budget, work);
                    let nanos = match found {
                        Some(found) => verified(&graph, &link, &found, budget)?,
                        None => None,
                    };
                    row.push(ratio(nanos, graph.nanos()));
                }
                table.add_row(row);
            }
        }
    }
    println!("{table}");
    Ok(())
}
