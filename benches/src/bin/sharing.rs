//! The tables and the picture of `docs/results.md` on how well recorded jobs share one budget.
//!
//! Replays run on all cores, but for those whose speed is measured. The tables go to standard
//! output, how far it is to standard error.
//!
//! ```text
//! cargo run --release -p zico-bench --bin sharing            # all of them
//! cargo run --release -p zico-bench --bin sharing -- cases   # one of them
//! ```

use std::error::Error;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use zico_bench::sharing;

/// How well recorded jobs share one budget under each policy.
#[derive(Parser)]
struct Args {
    /// What to make [default: all]
    parts: Vec<Part>,

    /// How many iterations each job does at least, instead of each part's own number
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(2..))]
    iterations: Option<u64>,

    /// Where the picture of the sweep goes
    #[arg(long, default_value = "docs/budget-sweep.svg", value_name = "FILE.svg")]
    picture: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Four sets of jobs at four budgets, in detail
    Sets,
    /// The same under each form of hand-over
    HandOver,
    /// Three pairs under every policy
    Policies,
    /// Every pair and fifteen triples at five budgets under every policy, and where zico is behind
    Cases,
    /// Every pair and fifteen triples at four budgets, near the device and far ahead of it
    Lagging,
    /// Throughput of every pair under every policy against the budget, as a picture
    Sweep,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    for part in parts {
        let iterations = |usual| args.iterations.unwrap_or(usual);
        match part {
            Part::Sets => println!("{}", sharing::sets(iterations(50))?),
            Part::HandOver => println!("{}\n", sharing::hand_overs(iterations(50))?),
            Part::Policies => println!("{}", sharing::policies(iterations(50))?),
            // Twenty after the first.
            Part::Cases => println!("{}\n", sharing::cases(iterations(21))?),
            Part::Lagging => println!("{}\n", sharing::lagging(iterations(21))?),
            Part::Sweep => {
                let svg = sharing::sweep(iterations(6))?;
                std::fs::write(&args.picture, svg)
                    .map_err(|error| format!("cannot write {}: {error}", args.picture.display()))?;
                println!("{}", args.picture.display());
            }
        }
    }
    Ok(())
}
