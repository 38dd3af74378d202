//! What a job asks the pool for.

use alloc::vec::Vec;

use crate::types::units::Bytes;
use crate::types::zone::Zone;

/// Pages of an arena that are to be backed for a block.
pub(crate) struct Needed {
    pub(crate) zone: Zone,
    pub(crate) pages: Vec<u64>,
    /// A plan has chosen its place.
    pub(crate) planned: bool,
}

/// Pages that an arena needs backed to place one more block.
pub(crate) struct Want {
    pub(crate) zone: Zone,
    pub(crate) pages: Vec<u64>,
    /// A plan has chosen the place.
    pub(crate) planned: bool,
    /// What the block asks for, for people to read.
    pub(crate) asked: Bytes,
    pub(crate) told: Told,
}

/// What is known of how long a block lives for which memory is leased.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The job has said it.
    ByTheJob,
    /// The iterations before have shown it.
    Learned,
    /// Nothing: no iteration has begun yet. It may be one of a first wave, which has freed
    /// something.
    Guessed {
        /// It may be.
        wave: bool,
    },
}

impl Growth {
    /// What of it the job has said to stay.
    pub(crate) const fn told(&self) -> u32 {
        if self.persists && self.told { self.regions } else { 0 }
    }
}

impl Want {
    /// Whether what is leased stays with the job when its iteration has ended, as far as is known.
    pub(crate) fn persists(&self) -> bool {
        self.zone == Zone::Persistent && !matches!(self.told, Told::Guessed { .. })
    }

    pub(crate) fn demand(&self) -> Demand {
        let told = self.told == Told::ByTheJob;
        let (asked, pages) = (self.asked, self.pages.len() as u64);
        Demand { asked, pages, persists: self.persists(), told }
    }

    pub(crate) fn growth(&self) -> Growth {
        let regions = u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        Growth { regions, persists: self.persists(), told: self.told == Told::ByTheJob }
    }
}

/// What is asked for, as far as it matters whether it can ever be granted.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) asked: Bytes,
    /// In regions.
    pub(crate) pages: u64,
    /// It stays with the job.
    pub(crate) persists: bool,
    /// The job has said so.
    pub(crate) told: bool,
}

/// Regions that a job asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    pub(crate) regions: u32,
    /// They stay with the job when its iteration ends.
    pub(crate) persists: bool,
    /// The job has said so.
    pub(crate) told: bool,
}
