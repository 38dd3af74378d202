//! What an `AutoJob` finds of the iterations of each recorded job, which is told nothing but the
//! sizes of blocks.
//!
//! ```text
//! cargo run --release -p zico-bench --bin detect
//! ```

use std::error::Error;

use zico_bench::detect::{Found, found};
use zico_bench::table::table;
use zico_mock::bundled;

/// The recorded iterations, and those that are played again.
const ITERATIONS: usize = 30;

const HEADER: [&str; 8] = [
    "trace",
    "allocations an iteration",
    "first found after",
    "found where they begin",
    "elsewhere",
    "at most so many allocations away",
    "not found",
    "found and none",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut lines = table(&HEADER);
    for name in bundled::names() {
        let Found { allocations, after, exact, shifted, farthest, missed, wrong, .. } =
            found(&bundled::open(name)?, ITERATIONS)?;
        let after = after.map_or_else(|| "never".to_owned(), |after| after.to_string());
        let figures = [exact, shifted, farthest, missed, wrong].map(|figure| figure.to_string());
        let mut line = vec![name.to_owned(), allocations.to_string(), after];
        line.extend(figures);
        lines.add_row(line);
    }
    println!("Of {ITERATIONS} iterations:\n\n{lines}");
    Ok(())
}
