//! Instruction counts of zico's hot paths, by valgrind. They do not depend on the load of the
//! machine, so they show changes that are too small for a clock. Each may take 2% more than it did
//! when its limit was set; beyond that the run fails.
//!
//! ```text
//! cargo install gungraun-runner --version 0.20.0    # and valgrind
//! cargo bench -p zico-bench --bench instructions
//! ```

#![allow(missing_docs, reason = "what the macros make has none")]
#![allow(clippy::panic, reason = "a setup that fails ends the run")]

use std::hint::black_box;

use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use zico_bench::speed::{self, Allocator, Op, Workload, Zico};
use zico_core::{Block, Lifetime};

/// A job, its blocks, and a workload.
struct Set {
    zico: Zico,
    places: Vec<Block>,
    ops: Vec<Op>,
}

/// A warm set: it has run the whole workload twice.
fn set(workload: &Workload, zico: speed::Outcome<Zico>) -> Set {
    let mut zico = zico.unwrap_or_else(|error| panic!("{error}"));
    let filler = zico.alloc(1, Lifetime::Persistent);
    let filler = filler.unwrap_or_else(|| panic!("no room"));
    let ops = workload.turn(0).to_vec();
    let mut set = Set { zico, places: vec![filler; workload.places], ops };
    for ops in [&workload.setup, &workload.round, &workload.round] {
        play(&mut set, ops);
    }
    set
}

/// Never inlined, so that the count does not depend on the caller.
#[inline(never)]
fn play(set: &mut Set, ops: &[Op]) {
    let Set { zico, places, .. } = set;
    let done = ops.iter().all(|op| match *op {
        Op::Alloc { place, granules, lifetime } => {
            let block = zico.alloc(granules, lifetime);
            block.map(|block| places[place as usize] = block).is_some()
        }
        Op::Free { place } => zico.free(places[place as usize]),
        Op::Begin => zico.begin(),
        Op::End => zico.end(),
    });
    assert!(done);
}

/// Nothing is leased or given back.
fn keeping(workload: &Workload) -> Set {
    set(workload, Zico::keeping(workload))
}

/// An iteration of a recorded job, again and again.
fn repeating(name: &str) -> Set {
    let workload = speed::repeating(name).unwrap_or_else(|error| panic!("{error}"));
    set(&workload, Zico::sharing(&workload))
}

/// The same where nothing is leased or given back.
fn planned(name: &str) -> Set {
    let workload = speed::repeating(name).unwrap_or_else(|error| panic!("{error}"));
    set(&workload, Zico::in_one_region(&workload))
}

/// A block of a page of its own, again and again: each time a lease without a device call, and
/// pages that are given back.
fn leasing() -> Set {
    let mut workload = speed::one_size((2 << 20) / 512);
    workload.setup.push(Op::Begin);
    set(&workload, Zico::sharing(&workload))
}

/// Empty iterations.
fn idling() -> Set {
    let mut workload = speed::one_size(1);
    workload.round = [Op::Begin, Op::End].repeat(1_000);
    set(&workload, Zico::sharing(&workload))
}

fn within(instructions: u64) -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    let limit = instructions + instructions / 50;
    config.tool(Callgrind::default().hard_limits([(EventKind::Ir, limit)]));
    config
}

#[library_benchmark]
#[bench::one_size(args = (keeping(&speed::one_size(2_048))), config = within(582_207))]
#[bench::last_in_first_out(args = (keeping(&speed::last_in_first_out(500))), config = within(299_948))]
#[bench::random(args = (keeping(&speed::random(1_000, 50_000))), config = within(819_463))]
#[bench::leases(args = (leasing()), config = within(4_306_170))]
// 5,538 before turns, interruptions, and what is known of what iterations hold in all.
#[bench::iterations(args = (idling()), config = within(5_889_206))]
#[bench::planned(args = (planned("resnet50")), config = within(717_144))]
#[bench::resnet50(args = (repeating("resnet50")), config = within(2_384_690))]
fn hot(mut set: Set) -> Set {
    let ops = std::mem::take(&mut set.ops);
    play(&mut set, &ops);
    black_box(set)
}

library_benchmark_group!(name = paths; benchmarks = hot);
main!(library_benchmark_groups = paths);
