//! The host memory of zico's own data structures: by live block, by region, by job.
//!
//! ```text
//! cargo bench -p zico-bench --bench footprint
//! ```
//!
//! Counted at the allocator. The mock device allocates host memory when it creates device memory,
//! so regions are counted before it has created any.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use zico_bench::speed::{Outcome, job, pool};
use zico_bench::table::table;
use zico_core::{Bytes, Lifetime, Request};

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the bytes that are live.
struct Counting;

// SAFETY: every call goes to the system's allocator as it is; the count is beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is the one that the system's allocator asks
        // for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `ptr` comes from `alloc` above, which took it from the system's allocator with
        // the same layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The bytes that a call leaves allocated.
fn grown<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<(usize, T)> {
    let before = LIVE.load(Ordering::Relaxed);
    let made = act()?;
    Ok((LIVE.load(Ordering::Relaxed).saturating_sub(before), made))
}

fn main() -> Outcome<()> {
    let mut figures = table(&["", "bytes"]);
    let mut row = |what: &str, bytes: usize| {
        figures.add_row([what.to_owned(), bytes.to_string()]);
    };
    const REGIONS: usize = 1 << 14;
    let (few, _few) = grown(|| pool(2 << 20, 2 << 20))?;
    let (many, many_pool) = grown(|| pool(2 << 20, (REGIONS as u64) << 21))?;
    row("a region of the budget", (many - few) / (REGIONS - 1));
    let (joined, _job) = grown(|| Ok(many_pool.join("one", many_pool.device().add_stream())?))?;
    row("a job, regions of 2 MiB (in them, bins for all lengths)", joined);
    for (what, request) in [
        ("a live block, 10,000 of them", Request::new(Bytes::kib(4), Lifetime::Iteration)),
        ("the same, its lifetime learned", Request::learned(Bytes::kib(4))),
        ("the same, with a name", Request::new(Bytes::kib(4), Lifetime::Iteration).named("a")),
    ] {
        const BLOCKS: usize = 10_000;
        let job = job(64 << 20, 1 << 30)?;
        // Its page is leased by the first one.
        job.alloc(request)?;
        let (bytes, ()) = grown(|| {
            (0..BLOCKS).try_for_each(|_| job.alloc(request).map(|_| ()).map_err(Into::into))
        })?;
        row(what, bytes / BLOCKS);
    }
    println!("{figures}\n\nA slab grows by doubling, so up to twice as much for a moment.");
    Ok(())
}
