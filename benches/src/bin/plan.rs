//! The planner's heights and times: on the bundled traces, or on MiniMalloc's CSV files.
//!
//! ```text
//! cargo run --release -p zico-bench --bin plan
//! cargo run --release -p zico-bench --bin plan -- --capacity 1048576 A.1048576.csv ...
//! ```
//!
//! Traces: the blocks of the last recorded iteration as one that repeats ([`Trace::repeating`]),
//! sizes rounded up to 512 bytes as every model here does. *ms*: the best of seven runs, first plan
//! to last. What a job holds with a plan is its persistent blocks side by side, and the plan; what
//! the models hold is over the whole recorded run.
//!
//! Files: the time that the process was on a CPU (from `/proc`; elsewhere by the clock). Besides,
//! how far each gets within a second of that, with no capacity given.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use zico_bench::across::{Across, across};
use zico_bench::{Policy, best_fit, cnmem, expandable, run};
use zico_mock::bundled;
use zico_mock::trace::Trace;
use zico_plan::{Baseline, Block, Plan, Planner, baseline, check, extent};

/// Steps between two looks at the clock.
const SLICE: u64 = 1 << 20;
/// A file that takes more steps than this is given up.
const MOST: u64 = 1 << 34;
const RUNS: usize = 7;
const REGION: u64 = 2 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut capacity = None;
    if arguments.next_if_eq("--capacity").is_some() {
        capacity = Some(arguments.next().ok_or("--capacity needs a number")?.parse()?);
    }
    let files: Vec<String> = arguments.collect();
    if files.is_empty() { traces() } else { csv(&files, capacity) }
}

fn traces() -> Result<(), Box<dyn Error>> {
    let mut heights = table(&[
        "trace",
        "blocks",
        "bound MiB",
        "zico",
        "proven",
        "ms",
        "greedy by size",
        "SmartPool best fit",
        "SmartPool first fit",
    ]);
    let mut held = table(&[
        "trace",
        "live MiB",
        "zico's plan",
        "SmartPool",
        "best fit, one arena",
        "PyTorch, expandable",
        "CNMeM",
        "SmartPool under CNMeM",
        "zico under best fit",
        "zico under expandable",
    ]);
    let mut extents = table(&["trace", "any plan", "regions preferred", "ms"]);
    for name in bundled::names() {
        let trace = bundled::open(name)?;
        let all = trace.repeating();
        let (plan, seconds) = timed(&all.blocks, None)?;
        let known = Baseline::ALL
            .map(|of| baseline(&all.blocks, of).and_then(|offsets| check(&all.blocks, &offsets)));
        let known: Vec<u64> = known.into_iter().collect::<Result<_, _>>()?;
        let over = |height: u64| format!("{:.4}", height as f64 / plan.lower_bound as f64);
        let mut row = vec![
            name.to_owned(),
            all.blocks.len().to_string(),
            format!("{:.0}", mib(plan.lower_bound)),
            over(plan.height),
            proven(&plan).to_owned(),
            format!("{:.1}", seconds * 1e3),
        ];
        row.extend(known.iter().map(|&height| over(height)));
        heights.add_row(row);

        let kept = all.persistent.value();
        held.add_row(held_row(&trace, kept + plan.height, kept + known[1]));

        let (settled, seconds) = timed(&all.blocks, Some(REGION))?;
        let ratio = |plan: &Plan| extent(&all.blocks, &plan.offsets, REGION).map(|e| e.ratio());
        extents.add_row([
            name.to_owned(),
            format!("{:.4}", ratio(&plan)?),
            format!("{:.4}", ratio(&settled)?),
            format!("{:.1}", seconds * 1e3),
        ]);
    }
    println!("Height over the lower bound:\n\n{}\n", aligned(heights));
    println!("Held by the whole job over its live bytes at the peak:\n\n{}\n", aligned(held));
    println!(
        "Regions of 2 MiB in use over the live bytes, both summed up over time:\n\n{}",
        aligned(extents)
    );
    println!(
        "\nTwo jobs, the second in the middle of the first one's iteration, MiB:\n\n{}",
        aligned(pairs()?)
    );
    Ok(())
}

/// One plan for two jobs beside a plan for each.
fn pairs() -> Result<Table, Box<dyn Error>> {
    let mut table = table(&[
        "jobs",
        "alive at once",
        "a plan for each",
        "one plan",
        "at most to gain",
        "gained",
    ]);
    for names in [
        ["resnet50", "bert-base"],
        ["mobilenet_v2", "resnet110-cifar"],
        ["gpt2-small", "nasnetalarge"],
        ["gnmt", "dlrm"],
    ] {
        let [one, two] = [bundled::open(names[0])?, bundled::open(names[1])?];
        let Across { apart, together, bound } = across(&one, &two, 0.5, REGION)?;
        let less = |held: u64| format!("{:.2}%", (1.0 - held as f64 / apart as f64) * 100.0);
        let figures = [bound, apart, together].map(|bytes| format!("{:.0}", mib(bytes)));
        let row = [names.join(" + ")].into_iter().chain(figures);
        table.add_row(row.chain([less(bound), less(together)]));
    }
    Ok(table)
}

