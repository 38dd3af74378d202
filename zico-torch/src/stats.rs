//! Statistics as C reads them.

use zico_core::{BudgetStatus, Counter};

use crate::tenant::{Counts, Opened, Tenant};

/// What a pool holds, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// The budget, or what it is to be once memory is free: whole regions.
    pub budget: u64,
    /// What the pool holds of the device.
    pub held: u64,
    /// By how much more than the budget it may still hold, after the budget was lowered: what is
    /// held, or was promised to iterations that run.
    pub pending: u64,
}

impl PoolStats {
    pub(crate) fn of(pool: &dyn Opened) -> Self {
        pool.stats().into()
    }
}

impl From<BudgetStatus> for PoolStats {
    fn from(BudgetStatus { target, held, pending }: BudgetStatus) -> Self {
        Self { budget: target.value(), held: held.value(), pending: pending.value() }
    }
}

/// What a job has done, in bytes, counts and nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Bytes of live blocks, as asked for.
    pub requested: u64,
    /// The most that these were: since the job joined, or since `zico_reset_peaks`.
    pub requested_peak: u64,
    /// Bytes of live blocks, rounded up to multiples of 512.
    pub allocated: u64,
    /// The most that these were, likewise.
    pub allocated_peak: u64,
    /// All bytes ever allocated, rounded up likewise.
    pub allocated_total: u64,
    /// All bytes ever freed, rounded up likewise.
    pub freed_total: u64,
    /// Bytes charged to the job: whole regions, with what the device has yet to pass.
    pub reserved: u64,
    /// The most that these were, likewise; after `zico_reset_peaks` at least what is known of it.
    pub reserved_peak: u64,
    /// Allocations that were made.
    pub allocations: u64,
    /// Blocks that were freed.
    pub frees: u64,
    /// The most blocks that were live at one time: since the job joined, or since
    /// `zico_reset_peaks`.
    pub blocks_peak: u64,
    /// Allocations that were refused for good.
    pub refusals: u64,
    /// Iterations that have begun.
    pub iterations: u64,
    /// For how many nanoseconds threads have waited to begin an iteration.
    pub waited_to_begin: u64,
    /// For how many nanoseconds threads have waited for memory.
    pub waited_for_memory: u64,
}

impl JobStats {
    pub(crate) fn of(job: &dyn Tenant) -> Self {
        let (stats, counts) = job.stats();
        let pair = |counter: Counter| (counter.current.value(), counter.peak.value());
        let (requested, requested_peak) = pair(stats.requested);
        let (allocated, allocated_peak) = pair(stats.allocated);
        let (reserved, reserved_peak) = pair(stats.reserved);
        let Counts {
            allocations,
            frees,
            blocks_peak,
            iterations,
            refusals,
            waited_to_begin,
            waited_for_memory,
        } = counts;
        Self {
            requested,
            requested_peak,
            allocated,
            allocated_peak,
            allocated_total: stats.allocated.allocated.value(),
            freed_total: stats.allocated.freed.value(),
            reserved,
            reserved_peak,
            allocations,
            frees,
            blocks_peak,
            refusals,
            iterations,
            waited_to_begin,
            waited_for_memory,
        }
    }
}
