//! An allocator core for accelerator memory: several training jobs share one memory budget.
//!
//! Within a training iteration a job's memory rises through the forward pass and falls through the
//! backward pass. Jobs that share a device need not each hold their own peak: this crate tracks
//! each job's memory over an iteration as the device sees it, hands memory that one job has given
//! up to another region by region, and starts iterations at moments where the waves fit together
//! under the budget. After *Zico: Efficient GPU Memory Sharing for Concurrent DNN Training* (Lim et
//! al., USENIX ATC 2021).
//!
//! The crate is `no_std` + `alloc`, forbids `unsafe`, and has no clock, no thread and no I/O of its
//! own. It talks to a device through the [`Device`] trait and decides deterministically: the same
//! calls, completions and clock give the same decisions.
//!
//! # Concepts
//!
//! * A [`Pool`] owns all memory under one budget on one device, in **regions** of one size. Each
//!   region is created once and handed over between jobs. It stays mapped at every address that it
//!   has backed (unless jobs are isolated), so that one that comes back to where it was is handed
//!   over by book-keeping alone.
//! * A [`Job`] is a tenant. It has one arena per [`Lifetime`], so that a long-lived block never
//!   strands memory that short-lived ones have given up.
//! * A region that a job has emptied in program order is **draining** until the device has passed
//!   the **fence** recorded after its last use. Until then it stays charged to the job, which alone
//!   may use it again.
//! * A [`Profile`] is what an iteration of a job takes over its progress, learned as it runs.
//! * A [`policy`] decides when an iteration may start. Beneath it, a banker's test on every lease
//!   keeps jobs from waiting for each other for ever.
//!
//! # Map
//!
//! Each folder of the source uses those below it in this list, and none above. `ARCHITECTURE.md` in
//! the repository follows an allocation and an iteration through them by function name.
//!
//! * `pool`: the handles of a pool.
//! * `job`: what a tenant holds; allocations that missed, waiting, iterations nobody marks.
//! * `executor`: the only code that creates, maps, copies and fences, holding no lock.
//! * [`broker`]: the ledger for jobs of several processes, as a state machine.
//! * `ledger`: pure books behind one lock; answers a request for memory with a work order.
//! * [`policy`]: when an iteration may start.
//! * `heap`: one job's blocks behind the job's lock: arenas and plans.
//! * `learn`: what iterations are like, and what to expect of the next.
//! * `types`: quantities, requests, configuration, errors, reports, the [`Device`] trait.
//!
//! # Features
//!
//! * `std`, on unless it is switched off: the forms that block a thread, as
//!   `Job::begin_blocking`. Without it the crate is `no_std` + `alloc`.
//! * `serde`: snapshots, statistics and quantities can be serialised.
//!
//! # Example
//!
//! ```
//! use zico_core::{AllocError, Begin, Bytes, Lifetime, Pool, PoolConfig, Request, Ticks};
//! use zico_mock::{MockConfig, MockDevice, Utilisation};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = MockDevice::new(MockConfig::new(Bytes::gib(1)))?;
//! let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::mib(64)))?;
//! let stream = device.add_stream();
//! let job = pool.join("training", stream)?;
//!
//! let weights = job.alloc(Request::new(Bytes::mib(10), Lifetime::Persistent))?;
//! for _ in 0..3 {
//!     // Until it may start, a job waits; here it is alone.
//!     assert_eq!(job.begin(None)?, Begin::Started);
//!     let activations = job.alloc(Request::new(Bytes::mib(40), Lifetime::Iteration))?;
//!     device.launch(stream, Ticks::millis(2), Utilisation::FULL)?;
//!     job.free(activations)?;
//!     job.end()?;
//! }
//!
//! // The budget is hard, and the error says who has what.
//! let error = job.alloc(Request::new(Bytes::mib(60), Lifetime::Persistent)).unwrap_err();
//! assert!(matches!(error, AllocError::OutOfMemory(_)));
//! assert!(error.to_string().contains("budget 64 MiB"));
//! job.free(weights)?;
//! # Ok(())
//! # }
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod broker;
mod executor;
mod heap;
mod job;
mod learn;
mod ledger;
pub mod policy;
mod pool;
mod types;

pub use job::{AutoJob, Changed, Job};
pub use learn::detector::Detector;
pub use learn::profile::{Profile, Step};
pub use pool::{Pool, PoolConfig, WeakPool};
pub use types::JobId;
pub use types::block::{Block, Request};
pub use types::config::{HandOver, JobConfig};
pub use types::device::{Caps, Class, Device, DeviceError, Host, Passed};
pub use types::error::{
    AllocError, BeginError, BrokerError, BudgetError, FreeError, JoinError, NoTicket, NotRunning,
    OutOfMemory, PoolError, ResumeError, Shortage, SuspendError, UseError,
};
pub use types::host::{HostMemory, HostTier, Link};
pub use types::lifetime::Lifetime;
pub use types::pace::Pace;
pub use types::refused::Refused;
pub use types::report::{
    Activity, Begin, BudgetStatus, Counts, Detected, Held, Holder, JobSnapshot, OnSuspend,
    Planning, Resume, Snapshot,
};
pub use types::stats::{Counter, LiveBlock, LiveBlocks, Stats};
pub use types::units::{Addr, Bytes, Progress, Regions, Ticks};
pub use types::waits::{Awaited, Waiting};