/// What a job holds with each kind of plan and under each model, over its peak of live bytes.
fn held_row(trace: &Trace, plan: u64, smart: u64) -> Vec<String> {
    let models: [Box<dyn Policy>; 3] = [
        Box::<best_fit::BestFit>::default(),
        Box::<expandable::Expandable>::default(),
        Box::<cnmem::Cnmem>::default(),
    ];
    let [best, expandable, cnmem] = models.map(|mut model| run(trace, model.as_mut()).held);
    let live = trace.stats().peak.value();
    let over = |held: u64| format!("{:.3}", held as f64 / live as f64);
    let under = |less: u64, more: u64| format!("{:.1}%", 100.0 * (1.0 - less as f64 / more as f64));
    let figures = [plan, smart, best, expandable, cnmem].map(over);
    let gains = [under(smart, cnmem), under(plan, best), under(plan, expandable)];
    let names = [trace.name().to_owned(), format!("{:.0}", mib(live))];
    names.into_iter().chain(figures).chain(gains).collect()
}

/// A plan that has been checked, and the seconds of the best run.
fn timed(blocks: &[Block], region: Option<u64>) -> Result<(Plan, f64), Box<dyn Error>> {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..RUNS {
        let before = Instant::now();
        let plan = Planner::new(blocks)?.regions(region).run();
        best = best.min(before.elapsed().as_secs_f64());
        last = Some(plan);
    }
    let plan = last.ok_or("no run")?;
    assert_eq!(check(blocks, &plan.offsets), Ok(plan.height));
    Ok((plan, best))
}

fn csv(files: &[String], capacity: Option<u64>) -> Result<(), Box<dyn Error>> {
    let mut rows = table(&[
        "file",
        "blocks",
        "bound",
        "height",
        "known",
        "steps",
        "CPU s",
        "after 1 s, no capacity",
    ]);
    let (mut sum, mut solved) = (0.0, 0);
    for file in files {
        let blocks = read(file)?;
        let (plan, seconds) = until(&blocks, capacity, f64::INFINITY)?;
        let (anytime, _) = until(&blocks, None, 1.0)?;
        sum += seconds;
        solved += usize::from(plan.height <= capacity.unwrap_or(plan.least));
        let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
        rows.add_row([
            name.into_owned(),
            blocks.len().to_string(),
            plan.lower_bound.to_string(),
            plan.height.to_string(),
            proven(&plan).to_owned(),
            plan.work.to_string(),
            format!("{seconds:.3}"),
            format!("{:.4}", anytime.gap()),
        ]);
    }
    println!("{}\n\n{solved} of {} solved, {sum:.3} s on a CPU in all", aligned(rows), files.len());
    Ok(())
}

/// Plans until it is solved, or a time is over, or it takes too long.
fn until(
    blocks: &[Block],
    capacity: Option<u64>,
    limit: f64,
) -> Result<(Plan, f64), Box<dyn Error>> {
    let (clock, before) = (Instant::now(), on_cpu());
    let seconds = || match (before, on_cpu()) {
        (Some(before), Some(now)) => now - before,
        _ => clock.elapsed().as_secs_f64(),
    };
    let mut planner = Planner::new(blocks)?.capacity(capacity).work(SLICE);
    let mut done = 0;
    loop {
        let plan = planner.run();
        if plan.work == done || plan.work >= MOST || seconds() >= limit {
            let seconds = seconds();
            assert_eq!(check(blocks, &plan.offsets), Ok(plan.height));
            return Ok((plan, seconds));
        }
        done = plan.work;
    }
}

/// The seconds that this process has been on a CPU.
fn on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanos: f64 = text.split(' ').next()?.parse().ok()?;
    Some(nanos / 1e9)
}

fn read(file: &str) -> Result<Vec<Block>, Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let column = |name: &str| {
        header.iter().position(|&column| column == name).ok_or(format!("{file}: no column {name}"))
    };
    let [lower, upper, size] = [column("lower")?, column("upper")?, column("size")?];
    let block = |line: &str| -> Option<Block> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |column: usize| fields.get(column)?.parse().ok();
        Some(Block::new(number(lower)?, number(upper)?, number(size)?))
    };
    let bad = |line: &str| format!("{file}: {line:?} is no block");
    lines.map(|line| block(line).ok_or_else(|| bad(line).into())).collect()
}

fn proven(plan: &Plan) -> &'static str {
    if plan.proven { "least" } else { "" }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn aligned(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
