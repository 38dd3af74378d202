//! A device of one's own under zico: `host.rs` is the device, this the jobs that share it.
//!
//! Each job writes a number of its own into what it allocates and has it checked, on its stream,
//! before it frees it: memory that two jobs had at once would show.

mod host;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use host::{Host, Stream};
use zico_core::{Block, Bytes, Lifetime, Pool, PoolConfig, Request};

type AnyError = Box<dyn Error + Send + Sync>;

const BUDGET: Bytes = Bytes::mib(4);
const BLOCK: Bytes = Bytes::kib(500);
const LOOK: Duration = Duration::from_micros(200);

fn main() -> Result<(), AnyError> {
    let device = Host::new(Bytes::mib(16));
    let pool = Pool::new(device.clone(), PoolConfig::new(BUDGET))?;
    let wrong = Arc::new(AtomicU32::new(0));
    let peaks = thread::scope(|scope| {
        let jobs = [1, 2, 3].map(|number| {
            let (pool, wrong) = (&pool, wrong.clone());
            scope.spawn(move || work(pool, number, &wrong))
        });
        jobs.map(|job| job.join().unwrap_or_else(|_| Err("a job panicked".into())))
    });
    let mut sum = Bytes::ZERO;
    for peak in peaks {
        sum = sum.saturating_add(peak?);
    }
    println!("{}", pool.snapshot());
    println!("the sum of the peaks is {sum}, in a budget of {BUDGET}");
    assert!(sum > BUDGET, "nothing was shared");
    assert_eq!(wrong.load(Ordering::Acquire), 0, "a job found what it had not written");
    Ok(())
}

/// Iterations of one job, up and down again; returns the most that it held.
fn work(pool: &Pool<Host>, number: u8, wrong: &Arc<AtomicU32>) -> Result<Bytes, AnyError> {
    let device = pool.device();
    let stream = device.add_stream();
    let job = pool.join(format!("job {number}"), stream)?;
    for _ in 0..20 {
        job.begin_blocking(None, LOOK)?;
        let mut blocks = Vec::new();
        for _ in 0..5 {
            let request = Request::new(BLOCK, Lifetime::Iteration);
            let block = job.alloc_blocking(request, LOOK)?;
            touch(device, stream, block, move |byte| byte.store(number, Ordering::Relaxed))?;
            blocks.push(block);
        }
        while let Some(block) = blocks.pop() {
            let wrong = wrong.clone();
            touch(device, stream, block, move |byte| {
                let found = byte.load(Ordering::Relaxed);
                wrong.fetch_add(u32::from(found != number), Ordering::Relaxed);
            })?;
            job.free(block)?;
        }
        job.end()?;
    }
    Ok(job.held().peak)
}

/// Work that takes a moment and does something to every 4096th byte of a block. Memory is looked up
/// when the work runs: it has to be mapped then, or the work panics and the device is lost.
fn touch(
    device: &Host,
    stream: Stream,
    block: Block,
    does: impl Fn(&AtomicU8) + Send + 'static,
) -> Result<(), AnyError> {
    let memory = device.clone();
    let work = move || {
        for offset in (0..block.bytes().value()).step_by(4096) {
            let at = block.address().checked_add(Bytes::new(offset));
            let done = at.and_then(|at| memory.with_byte(at, &does));
            assert!(done.is_some(), "nothing is mapped {offset} bytes into a block");
        }
        thread::sleep(Duration::from_micros(100));
    };
    Ok(device.enqueue(stream, Box::new(work))?)
}
