//! What a job has allocated, in the words that users of caching allocators know.

use alloc::vec::Vec;
use core::fmt;

use crate::types::lifetime::Lifetime;
use crate::types::sync::Arc;
use crate::types::units::{Addr, Bytes};

/// One quantity over the life of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// What has been asked for.
    pub requested: Counter,
    /// The same, rounded up to what it takes: multiples of 512 bytes.
    pub allocated: Counter,
    /// Allocated, or freed while other streams may still use it.
    pub active: Counter,
    /// What is charged to the job for that, in whole regions: leased, or given up and not yet
    /// passed by the device.
    pub reserved: Counter,
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

/// The blocks of a job that are live: while it runs what it has, and once it has left what it
/// leaked.
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
