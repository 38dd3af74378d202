//! One call of the pool whose cost has a bound, made so that its instructions can be counted: set
//! up for `n` regions, pages, streams or allocations, then [`measured`].

use std::error::Error;
use std::hint::black_box;

use clap::ValueEnum;
use zico_core::{Begin, Block, Bytes, Job, Lifetime, Pool, PoolConfig, Request};

use crate::null::{GRANULARITY, NullDevice};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The documented growth of a call with n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Not at all, or with its logarithm.
    Constant,
    /// With n.
    Linear,
    /// With n log n.
    Sorting,
}

impl Bound {
    /// The largest exponent of growth over a factor in `n` that is within the bound, with some more
    /// for what grows by doubling.
    #[must_use]
    pub fn most(self, n: usize, times: usize) -> f64 {
        let (n, times) = ((n as f64).ln(), (times as f64).ln());
        match self {
            Self::Constant => 0.15,
            Self::Linear => 1.15,
            Self::Sorting => 1.05 + ((n + times) / n).ln() / times,
        }
    }
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Call {
    /// An allocation of n pages that are mapped and free
    LeaseMapped,
    /// An allocation of n pages that the device has yet to create and map
    LeaseNew,
    /// An allocation of n pages whose regions another job has had
    LeaseHandedOver,
    /// An allocation of a page, n live blocks of a page beside it
    LeaseBeside,
    /// An allocation of a page that is mapped anew, n regions free that the job had last
    LeaseOfOwn,
    /// The same, n regions free that another job had last
    LeaseOfOthers,
    /// The same, n regions that the job has given up and the device has yet to pass
    LeaseDraining,
    /// A decision on eight jobs in a pool of n regions, of which seven hold half
    Decide,
    /// A free of a block of n pages
    Free,
    /// A free of a block of a page, n live ones beside it
    FreeBeside,
    /// A free of a block that n streams use
    FreeUsed,
    /// `record_use` of a block on a stream, after n others used others
    RecordUse,
    /// `record_use` of a block that n streams use on one more
    RecordUses,
    /// `poll` when the device has passed a fence of n regions
    Poll,
    /// `trim(0)` of n regions
    Trim,
    /// `set_budget` to one region, n of them created
    LowerBudget,
    /// `set_budget` to n regions more
    RaiseBudget,
    /// A drop of a job with a block of n pages
    Drop,
    /// `poll` after a job with a block of n pages has left
    ClearUp,
    /// `evict` of a job with n blocks of a page
    Evict,
    /// `snapshot` of n regions, each with a block
    Snapshot,
    /// `end`, four in a row, of n allocations of which n / 8 live at a time
    End,
    /// The same of which 100 live at a time
    EndShort,
    /// Not a call of the pool: a nested loop, which has to be detected
    #[value(hide = true)]
    Toy,
}

impl Call {
    /// What its cost grows with.
    #[must_use]
    pub const fn bound(self) -> Bound {
        match self {
            Self::LeaseBeside | Self::FreeBeside | Self::RecordUse => Bound::Constant,
            Self::LeaseOfOwn | Self::LeaseOfOthers | Self::LeaseDraining | Self::Decide => {
                Bound::Constant
            }
            Self::End | Self::EndShort => Bound::Sorting,
            _ => Bound::Linear,
        }
    }

    /// The smallest n.
    #[must_use]
    pub const fn least(self) -> usize {
        match self {
            Self::End | Self::EndShort => 500,
            _ => 1_000,
        }
    }

