//! How a pool is to be: its budget, the size of its regions, its policy.

use alloc::boxed::Box;

use crate::broker::{Broker, Store};
use crate::ledger::{Ledger, Rules, regions_of};
use crate::policy::{Policy, TimeShift};
use crate::types::config::HandOver;
use crate::types::device::Caps;
use crate::types::error::PoolError;
use crate::types::tuning::{ADDRESSES_PER_BYTE, MOST_REGIONS_UNTOLD, PATIENCE, REGION_PARTS};
use crate::types::units::{Bytes, Ticks};

/// How a pool is to be.
pub struct PoolConfig {
    budget: Bytes,
    region: Option<Bytes>,
    most_regions: u64,
    policy: Box<dyn Policy>,
    hand_over: HandOver,
    fewest_calls: bool,
    patience: Ticks,
    host_spare: Bytes,
}

impl PoolConfig {
    /// A pool that never holds more than `budget` bytes of the device, with time shift as its
    /// policy and regions of a size that suits the budget.
    #[must_use]
    pub fn new(budget: Bytes) -> Self {
        Self {
            budget,
            region: None,
            most_regions: MOST_REGIONS_UNTOLD,
            policy: Box::new(TimeShift::default()),
            hand_over: HandOver::Fenced,
            fewest_calls: false,
            patience: PATIENCE,
            host_spare: Bytes::ZERO,
        }
    }

    /// The size of a region: a power of two, at least the device's granularity. Smaller ones follow
    /// the jobs' waves more closely, larger ones are fewer device calls.
    #[must_use]
    pub fn region_size(mut self, region: Bytes) -> Self {
        self.region = Some(region);
        self
    }

    /// How many regions there are at most where their size is not given, as each may take something
    /// of which a process has only so much: a file descriptor, for example. They are larger then.
    #[must_use]
    pub fn most_regions(mut self, regions: u64) -> Self {
        self.most_regions = regions.clamp(1, MOST_REGIONS_UNTOLD);
        self
    }

    /// Who decides when an iteration starts.
    #[must_use]
    pub fn policy(mut self, policy: Box<dyn Policy>) -> Self {
        self.policy = policy;
        self
    }

    /// How memory passes from one job to another.
    #[must_use]
    pub fn hand_over(mut self, hand_over: HandOver) -> Self {
        self.hand_over = hand_over;
        self
    }

    /// Fewer calls of the device rather than least memory: pages that a job has mapped anew in each
    /// of its iterations get regions of their own, as long as the peaks of all jobs fit side by
    /// side and nobody waits. No unless told otherwise: then memory is created for a job only when
    /// it uses all that it has.
    ///
    /// So it is with blocks of which there are two for a time: an iteration's result, say, that is
    /// kept until there is the next one. What is between them alternates too. A page costs some 60
    /// us on a GPU, whatever its size: a gpt2 with 1.6 GiB of logits takes 190 ms an iteration, and
    /// 183 where nothing is mapped anew, with 12% more memory. That is within the budget, and
    /// others get it when they need it.
    #[must_use]
    pub fn fewest_calls(mut self, fewest: bool) -> Self {
        self.fewest_calls = fewest;
        self
    }

    /// How long, by the device's clock, others wait for a job that is between iterations, holds
    /// memory that it may free, and does nothing. A minute unless told otherwise.
    ///
    /// The pool cannot know whether it ever will. Where all that could go on waits for such a job,
    /// whoever cannot go on without its memory is told so after this time
    /// ([`AllocError::OutOfMemory`]) instead of waiting for ever. Who would rather wait says
    /// [`Ticks::MAX`]. Somebody has to [look](crate::Pool::poll), and the device's clock has to go
    /// on where the device has nothing to do.
    ///
    /// [`AllocError::OutOfMemory`]: crate::AllocError::OutOfMemory
    #[must_use]
    pub fn patience(mut self, patience: Ticks) -> Self {
        self.patience = patience;
        self
    }

    /// How much memory of the host the pool keeps when jobs have come back from there, for the next
    /// [suspension](crate::Job::suspend). None unless told otherwise. To get page-locked memory
    /// takes longer than to copy as much; who suspends again and again keeps as much as is on the
    /// host at a time. [`Pool::trim`](crate::Pool::trim) gives it back.
    #[must_use]
    pub fn host_spare(mut self, bytes: Bytes) -> Self {
        self.host_spare = bytes;
        self
    }

