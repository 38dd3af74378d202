//! zico for C programs, and under PyTorch.
//!
//! The crate is a shared library, `libzico_torch.so`, with the functions of `include/zico.h`: open
//! a pool on a device, join it with a job, mark the job's iterations, allocate and free by address.
//! On these the Python package `zico` sets the allocator of a PyTorch script (`python/zico/torch`).
//! From Rust, use `zico-core`.
//!
//! * `abi`: the functions for programs that have handles of pools and jobs.
//! * `broker`: the functions for several processes under one budget.
//! * `plug`: the functions for frameworks, which know a size, a device and a stream.
//! * `suspend`: the functions for jobs that go to the host.
//! * `tenant`: pools and jobs of any device, and the marks between iterations.
//! * `record`: what a job does with memory, as a trace.
//! * `handles`, `blocks`: handles and addresses to what they stand for. `peaks`: the most
//!   of some figures. `status`: errors. `fork`: children.
//!
//! `unsafe` is what the boundary needs: pointers that callers pass, and their promise about
//! streams.

#![allow(
    clippy::missing_safety_doc,
    reason = "the sections are there, and in the header for those who call from C"
)]

mod abi;
mod blocks;
mod broker;
mod fork;
mod handles;
#[cfg(feature = "python")]
mod module;
mod peaks;
mod plug;
mod record;
mod stats;
mod status;
mod streams;
mod suspend;
mod tenant;

pub use abi::{
    JobHandle, PoolHandle, zico_alloc, zico_begin, zico_block_size, zico_close, zico_dealloc,
    zico_end, zico_is_forked, zico_job_stats, zico_join, zico_join_interruptible, zico_join_turns,
    zico_last_error, zico_last_status, zico_leave, zico_mark, zico_open_cuda, zico_open_host,
    zico_pool_stats, zico_record_use, zico_reset_peaks, zico_set_budget, zico_trim, zico_try_alloc,
    zico_version,
};
pub use broker::{
    zico_broker_report, zico_broker_stats, zico_connect_cuda, zico_connect_host, zico_serve_cuda,
    zico_serve_cuda_while_used, zico_serve_host, zico_serve_host_while_used,
};
pub use plug::{
    zico_empty_cache, zico_free, zico_malloc, zico_mark_current, zico_use, zico_use_everywhere,
};
pub use record::{zico_record, zico_record_end};
pub use stats::{JobStats, PoolStats};
pub use status::Status;
pub use suspend::{zico_resume, zico_suspend, zico_suspend_with};
