//! The allocator core of zico (being built; see the repository's README).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod device;
mod lifetime;
mod units;

pub use device::{Caps, Class, Device, DeviceError, Features, Passed, Refused};
pub use lifetime::Lifetime;
pub use units::{Addr, Bytes, Progress, Regions, Ticks};
