//! Host memory as a device.
//!
//! [`HostDevice`] is a [`Device`](zico_core::Device) whose memory is the machine's own: what CPUs
//! compute in, and what stands in for an accelerator where there is none. It does with files in
//! memory what the CUDA driver's virtual memory management does with device memory:
//!
//! * A piece of physical memory is a file in memory (`memfd_create`) of fixed size. Its pages are
//!   allocated when it is created, so that a lack of memory is an error of `create` and not a
//!   signal at the first touch; and it is sealed against growing and shrinking, so that no process
//!   can take pages away from under another's mapping.
//! * A range of addresses is a mapping without access and without memory behind it.
//! * To map a piece is to put a shared mapping of its file over a part of a range; to unmap it is
//!   to put the reserved addresses back. One piece can be mapped at several addresses,
//!   and by several processes: its descriptor can be exported and imported
//!   ([`Share`](zico_cuda::Share)).
//! * What is mapped is kept out of children that are forked: they would write into their parent's
//!   memory.
//! * A stream is a number and the time at which its work is done. A CPU's work is done when its
//!   call returns, so an event has passed at once; [`launch`](HostDevice::launch) makes a stream
//!   busy for a time, for those who want to see what a device that runs behind its host does.
//!
//! * The host tier is files in memory that are mapped nowhere ([`HostTier`](zico_core::HostTier)):
//!   a job that is suspended leaves the budget, not the machine.
//!
//! All `unsafe` is in the calls of the kernel on addresses (`addresses`). A registry of what is
//! mapped where checks each call first; it is locked during the calls of the kernel, which take one
//! lock for all of a process's addresses themselves.
//!
//! # Limits
//!
//! * Each piece takes a descriptor: [`raise_descriptor_limit`]. Each mapping counts against
//!   `vm.max_map_count` (65,530 unless it has been changed), which is what a pool of many small
//!   regions meets first. Both are reported as what they are ([`HostError::TooManyDescriptors`],
//!   [`HostError::TooManyMappings`]).
//! * Linux only.

mod addresses;
mod config;
mod count;
mod device;
mod error;
mod mappings;
mod patterns;
mod pieces;
mod registry;
mod tier;

pub use config::HostConfig;
pub use count::held_by_the_kernel;
pub use device::{HostDevice, HostEvent, HostMemory, HostRange, HostStream};
pub use error::HostError;
pub use pieces::raise_descriptor_limit;
pub use registry::Backing;
