//! What a pair of an allocation and a free costs while the job's pages are backed.
//!
//! `cargo run --release -p zico-core --example pairs`
//!
//! The device is a mock, and every page of the arena holds a small block that stays: so no page is
//! ever given back, and the pool has no part in what is measured. What remains is the job's lock,
//! the search, splitting and joining. Each figure is the median of several rounds; the same loop
//! without the two calls is measured first and taken off.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use zico_core::{Block, Bytes, Job, Lifetime, Pool, PoolConfig, Request};
use zico_mock::{MockConfig, MockDevice};

const REGION: Bytes = Bytes::mib(64);
const GRANULE: u64 = 512;
const ROUNDS: usize = 15;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A job with `pages` backed pages, empty but for one granule at the end of each.
fn warm_job(pages: u64) -> Outcome<Job<MockDevice>> {
    let budget = Bytes::new(REGION.value() * pages);
    let device = MockDevice::new(MockConfig::new(budget))?;
    let pool = Pool::new(device.clone(), PoolConfig::new(budget).region_size(REGION))?;
    let job = pool.join("pairs", device.add_stream())?;
    let mut room = Vec::new();
    for _ in 0..pages {
        room.push(alloc(&job, REGION.value() - GRANULE)?);
        alloc(&job, GRANULE)?;
    }
    room.into_iter().try_for_each(|block| job.free(block))?;
    Ok(job)
}

#[inline]
fn alloc(job: &Job<MockDevice>, bytes: u64) -> Outcome<Block> {
    Ok(job.alloc(Request::new(Bytes::new(bytes), Lifetime::Persistent))?)
}

/// A size between `least` and `most`, each factor of two as likely as any other.
fn size(random: &mut fastrand::Rng, least: u64, most: u64) -> u64 {
    let octaves = (most as f64 / least as f64).log2();
    let bytes = least as f64 * (random.f64() * octaves).exp2();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
    let bytes = bytes as u64;
    bytes.clamp(least, most)
}

/// The median of the rounds, in nanoseconds a pair.
fn median(pairs: usize, mut round: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        times.push(start.elapsed().as_nanos() as f64 / pairs as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

fn report(what: &str, all: f64, idle: f64, job: &Job<MockDevice>, held: Bytes) {
    let grown = job.held().total().saturating_sub(held);
    println!("{what:<44} {:>7.1} ns a pair (loop {idle:.1}, grown by {grown})", all - idle);
}

/// `live` blocks of random sizes; a step frees one of them and allocates another.
fn random(live: usize, pages: u64, pairs: usize) -> Outcome<()> {
    let mut random = fastrand::Rng::with_seed(7);
    let job = warm_job(pages)?;
    let most = REGION.value() - GRANULE;
    let mut blocks = Vec::with_capacity(live);
    for _ in 0..live {
        blocks.push(alloc(&job, size(&mut random, GRANULE, most))?);
    }
    let steps: Vec<(usize, u64)> =
        (0..pairs).map(|_| (random.usize(..live), size(&mut random, GRANULE, most))).collect();
    let mut run = |steps: &[(usize, u64)]| -> Outcome<()> {
        for &(victim, bytes) in steps {
            job.free(blocks[victim])?;
            blocks[victim] = alloc(&job, bytes)?;
        }
        Ok(())
    };
    // Until the holes look as they will.
    run(&steps)?;
    run(&steps)?;
    let held = job.held().total();
    let all = median(pairs, || run(&steps))?;
    let idle = median(pairs, || {
        for &(victim, bytes) in &steps {
            black_box(blocks[victim]);
            black_box(bytes);
        }
        Ok(())
    })?;
    report(&format!("random sizes, {live} live"), all, idle, &job, held);
    Ok(())
}

/// Bursts of allocations, freed in reverse.
fn last_in_first_out(burst: usize, bursts: usize) -> Outcome<()> {
    let mut random = fastrand::Rng::with_seed(7);
    let job = warm_job(32)?;
    let sizes: Vec<u64> = (0..burst).map(|_| size(&mut random, 4 << 10, 2 << 20)).collect();
    let mut stack: Vec<Block> = Vec::with_capacity(burst);
    let held = job.held().total();
    let all = median(burst * bursts, || {
        for _ in 0..bursts {
            for &bytes in &sizes {
                stack.push(alloc(&job, bytes)?);
            }
            while let Some(block) = stack.pop() {
                job.free(block)?;
            }
        }
        Ok(())
    })?;
    let any = alloc(&job, 1)?;
    let idle = median(burst * bursts, || {
        for _ in 0..bursts {
            for &bytes in &sizes {
                black_box(bytes);
                stack.push(black_box(any));
            }
            while let Some(block) = stack.pop() {
                black_box(block);
            }
        }
        Ok(())
    })?;
    report(&format!("bursts of {burst}, last in first out"), all, idle, &job, held);
    Ok(())
}

/// The same block again and again.
fn one_size(bytes: u64, pairs: usize) -> Outcome<()> {
    let job = warm_job(4)?;
    let held = job.held().total();
    let all = median(pairs, || {
        (0..pairs).try_for_each(|_| Ok(job.free(alloc(&job, black_box(bytes))?)?))
    })?;
    let idle = median(pairs, || {
        (0..pairs).for_each(|_| {
            black_box(bytes);
        });
        Ok(())
    })?;
    report(&format!("one size, {}", Bytes::new(bytes)), all, idle, &job, held);
    Ok(())
}

fn main() -> Outcome<()> {
    random(1_000, 512, 200_000)?;
    random(100_000, 16_384, 200_000)?;
    last_in_first_out(500, 400)?;
    one_size(1 << 20, 500_000)
}
