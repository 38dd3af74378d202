//! Checks the documented complexity of single calls: counts the instructions of one call for n, 4n
//! and 16n regions, pages, streams or allocations, on a device that does nothing. Fails if a count
//! grows faster than documented.
//!
//! Counted by valgrind, so the same on a busy machine as on a quiet one. *Of each*: instructions
//! for each of 16n. *Growth*: the exponent by which the count grows from n to 4n, and from there to
//! 16n: 1 is O(n), 2 is O(n^2), and n log n some more than 1.
//!
//! ```text
//! cargo run --release -p zico-bench --bin bounds                # needs valgrind; 3 minutes
//! cargo run --release -p zico-bench --bin bounds -- trim free   # some of them
//! # In pools of 4, 80 and 192 GiB, of 2 MiB each:
//! cargo run --release -p zico-bench --bin bounds -- -n 2048,40960,98304 lease-of-own decide
//! ```

use std::error::Error;
use std::process::{Command, ExitCode};

use clap::{Parser, ValueEnum};
use zico_bench::bounds::Call;
use zico_bench::table::table;

/// The instructions of single calls, and how they grow with n.
#[derive(Parser)]
struct Args {
    /// Which [default: all but the toy]
    calls: Vec<Call>,

    /// Counts for each n of these, and not for n, 4n and 16n
    #[arg(short, value_delimiter = ',')]
    n: Vec<usize>,

    /// Makes the call with this n, as it is measured, and prints nothing
    #[arg(long, hide = true)]
    one: Option<usize>,
}

/// The factor from each n to the next.
const STEP: usize = 4;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = Args::parse();
    if let Some(n) = args.one {
        args.calls.iter().try_for_each(|call| call.make(n))?;
        return Ok(ExitCode::SUCCESS);
    }
    let all: Vec<Call> =
        Call::value_variants().iter().copied().filter(|&call| call != Call::Toy).collect();
    let calls = if args.calls.is_empty() { &all } else { &args.calls };
    if !args.n.is_empty() {
        return print_counts(calls, &args.n);
    }
    let header = ["call", "n", "at n", "at 4n", "at 16n", "of each", "growth", "at most"];
    let mut rows = table(&header);
    let mut broken = Vec::new();
    for &call in calls {
        eprintln!("{}", name(call));
        let sizes = [1, STEP, STEP * STEP].map(|times| call.least() * times);
        let mut counts = Vec::new();
        for n in sizes {
            counts.push(count(call, n)?);
        }
        let growth = |pair: &[u64]| (pair[1] as f64 / pair[0] as f64).ln() / (STEP as f64).ln();
        let growth: Vec<f64> = counts.windows(2).map(growth).collect();
        let most: Vec<f64> = sizes[..2].iter().map(|&n| call.bound().most(n, STEP)).collect();
        if growth.iter().zip(&most).any(|(growth, most)| growth > most) {
            broken.push(name(call));
        }
        let both = |of: &[f64]| format!("{:.2}, {:.2}", of[0], of[1]);
        let each = counts[2] as f64 / sizes[2] as f64;
        let mut row = vec![help(call), sizes[0].to_string()];
        row.extend(counts.iter().map(u64::to_string));
        row.extend([format!("{each:.1}"), both(&growth), both(&most)]);
        rows.add_row(row);
    }
    println!("{rows}");
    if broken.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("beyond their bounds: {}", broken.join(", "));
    Ok(ExitCode::FAILURE)
}

/// The counts for some n.
fn print_counts(calls: &[Call], sizes: &[usize]) -> Result<ExitCode, Box<dyn Error>> {
    let header = [String::from("call")].into_iter().chain(sizes.iter().map(|n| format!("n = {n}")));
    let header: Vec<String> = header.collect();
    let mut rows = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for &call in calls {
        eprintln!("{}", name(call));
        let mut row = vec![help(call)];
        for &n in sizes {
            row.push(count(call, n)?.to_string());
        }
        rows.add_row(row);
    }
    println!("{rows}");
    Ok(ExitCode::SUCCESS)
}

fn name(call: Call) -> String {
    call.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn help(call: Call) -> String {
    let value = call.to_possible_value();
    value.and_then(|value| Some(value.get_help()?.to_string())).unwrap_or_default()
}

/// The instructions of one call.
fn count(call: Call, n: usize) -> Result<u64, Box<dyn Error>> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.args(["--toggle-collect=*bounds*measured*"]).arg(std::env::current_exe()?);
    valgrind.args([&name(call), "--one", &n.to_string()]);
    let output = valgrind.output().map_err(|error| format!("cannot run valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let count = collected.and_then(|(_, count)| count.trim().parse().ok());
    match count.filter(|&count: &u64| count > 0 && output.status.success()) {
        Some(count) => Ok(count),
        None => Err(format!("nothing was counted for {} with n = {n}:\n{text}", name(call)).into()),
    }
}
