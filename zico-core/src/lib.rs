//! The allocator core of zico (being built; see the repository's README).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod account;
mod admission;
mod alias;
mod arena;
mod banker;
mod device;
mod error;
mod job;
mod lease;
mod ledger;
mod lifetime;
pub mod policy;
mod pool;
mod profile;
mod region;
mod snapshot;
mod sync;
mod units;

pub use admission::Begin;
pub use device::{Caps, Class, Device, DeviceError, Features, Passed, Refused};
pub use error::{AllocError, BeginError, FreeError, NotRunning, PoolError, Shortage};
pub use job::{Block, Job, Request};
pub use lifetime::Lifetime;
pub use pool::{Pool, PoolConfig};
pub use profile::{Profile, Step};
pub use snapshot::{Activity, Held, JobSnapshot, Snapshot};
pub use units::{Addr, Bytes, Progress, Regions, Ticks};