    /// The size of a region on a device of this granularity: as given, else about a 2048th of the
    /// budget, but not less than the granularity and not more than 8 MiB: 2 MiB from 4 GiB on, 4
    /// MiB from 8, 8 MiB from 16. More above 1 TiB, about a 131,072nd, and where there may be no
    /// more than so [many](Self::most_regions) regions.
    #[must_use]
    pub fn region_for(&self, granularity: Bytes) -> Bytes {
        let power = |bytes: u64| Bytes::new(1 << bytes.max(1).ilog2());
        let (parts, most) = REGION_PARTS;
        let fair = power(self.budget.value() / parts).min(most);
        let each = self.budget.value().saturating_sub(1) / self.most_regions;
        let least = power(each.saturating_mul(2)).at_least(granularity);
        self.region.unwrap_or(fair.at_least(least))
    }
}

impl PoolConfig {
    /// How much memory of the host is kept.
    pub(super) const fn spare(&self) -> Bytes {
        self.host_spare
    }

    /// The books of such a pool on a device with these properties, and the size of its regions.
    pub(super) fn ledger<E>(self, caps: Caps) -> Result<(Bytes, Ledger), PoolError<E>> {
        let region = self.region_for(caps.granularity);
        check_region(region, caps)?;
        let count = regions_of(self.budget, region, caps.capacity).map_err(PoolError::Budget)?;
        let Self { policy, hand_over, fewest_calls, patience, .. } = self;
        let rules = Rules { page_bytes: region.value(), hand_over, fewest_calls, patience };
        Ok((region, Ledger::new(count, policy, &rules)))
    }

    /// A broker with the books of such a pool, for the jobs of several processes, over the memory
    /// of a device with these properties. Memory is handed over as [`HandOver::Fenced`] says: a
    /// broker reaches into no other process.
    ///
    /// # Errors
    /// If the budget or the region size cannot be.
    pub fn broker<S: Store, E>(self, caps: Caps, store: S) -> Result<Broker<S>, PoolError<E>> {
        let (region, ledger) = self.hand_over(HandOver::Fenced).ledger(caps)?;
        let pages = range_of(caps.capacity, region).value() / region.value();
        Ok(Broker::new(ledger, caps.capacity, pages, store))
    }
}

/// Whether regions of this size can be on a device.
pub(super) fn check_region<E>(region: Bytes, caps: Caps) -> Result<(), PoolError<E>> {
    let granularity = caps.granularity;
    if !granularity.value().is_power_of_two() {
        return Err(PoolError::Granularity { granularity });
    }
    if !region.value().is_power_of_two() || region < granularity {
        return Err(PoolError::RegionSize { region, granularity });
    }
    Ok(())
}

/// The length of an arena's address range on a device with so much memory.
pub(super) fn range_of(capacity: Bytes, region: Bytes) -> Bytes {
    let len = Bytes::new(capacity.value().saturating_mul(ADDRESSES_PER_BYTE));
    len.round_up(region).unwrap_or(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_suits_its_budget() {
        let region = |budget| PoolConfig::new(budget).region_for(Bytes::mib(2));
        for (budget, chosen) in [
            (Bytes::new(1), Bytes::mib(2)),
            (Bytes::gib(4), Bytes::mib(2)),
            (Bytes::new((8 << 30) - 1), Bytes::mib(2)),
            (Bytes::gib(8), Bytes::mib(4)),
            (Bytes::gib(16), Bytes::mib(8)),
            (Bytes::gib(192), Bytes::mib(8)),
            (Bytes::gib(1 << 10), Bytes::mib(8)),
            (Bytes::gib(1 << 11), Bytes::mib(16)),
            (Bytes::gib(1 << 20), Bytes::gib(8)),
        ] {
            assert_eq!(region(budget), chosen, "{budget}");
        }
        assert!(Bytes::MAX.value() / region(Bytes::MAX).value() <= 1 << 20);
        assert_eq!(
            PoolConfig::new(Bytes::gib(4)).region_size(Bytes::mib(8)).region_for(Bytes::mib(2)),
            Bytes::mib(8)
        );
    }

    #[test]
    fn regions_are_larger_where_there_may_be_few() {
        let region =
            |budget, most| PoolConfig::new(budget).most_regions(most).region_for(Bytes::mib(2));
        for (budget, most, chosen) in [
            (Bytes::gib(120), 15_360, Bytes::mib(8)),
            (Bytes::gib(120), 15_359, Bytes::mib(16)),
            (Bytes::gib(120), 9_000, Bytes::mib(16)),
            (Bytes::gib(8), 1000, Bytes::mib(16)),
            (Bytes::gib(8), 0, Bytes::gib(8)),
        ] {
            assert_eq!(region(budget, most), chosen, "{budget} in {most}");
        }
        assert_eq!(region(Bytes::MAX, 1), Bytes::new(1 << 63), "the largest power of two");
    }
}
