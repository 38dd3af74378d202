//! What a job has allocated, in the words that users of caching allocators know.

use alloc::vec::Vec;
use core::fmt;

use crate::lifetime::Lifetime;
use crate::sync::Arc;
use crate::units::{Addr, Bytes};

/// One quantity over the life of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counter {
    /// Now.
    pub current: Bytes,
    /// The most at one time.
    pub peak: Bytes,
    /// All that has been added.
    pub allocated: Bytes,
    /// All that has been taken away.
    pub freed: Bytes,
}

/// A job's blocks in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// What has been asked for.
    pub requested: Counter,
    /// The same, rounded up to what it takes: multiples of 512 bytes.
    pub allocated: Counter,
    /// Allocated, or freed while other streams may still use it.
    pub active: Counter,
    /// What is charged to the job for that, in whole regions: leased, or given up and not yet passed
    /// by the device.
    pub reserved: Counter,
}

/// What the figures of a job's blocks follow from: as little as an allocation and a free can count.
#[derive(Default)]
pub(crate) struct Tally {
    requested: Quantity,
    allocated: Quantity,
    /// Freed, while other streams may still use it.
    parked: Bytes,
    /// The most that was allocated or parked at a time when anything was parked.
    active_peak: Bytes,
}

/// The bytes that there are, the most at one time, and all that there have been.
#[derive(Default)]
struct Quantity {
    current: Bytes,
    peak: Bytes,
    all: Bytes,
}

impl Tally {
    #[inline]
    pub(crate) fn place(&mut self, requested: Bytes, size: Bytes) {
        self.requested.add(requested);
        self.allocated.add(size);
        // While nothing is parked it is what is allocated, whose peak is known.
        if !self.parked.is_zero() {
            self.note_active();
        }
    }

    #[cold]
    fn note_active(&mut self) {
        let active = self.allocated.current.saturating_add(self.parked);
        self.active_peak = self.active_peak.at_least(active);
    }

    #[inline]
    pub(crate) fn free(&mut self, requested: Bytes, size: Bytes) {
        self.requested.sub(requested);
        self.allocated.sub(size);
    }

    pub(crate) fn park(&mut self, size: Bytes) {
        self.parked = self.parked.saturating_add(size);
    }

    pub(crate) fn release(&mut self, size: Bytes) {
        self.parked = self.parked.saturating_sub(size);
    }

    /// What is allocated now.
    pub(crate) const fn allocated(&self) -> Bytes {
        self.allocated.current
    }

    /// All but what is reserved, which is not the blocks' to know.
    pub(crate) fn stats(&self) -> Stats {
        let active = Quantity {
            current: self.allocated.current.saturating_add(self.parked),
            peak: self.active_peak.at_least(self.allocated.peak),
            all: self.allocated.all,
        };
        Stats {
            requested: self.requested.counter(),
            allocated: self.allocated.counter(),
            active: active.counter(),
            reserved: Counter::default(),
        }
    }
}

impl Quantity {
    #[inline]
    fn add(&mut self, bytes: Bytes) {
        self.all = self.all.saturating_add(bytes);
        self.current = self.current.saturating_add(bytes);
        self.peak = self.peak.at_least(self.current);
    }

    #[inline]
    fn sub(&mut self, bytes: Bytes) {
        self.current = self.current.saturating_sub(bytes);
    }

    fn counter(&self) -> Counter {
        let Self { current, peak, all } = *self;
        Counter { current, peak, allocated: all, freed: all.saturating_sub(current) }
    }
}

/// A block that is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LiveBlock {
    /// What it was [named](crate::Request::named), if anything.
    pub name: Option<&'static str>,
    /// Where it begins.
    pub address: Addr,
    /// Its size, rounded up to a multiple of 512 bytes.
    pub bytes: Bytes,
    /// The arena that it lies in.
    pub lifetime: Lifetime,
}

/// The blocks of a job that are live: while it runs what it has, and once it has left what it leaked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LiveBlocks {
    /// The job.
    pub job: Arc<str>,
    /// By lifetime, and then by address.
    pub blocks: Vec<LiveBlock>,
}

impl LiveBlocks {
    /// All of them together.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.blocks.iter().fold(Bytes::ZERO, |sum, block| sum.saturating_add(block.bytes))
    }
}

impl fmt::Display for LiveBlocks {
    /// A line for each name and lifetime, the most bytes first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<(Bytes, Lifetime, Option<&str>, u64)> = Vec::new();
        for block in &self.blocks {
            let same = |group: &&mut (Bytes, Lifetime, Option<&str>, u64)| {
                (group.1, group.2) == (block.lifetime, block.name)
            };
            match groups.iter_mut().find(same) {
                Some((bytes, _, _, count)) => {
                    *bytes = bytes.saturating_add(block.bytes);
                    *count += 1;
                }
                None => groups.push((block.bytes, block.lifetime, block.name, 1)),
            }
        }
        groups.sort_by(|one, other| (other.0, one.1, one.2).cmp(&(one.0, other.1, other.2)));
        let count = self.blocks.len();
        writeln!(f, "{}: {count} live blocks, {}", self.job, self.total())?;
        for (bytes, lifetime, name, count) in groups {
            let name = name.unwrap_or("(no name)");
            writeln!(f, "  {:>12}  {count:>6} {lifetime} {name}", alloc::format!("{bytes}"))?;
        }
        Ok(())
    }
}