    /// Makes the call once.
    ///
    /// # Errors
    /// If the pool refuses anything: a defect.
    pub fn make(self, n: usize) -> Outcome<()> {
        match self {
            Self::LeaseMapped => lease_mapped(n),
            Self::LeaseNew => {
                let (_, job) = job(n)?;
                measured(&mut || job.alloc(pages(n)).map(drop)).map_err(Into::into)
            }
            Self::LeaseHandedOver => lease_handed_over(n),
            Self::LeaseBeside | Self::FreeBeside => beside(self, n),
            Self::LeaseOfOwn | Self::LeaseOfOthers | Self::LeaseDraining => lease_anew(self, n),
            Self::Decide => decide(n),
            Self::Free => {
                let (_, job) = job(n)?;
                let block = job.alloc(pages(n))?;
                measured(&mut || job.free(block)).map_err(Into::into)
            }
            Self::FreeUsed | Self::RecordUses => used(self, n),
            Self::RecordUse => record_use(n),
            Self::Poll => poll(n),
            Self::Trim => {
                let pool = created(n)?;
                let left = measured(&mut || pool.trim(Bytes::ZERO))?;
                check(left == Bytes::ZERO)
            }
            Self::LowerBudget => {
                let pool = created(n)?;
                let status = measured(&mut || pool.set_budget(GRANULARITY))?;
                check(status.pending == Bytes::ZERO)
            }
            Self::RaiseBudget => {
                let pool = Pool::new(NullDevice::new(regions(n)), config(GRANULARITY))?;
                measured(&mut || pool.set_budget(regions(n)))?;
                Ok(())
            }
            Self::Drop | Self::ClearUp => left(self, n),
            Self::Evict => {
                let (pool, job) = job(n)?;
                blocks(&job, n)?;
                let left = measured(&mut || pool.evict(job.id()));
                check(left.is_some_and(|left| left.blocks.len() == n))
            }
            Self::Snapshot => {
                let (pool, job) = job(n)?;
                blocks(&job, n)?;
                measured(&mut || drop(black_box(pool.snapshot())));
                Ok(())
            }
            Self::End => ends(n, n / 8),
            Self::EndShort => ends(n, 100),
            Self::Toy => {
                measured(&mut || (0..n).flat_map(|i| (0..i).map(black_box)).for_each(drop));
                Ok(())
            }
        }
    }
}

/// Makes a call. Instructions are counted within it: it is never inlined, so that it has a name.
#[inline(never)]
pub fn measured<T>(call: &mut dyn FnMut() -> T) -> T {
    black_box(call())
}

fn check(holds: bool) -> Outcome<()> {
    if holds { Ok(()) } else { Err("what was set up is not what was to be measured".into()) }
}

fn regions(n: usize) -> Bytes {
    Bytes::new(n as u64 * GRANULARITY.value())
}

fn pages(n: usize) -> Request {
    Request::new(regions(n), Lifetime::Iteration)
}

fn config(budget: Bytes) -> PoolConfig {
    PoolConfig::new(budget).region_size(GRANULARITY)
}

/// A pool of n regions, on a device that has some more.
fn pool(n: usize) -> Outcome<Pool<NullDevice>> {
    let device = NullDevice::new(regions(n + 1));
    Ok(Pool::new(device, config(regions(n)))?)
}

/// The same, and a job in its first iteration.
fn job(n: usize) -> Outcome<(Pool<NullDevice>, Job<NullDevice>)> {
    let pool = pool(n)?;
    let job = pool.join("job", 1)?;
    started(&job)?;
    Ok((pool, job))
}

fn started(job: &Job<NullDevice>) -> Outcome<()> {
    check(job.begin(None)? == Begin::Started)
}

/// n blocks of a page each.
fn blocks(job: &Job<NullDevice>, n: usize) -> Outcome<Vec<Block>> {
    (0..n).map(|_| Ok(job.alloc(pages(1))?)).collect()
}

/// A pool with n regions that are created, mapped and free.
fn created(n: usize) -> Outcome<Pool<NullDevice>> {
    let (pool, job) = job(n)?;
    let block = job.alloc(pages(n))?;
    job.free(block)?;
    job.end()?;
    pool.poll()?;
    check(pool.snapshot().free == regions(n))?;
    drop(job);
    Ok(pool)
}

fn lease_mapped(n: usize) -> Outcome<()> {
    let (pool, job) = job(n)?;
    let block = job.alloc(pages(n))?;
    job.free(block)?;
    pool.poll()?;
    let calls = pool.device().memory_calls();
    measured(&mut || job.alloc(pages(n)))?;
    check(pool.device().memory_calls() == calls)
}

fn lease_handed_over(n: usize) -> Outcome<()> {
    let (pool, first) = job(n)?;
    let second = pool.join("second", 2)?;
    let block = first.alloc(pages(n))?;
    first.free(block)?;
    first.end()?;
    pool.poll()?;
    started(&second)?;
    measured(&mut || second.alloc(pages(n)))?;
    check(pool.snapshot().counts.creates == n as u64)
}

/// A page that is mapped anew, where n regions have been given up.
fn lease_anew(call: Call, n: usize) -> Outcome<()> {
    let (pool, job) = job(n)?;
    let other = pool.join("other", 2)?;
    let block = job.alloc(pages(n))?;
    pool.device().set_busy(call == Call::LeaseDraining);
    job.free(block)?;
    job.end()?;
    pool.poll()?;
    let taker = if call == Call::LeaseOfOthers { &other } else { &job };
    started(taker)?;
    let page = Request::new(GRANULARITY, Lifetime::Iteration);
    measured(&mut || taker.alloc(page))?;
    pool.device().set_busy(false);
    check(pool.snapshot().counts.creates == n as u64)
}

/// The eighth job asks to start while seven run.
fn decide(n: usize) -> Outcome<()> {
    let pool = pool(n)?;
    let join = |i: u64| pool.join("job", i + 1);
    let jobs: Vec<Job<NullDevice>> = (0..8).map(join).collect::<Result<_, _>>()?;
    for job in jobs.iter().cycle().take(24) {
        started(job)?;
        let block = job.alloc(pages(n / 16))?;
        job.free(block)?;
        job.end()?;
        pool.poll()?;
    }
    for job in &jobs[..7] {
        started(job)?;
        job.alloc(pages(n / 16))?;
    }
    let begun = measured(&mut || jobs[7].begin(None))?;
    check(begun == Begin::Started && pool.snapshot().jobs.len() == 8)
}

/// One block more or less, of a page, where the job has n.
fn beside(call: Call, n: usize) -> Outcome<()> {
    let (pool, job) = job(n + 1)?;
    let blocks = blocks(&job, n)?;
    // Once before: the tables grow by doubling.
    let block = job.alloc(pages(1))?;
    job.free(block)?;
    pool.poll()?;
    if call == Call::LeaseBeside {
        measured(&mut || job.alloc(pages(1)))?;
    } else {
        measured(&mut || job.free(blocks[n / 2]))?;
    }
    Ok(())
}

/// A block that n streams use, and of which one thing more is said.
fn used(call: Call, n: usize) -> Outcome<()> {
    let (_, job) = job(4)?;
    let block = job.alloc(pages(1))?;
    (0..n).try_for_each(|stream| job.record_use(block, 2 + stream as u64))?;
    if call == Call::FreeUsed {
        measured(&mut || job.free(block))?;
    } else {
        measured(&mut || job.record_use(block, 1 << 40))?;
    }
    Ok(())
}

fn record_use(n: usize) -> Outcome<()> {
    let (_, job) = job(n)?;
    for stream in 0..n {
        let block = job.alloc(Request::new(Bytes::new(512), Lifetime::Iteration))?;
        job.record_use(block, 2 + stream as u64)?;
    }
    let block = job.alloc(pages(1))?;
    measured(&mut || job.record_use(block, 1 << 40))?;
    Ok(())
}

fn poll(n: usize) -> Outcome<()> {
    let (pool, job) = job(n)?;
    let block = job.alloc(pages(n))?;
    pool.device().set_busy(true);
    job.free(block)?;
    pool.poll()?;
    check(job.held().draining == regions(n))?;
    pool.device().set_busy(false);
    measured(&mut || pool.poll())?;
    check(job.held().draining == Bytes::ZERO)
}

/// A job with a block of n pages leaves, and what it had comes back.
fn left(call: Call, n: usize) -> Outcome<()> {
    let (pool, job) = job(n)?;
    job.alloc(pages(n))?;
    let mut job = Some(job);
    if call == Call::Drop {
        measured(&mut || drop(job.take()));
        pool.poll()?;
    } else {
        drop(job);
        measured(&mut || pool.poll())?;
    }
    check(pool.snapshot().jobs.is_empty() && pool.snapshot().free == regions(n))
}

/// Four ends of an iteration of n allocations of random sizes. When more than so many are live a
/// random one of them is freed.
fn ends(n: usize, live: usize) -> Outcome<()> {
    let (_, job) = job(n)?;
    job.end()?;
    for _ in 0..4 {
        started(&job)?;
        let mut random = fastrand::Rng::with_seed(1);
        let mut blocks = Vec::new();
        for _ in 0..n {
            let bytes = Bytes::new(random.u64(1..=200) * 512);
            blocks.push(job.alloc(Request::new(bytes, Lifetime::Iteration))?);
            if blocks.len() > live {
                let freed = blocks.swap_remove(random.usize(..blocks.len()));
                job.free(freed)?;
            }
        }
        blocks.into_iter().try_for_each(|block| job.free(block))?;
        measured(&mut || job.end())?;
    }
    check(job.snapshot().planning.placed > 0)
}
