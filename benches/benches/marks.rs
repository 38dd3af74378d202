//! Instructions that an `AutoJob` adds to an allocation and a free, by valgrind: beside a job that
//! marks its iterations itself, those that are found by sizes and by phases. In a program of their
//! own, so that they do not change what the compiler makes of the hot paths in `instructions.rs`.
//!
//! ```text
//! cargo install gungraun-runner --version 0.20.0    # and valgrind
//! cargo bench -p zico-bench --bench marks
//! ```

#![allow(missing_docs, reason = "what the macros make has none")]
#![allow(clippy::panic, reason = "a setup that fails ends the run")]

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use zico_bench::speed;
use zico_core::{AutoJob, Begin, Block, Bytes, Job, Lifetime, Request};
use zico_mock::MockDevice;

/// A job that marks its iterations itself, and those that have them found.
enum Marks {
    Own(Job<MockDevice>),
    Sizes(AutoJob<MockDevice>),
    Phases(AutoJob<MockDevice>),
}

/// A job that is alone, and where its iterations come from.
fn marks(wrapped: impl FnOnce(Job<MockDevice>) -> Marks) -> Marks {
    let marks = speed::job(2 << 20, 1 << 30).map(wrapped);
    let marks = marks.unwrap_or_else(|error| panic!("{error}"));
    iterate(&marks, 10);
    marks
}

/// Iterations of 60 blocks. What an adapter adds is the difference over 120 of them.
fn iterate(marks: &Marks, iterations: u32) {
    match marks {
        Marks::Own(job) => (0..iterations).for_each(|_| {
            assert_eq!(job.begin(None), Ok(Begin::Started));
            blocks(|request| job.alloc(request).ok(), |block| job.free(block).is_ok());
            assert!(job.end().is_ok());
        }),
        Marks::Sizes(job) => (0..iterations).for_each(|_| {
            blocks(|request| job.alloc(request).ok(), |block| job.free(block).is_ok());
        }),
        Marks::Phases(job) => (0..iterations).for_each(|_| {
            blocks(|request| job.alloc(request).ok(), |block| job.free(block).is_ok());
            job.end_phase();
        }),
    }
}

#[inline(always)]
fn blocks(alloc: impl Fn(Request) -> Option<Block>, free: impl Fn(Block) -> bool) {
    let request = |i| Request::new(Bytes::kib(1 + i), Lifetime::Iteration);
    let blocks: [Option<Block>; 60] = std::array::from_fn(|i| alloc(request(i as u64)));
    assert!(blocks.into_iter().rev().all(|block| block.is_some_and(&free)));
}

#[library_benchmark]
#[bench::own(args = (marks(Marks::Own)))]
#[bench::sizes(args = (marks(|job| Marks::Sizes(AutoJob::new(job)))))]
#[bench::phases(args = (marks(|job| Marks::Phases(AutoJob::with_phases(job)))))]
fn marked(marks: Marks) -> Marks {
    iterate(&marks, 100);
    black_box(marks)
}

library_benchmark_group!(name = adapters; benchmarks = marked);
main!(library_benchmark_groups = adapters);
