//! What a job holds, in bytes, for whoever asks.

use super::Account;
use crate::types::report::Held;
use crate::types::stats::{Counter, Stats};
use crate::types::units::{Bytes, Regions};
use crate::types::zone::Zone;

impl Account {
    /// What is charged to it, in regions of this size.
    pub(crate) fn held(&self, region: Bytes) -> Held {
        let bytes = |regions: u32| Regions::new(regions).bytes(region);
        let leased = |zone: Zone| bytes(self.leased[zone.index()]);
        Held {
            persistent: leased(Zone::Persistent),
            iteration: leased(Zone::Iteration),
            draining: bytes(self.draining),
            peak: bytes(self.peak),
            peak_leased: bytes(self.peak_leased),
        }
    }

    /// The regions that back its blocks, in figures.
    pub(crate) fn stats(&self, region: Bytes) -> Stats {
        let bytes = |regions: u64| Bytes::new(regions.saturating_mul(region.value()));
        let current = u64::from(self.leased_total()) + u64::from(self.draining);
        let reserved = Counter {
            current: bytes(current),
            peak: bytes(self.peak.into()),
            allocated: bytes(self.taken),
            freed: bytes(self.taken.saturating_sub(current)),
        };
        Stats { reserved, ..Stats::default() }
    }
}
