//! zico: a job on the mock device.

use zico_core::{Begin, Block, Bytes, Job, JobConfig, Lifetime, Pool, PoolConfig, Request};
use zico_mock::{MockConfig, MockDevice};

use super::{Allocator, Op, Outcome, Workload};

const GRANULE: u64 = 512;

/// A job in a pool.
pub struct Zico {
    job: Job<MockDevice>,
    /// Whether it tells zico how long blocks live, and where its iterations are.
    tells: bool,
}

impl Zico {
    /// The job as the peers are: of one address space, all of it backed, and nothing is given back.
    /// Its pages are large, and each has a granule at its end that stays; so the pool has no part
    /// in what is measured. All happens in one arena and one iteration.
    ///
    /// # Errors
    /// If zico or the mock device refuses anything: a defect.
    pub fn keeping(workload: &Workload) -> Outcome<Self> {
        Self::keeping_in(&pool(page(workload), workload.space)?, workload)
    }

    /// The same in a pool with regions of a [`page`], beside others.
    ///
    /// # Errors
    /// If zico or the mock device refuses anything: a defect.
    pub fn keeping_in(pool: &Pool<MockDevice>, workload: &Workload) -> Outcome<Self> {
        let page = page(workload);
        let config = JobConfig::new("speed").declare(Bytes::new(workload.space));
        let job = pool.join(config, pool.device().add_stream())?;
        started(&job)?;
        let get = |bytes| job.alloc(Request::new(Bytes::new(bytes), Lifetime::Iteration));
        let mut room = Vec::new();
        for _ in 0..workload.space / page {
            room.push(get(page - GRANULE)?);
            get(GRANULE)?;
        }
        room.into_iter().try_for_each(|block| job.free(block))?;
        Ok(Self { job, tells: false })
    }

    /// The job as it comes: an arena for each lifetime, regions of 2 MiB that go back to the pool
    /// when they are empty and are leased again, iterations that begin and end.
    ///
    /// # Errors
    /// If zico or the mock device refuses anything: a defect.
    pub fn sharing(workload: &Workload) -> Outcome<Self> {
        Ok(Self { job: job(2 << 20, workload.space)?, tells: true })
    }

    /// The job as it comes, but for regions so large that one holds all of an iteration: what the
    /// calls take where nothing is leased or given back.
    ///
    /// # Errors
    /// If zico or the mock device refuses anything: a defect.
    pub fn in_one_region(workload: &Workload) -> Outcome<Self> {
        // One for each lifetime.
        let budget = workload.space.checked_mul(2).ok_or("too much space")?;
        Ok(Self { job: job(workload.space, budget)?, tells: true })
    }

    /// The same beside others, with its needs declared so that they need not wait for its first
    /// iteration.
    ///
    /// # Errors
    /// If zico or the mock device refuses anything: a defect.
    pub fn sharing_in(pool: &Pool<MockDevice>, workload: &Workload) -> Outcome<Self> {
        let config = JobConfig::new("speed").declare(Bytes::new(workload.space));
        Ok(Self { job: pool.join(config, pool.device().add_stream())?, tells: true })
    }
}

/// A page that the largest block and a granule fit in.
#[must_use]
pub fn page(workload: &Workload) -> u64 {
    let granules = workload.setup.iter().chain(&workload.round).map(|op| match op {
        Op::Alloc { granules, .. } => *granules,
        _ => 0,
    });
    let largest = (u64::from(granules.max().unwrap_or(1)) + 1) * GRANULE;
    largest.next_power_of_two().max(64 << 20)
}

/// A pool on a mock device, with regions of this size.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn pool(region: u64, budget: u64) -> Outcome<Pool<MockDevice>> {
    let budget = Bytes::new(budget);
    let device = MockDevice::new(MockConfig::new(budget))?;
    Ok(Pool::new(device, PoolConfig::new(budget).region_size(Bytes::new(region)))?)
}

/// A job alone in such a pool.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn job(region: u64, budget: u64) -> Outcome<Job<MockDevice>> {
    let pool = pool(region, budget)?;
    Ok(pool.join("speed", pool.device().add_stream())?)
}

/// Begins an iteration that may begin at once.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn started(job: &Job<MockDevice>) -> Outcome<()> {
    match job.begin(None)? {
        Begin::Started => Ok(()),
        Begin::Wait(_) => Err("a job that is alone has to wait".into()),
    }
}

impl Allocator for Zico {
    type Handle = Block;

    #[inline]
    fn alloc(&mut self, granules: u32, lifetime: Lifetime) -> Option<Block> {
        let lifetime = if self.tells { lifetime } else { Lifetime::Iteration };
        let bytes = Bytes::new(u64::from(granules) * GRANULE);
        self.job.alloc(Request::new(bytes, lifetime)).ok()
    }

    #[inline]
    fn free(&mut self, handle: Block) -> bool {
        self.job.free(handle).is_ok()
    }

    fn begin(&mut self) -> bool {
        !self.tells || started(&self.job).is_ok()
    }

    fn end(&mut self) -> bool {
        !self.tells || self.job.end().is_ok()
    }
}
