//! What a refused allocation is told: who has what, and what would have helped.

use alloc::boxed::Box;

use super::Ledger;
use super::account::Account;
use crate::types::JobKey;
use crate::types::error::{OutOfMemory, Shortage};
use crate::types::report::Holder;
use crate::types::units::Bytes;

impl Ledger {
    pub(crate) fn shortage(&self, job: JobKey, asked: Bytes, pages: u64) -> Shortage {
        let bytes = |regions: u32| self.bytes(u64::from(regions));
        let account = self.accounts.get(&job);
        let others =
            || self.accounts.iter().filter(|&(&key, _)| key != job).map(|(_, account)| account);
        let holding = others().filter(|account| account.leased_total() > 0).count();
        let free = self.regions.free_count();
        Shortage {
            job: account.map_or_else(|| "".into(), |account| account.name.clone()),
            asked,
            needed: self.bytes(pages),
            budget: bytes(self.target),
            held: bytes(account.map_or(0, Account::leased_total)),
            held_by_others: bytes(others().map(Account::leased_total).sum()),
            other_jobs: u32::try_from(holding).unwrap_or(u32::MAX),
            draining: bytes(self.accounts.values().map(|account| account.draining).sum()),
            suspended: bytes(self.away),
            free: self.bytes(free as u64),
            rest: None,
        }
    }

    /// The whole of it, for an allocation that will not be granted. `missing` is what the budget
    /// lacks, in regions.
    pub(crate) fn out_of_memory(
        &self,
        job: JobKey,
        asked: Bytes,
        pages: u64,
        missing: u64,
    ) -> Box<OutOfMemory> {
        let holders = self.accounts.iter().map(|account| self.holder(account));
        let mut holders: alloc::vec::Vec<Holder> = holders.collect();
        holders.retain(|holder| !holder.held.total().is_zero());
        holders.sort_by_key(|holder| core::cmp::Reverse(holder.held.total()));
        Box::new(OutOfMemory {
            shortage: self.shortage(job, asked, pages),
            holders,
            largest_free: Bytes::ZERO,
            missing: self.bytes(missing),
        })
    }
}
