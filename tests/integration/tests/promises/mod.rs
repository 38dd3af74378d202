//! The promises by name, each in its hardest situation.
//!
//! The policy here is the worst: every iteration starts at once. Only the pool's own guarantees
//! remain.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod budget;
mod claims;
mod fences;
mod progress;
mod refusals;
mod regions;

use zico_core::policy::Policy;
use zico_core::{Bytes, Pool, PoolConfig};
use zico_mock::{MockConfig, MockDevice};
use zico_tests::waves::{REGION, regions};

fn pool(budget: u64, policy: impl Policy + 'static) -> (MockDevice, Pool<MockDevice>) {
    pool_of(budget, |config| config.policy(Box::new(policy)))
}

fn pool_of(
    budget: u64,
    config: impl FnOnce(PoolConfig) -> PoolConfig,
) -> (MockDevice, Pool<MockDevice>) {
    let device = MockConfig::new(Bytes::gib(4)).budget(regions(budget));
    let device = MockDevice::new(device).unwrap();
    let config = config(PoolConfig::new(regions(budget)).region_size(REGION));
    (device.clone(), Pool::new(device, config).unwrap())
}
