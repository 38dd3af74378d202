//! The CUDA backend of zico: [`zico_core::Device`] over the driver's virtual memory management.
//!
//! Physical memory is made by `cuMemCreate` and reached where `cuMemMap` and `cuMemSetAccess` put
//! it in a range of `cuMemAddressReserve`; fences are events. One piece of memory may be mapped at
//! several addresses; so zico hands memory over without driver calls. The driver's library is
//! loaded at run time ([`cudarc`]): the crate builds on any machine, and [`discover`] says why
//! there is no device.
//!
//! ```no_run
//! use zico_core::{Bytes, Pool, PoolConfig};
//! use zico_cuda::{CudaDevice, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = CudaDevice::open(0, Options::new())?;
//! let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::gib(8)))?;
//! let job = pool.join("training", device.add_stream()?)?;
//! # Ok(())
//! # }
//! ```
//!
//! A runtime that uses `cudarc` passes its own context and streams:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = zico_cuda::cudarc::driver::CudaContext::new(0)?;
//! let stream = context.new_stream()?;
//! let device = zico_cuda::CudaDevice::with_context(context, zico_cuda::Options::new())?;
//! let stream = device.adopt_stream(stream)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//!
//! * Each call runs in the device's context and leaves the calling thread's stack of contexts as it
//!   was.
//! * The driver says that it is out of memory when the *device* is, whatever the budget: other
//!   processes, contexts and libraries take from the same memory. [`CudaDevice::memory_info`] says
//!   how much is free.
//! * Whether unmapping waits for the device is not documented. The contract forbids it for work
//!   that does not use the mapping; the conformance suite on a real device tells.
//! * Events cannot be recorded on a stream that is being captured into a graph: jobs cannot
//!   exchange memory during a capture.
//! * All `unsafe` of zico is in this crate, at its calls of the driver.

mod abi;
mod context;
mod costs;
mod device;
mod discover;
mod driver;
mod error;
mod events;
mod host;
mod host_blocks;
mod inner;
#[cfg(unix)]
mod kept_open;
#[cfg(unix)]
mod physical;
mod probe;
mod registry;
mod retry;
#[cfg(unix)]
mod share;
mod streams;

pub use costs::{CallCost, measure_calls};
pub use cudarc;
pub use device::{CudaDevice, CudaMemory, CudaRange, Options};
pub use discover::{DeviceInfo, Discovery, Uuid, discover};
pub use driver::take_call_costs;
pub use error::{CudaError, DriverVersion};
pub use events::CudaEvent;
#[cfg(unix)]
pub use physical::{CudaPhysical, CudaPiece, Physical};
pub use probe::{Pattern, Probe};
#[cfg(unix)]
pub use share::Share;
pub use streams::StreamId;
