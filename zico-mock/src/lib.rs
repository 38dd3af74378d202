//! A device in software for zico: virtual time, streams, physical memory and an oracle.
//!
//! [`MockDevice`] is a [`Device`](zico_core::Device) that keeps the whole contract, in virtual time
//! and on any machine. Streams run launches, which contend for the device as kernels do; memory is
//! numbers. An *oracle* tracks the owner of each physical byte in device order, and records every
//! [`Violation`]: memory reused before the device has passed the work that used it, two owners of a
//! byte, whether through one address or through two, use of unmapped memory, more memory than the
//! budget. Everything is deterministic.
//!
//! [`Faulty`] makes calls of any device fail by plan. [`replay`] runs recorded jobs together on the
//! mock device, under zico or under one of the policies of [`policy`].
//!
//! # Contention
//!
//! Every launch has an amount of work, the time it takes alone, and a [`Utilisation`], the share of
//! the device that it can keep busy. The launches running at one moment have utilisations that sum
//! to U. While U <= 1 each runs at full speed; beyond that all run at 1/U of it, stretched alike
//! (processor sharing). Arithmetic is in integers. A launch ends at the first whole nanosecond at
//! which its work is done, and the steps in which time is advanced make no difference.
//!
//! # Limits
//!
//! * The oracle sees the one order of events that virtual time produced. Two uses of a byte that
//!   nothing orders, but that happened one after the other, go unnoticed; what finds them is a
//!   variation of the launches' work.
//! * A launch shows what it touches when it starts and not while it runs.
//!
//! # Example
//!
//! One job hands memory to another, once without waiting for the device and once properly.
//!
//! ```
//! use zico_core::{Bytes, Device, Passed, Ticks};
//! use zico_mock::{MockConfig, MockDevice, Utilisation};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = MockDevice::new(MockConfig::new(Bytes::gib(1)))?;
//! let (first, second) = (device.add_stream(), device.add_stream());
//! let len = Bytes::mib(2);
//! let range = device.reserve(len, len)?;
//! let memory = device.create(len)?;
//! device.map(&range, Bytes::ZERO, &[&memory])?;
//! let addr = device.base(&range);
//!
//! // Job 1 owns the memory while its launch runs.
//! let claim = device.own(first, 1, addr, len)?;
//! device.launch(first, Ticks::micros(100), Utilisation::FULL)?;
//! device.disown(first, claim).map_err(|refused| refused.error)?;
//! let fence = device.record(first)?;
//! assert_eq!(device.query(&fence)?, Passed::NotYet);
//!
//! // Job 2 takes it while the launch still runs: the oracle sees it.
//! let too_soon = device.own(second, 2, addr, len)?;
//! device.disown(second, too_soon).map_err(|refused| refused.error)?;
//! assert_eq!(device.violation_count(), 1);
//! println!("{}", device.violations()[0]);
//!
//! // Ordered after the fence, on the device, it is fine.
//! device.order_after(second, &fence)?;
//! let in_order = device.own(second, 2, addr, len)?;
//! device.advance_to(Ticks::micros(100));
//! assert_eq!(device.query(&fence)?, Passed::Yes);
//! device.disown(second, in_order).map_err(|refused| refused.error)?;
//! assert_eq!(device.violation_count(), 1);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod broker;
mod device;
pub mod policy;
pub mod replay;
pub mod trace;

pub use broker::{MockBroker, MockClient};
pub use device::{
    Access, Calls, Claim, FaultPlan, Faulty, FaultyError, MockConfig, MockDevice, MockError,
    MockEvent, MockMemory, MockRange, MockStream, Operation, Operations, Owner, Usage, Utilisation,
    Violation, ViolationKind,
};
pub use trace::bundled;
