//! Interleavings of threads that have failed once, each reproduced by `zico_tests::hook`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod mappings;
mod misuse;
mod waits;

use std::sync::Arc;

use zico_core::{AllocError, Begin, Block, Bytes, Job, Lifetime, Pool, PoolConfig, Request, Ticks};
use zico_mock::{Access, MockConfig, MockDevice, MockStream, Utilisation};
use zico_tests::hook::{Hook, HookError};
use zico_tests::waves::{REGION, regions};

struct Setup {
    device: MockDevice,
    hook: Hook,
    pool: Pool<Hook>,
}

type Tenant = Arc<Job<Hook>>;

impl Setup {
    fn new(budget: u64, config: impl FnOnce(PoolConfig) -> PoolConfig) -> Self {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
        let hook = Hook::new(device.clone());
        let config = config(PoolConfig::new(regions(budget)).region_size(REGION));
        Self { device, pool: Pool::new(hook.clone(), config).unwrap(), hook }
    }

    fn join(&self, name: &str) -> (Tenant, MockStream) {
        let stream = self.device.add_stream();
        (Arc::new(self.pool.join(name, stream).unwrap()), stream)
    }

    /// Iterations alone with blocks of these sizes in regions: two, so that they are planned, and
    /// one more that follows the plan, so that the pool knows the job.
    fn learn(&self, (job, stream): &(Tenant, MockStream), wave: &[u64]) {
        for _ in 0..3 {
            assert_eq!(job.begin(None).unwrap(), Begin::Started);
            let alloc = |&n: &u64| {
                let block = job.alloc(blocks(n)).unwrap();
                self.device.launch(*stream, Ticks::millis(1), Utilisation::FULL).unwrap();
                self.device.run_until_idle();
                block
            };
            let blocks: Vec<Block> = wave.iter().map(alloc).collect();
            blocks.into_iter().for_each(|block| job.free(block).unwrap());
            job.end().unwrap();
            self.pool.poll().unwrap();
        }
    }

    /// Whether work on a stream that touches a block finds its memory there.
    fn reaches(&self, stream: MockStream, block: Block) -> bool {
        let before = self.device.violation_count();
        let (owner, addr, len) = (7, block.address(), block.bytes());
        let claim = self.device.own(stream, owner, addr, len).unwrap();
        let access = [Access { owner, addr, len }];
        self.device.launch_touching(stream, Ticks::ZERO, Utilisation::FULL, &access).unwrap();
        self.device.disown(stream, claim).unwrap();
        self.device.run_until_idle();
        self.device.violation_count() == before
    }
}

fn blocks(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Iteration)
}

fn out_of_memory<T>(result: &Result<T, AllocError<HookError>>) -> bool {
    matches!(result, Err(AllocError::OutOfMemory(_)))
}
