//! Users who do not trust each other: what one has written into memory no other one is to read.
//!
//! A region that has been created for a user's job goes to jobs of that user only, whose mappings
//! of it stay. For another user's job its memory is given back to the device, and made anew.

use alloc::vec::Vec;

use super::Ledger;
use super::region::State;
use crate::types::JobKey;
use crate::types::want::Want;

impl Ledger {
    /// Whose job it is.
    pub(super) fn user(&self, job: JobKey) -> u32 {
        self.accounts.get(&job).map_or(0, |account| account.user)
    }

    /// The regions whose memory is to be given back so that a job can have what it asks for: it
    /// could, but for that they were another user's. None if waiting helps, or nothing does.
    /// O(regions).
    pub(crate) fn wanted_of_others(&mut self, job: JobKey, want: &Want, last: bool) -> Vec<usize> {
        if self.refuses(job, want.demand()).is_some()
            || !(last || self.may_have(job, want.growth()))
        {
            return Vec::new();
        }
        let mut backings = core::mem::take(&mut self.backings);
        let missing = self.choose(job, want, &mut backings);
        self.backings = backings;
        let missing = missing.saturating_sub(self.retiring);
        let user = self.user(job);
        let of_others = |&region: &usize| {
            let entry = &self.regions[region];
            entry.state == State::Free && entry.user != user && self.is_unpinned(entry)
        };
        self.regions.idle(0).filter(of_others).take(missing).collect()
    }
}
