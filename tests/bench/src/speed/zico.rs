//! zico: a job on the mock device.

use zico_core::{Begin, Block, Bytes, Job, Lifetime, Pool, PoolConfig, Request};
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
    /// The job as the peers are: of one address space, all of it backed, and nothing is given back. Its
    /// pages are large, and each has a granule at its end that stays; so the pool has no part in what is
    /// measured. All happens in one arena and one iteration.
    ///
    /// # Errors
    /// If zico or the mock device refuses anything: a defect.
    pub fn keeping(workload: &Workload) -> Outcome<Self> {
        let largest = workload.setup.iter().chain(&workload.round).map(|op| match op {
            Op::Alloc { granules, .. } => *granules,
            _ => 0,
        });
        let largest = (u64::from(largest.max().unwrap_or(1)) + 1) * GRANULE;
        let page = largest.next_power_of_two().max(64 << 20);
        let job = job(page, workload.space)?;
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

    /// The job as it comes: an arena for each lifetime, regions of 2 MiB that go back to the pool when they
    /// are empty and are leased again, iterations that begin and end.
    ///
    /// # Errors
    /// If zico or the mock device refuses anything: a defect.
    pub fn sharing(workload: &Workload) -> Outcome<Self> {
        Ok(Self { job: job(2 << 20, workload.space)?, tells: true })
    }
}

/// A job alone in a pool, with regions of so many bytes.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn job(region: u64, budget: u64) -> Outcome<Job<MockDevice>> {
    let budget = Bytes::new(budget);
    let device = MockDevice::new(MockConfig::new(budget))?;
    let config = PoolConfig::new(budget).region_size(Bytes::new(region));
    let pool = Pool::new(device.clone(), config)?;
    Ok(pool.join("speed", device.add_stream())?)
}

/// Begins an iteration that may begin at once.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn started(job: &Job<MockDevice>) -> Outcome<()> {
    match job.begin()? {
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
