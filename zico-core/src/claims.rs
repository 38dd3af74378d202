//! Who may change what is mapped at a page.
//!
//! Mappings are changed without the ledger's lock. Meanwhile the pages in question are *claimed* in
//! the books: nobody else leases them, or takes a mapping away from them, and a job that leaves keeps
//! its address ranges until its claims have ended. Whoever is refused because of a claim is told when
//! it ends.

use alloc::vec::Vec;

use crate::choose::Backing;
use crate::device::Device;
use crate::ledger::Ledger;
use crate::pool::HandOver;
use crate::region::{JobKey, Place, Region};
use crate::zone::Zone;

impl<D: Device> Ledger<D> {
    /// Claims the pages that a lease has to map, and those that it has to unmap something from.
    pub(crate) fn claim_for(
        &mut self,
        job: JobKey,
        zone: Zone,
        backings: &[Backing],
    ) -> Vec<Place> {
        let mut claimed = Vec::new();
        for backing in backings.iter().filter(|backing| !backing.mapped) {
            let place = Place { job, zone, page: backing.page };
            let stale = self.stale(place, backing.region);
            self.claim(core::iter::once(place), &mut claimed);
            self.claim(stale.into_iter().map(|(place, _)| place), &mut claimed);
        }
        claimed
    }

    /// Claims pages, and notes those that were not claimed before.
    pub(crate) fn claim(&mut self, places: impl Iterator<Item = Place>, claimed: &mut Vec<Place>) {
        for place in places {
            let Some(account) = self.accounts.get_mut(&place.job) else { continue };
            let mut new = false;
            account.spaces[place.zone.index()].set(place.page, |page| {
                new = !core::mem::replace(&mut page.claimed, true);
            });
            if new {
                account.claims += 1;
                self.claimed += 1;
                claimed.push(place);
            }
        }
    }

    /// Ends claims. Whether somebody has been refused because of one.
    pub(crate) fn end_claims(&mut self, places: &[Place]) -> bool {
        for place in places {
            self.claimed = self.claimed.saturating_sub(1);
            if let Some(account) = self.accounts.get_mut(&place.job) {
                account.claims = account.claims.saturating_sub(1);
                account.spaces[place.zone.index()].set(place.page, |page| page.claimed = false);
            }
            self.depart(place.job);
        }
        let refused = !places.is_empty() && core::mem::take(&mut self.refused_claimed);
        self.epoch += u64::from(refused);
        refused
    }

    /// Whether a region may be had by a job as far as its mappings go: where it has to leave other
    /// pages first, those have to be known, and nobody else's business.
    pub(crate) fn can_leave(&self, region: &Region<D::Memory>) -> bool {
        if self.rules.hand_over != HandOver::Isolated {
            return true;
        }
        self.is_unclaimed(region)
    }

    /// Whether the pages of all mappings of a region are those of jobs that are there, and unclaimed.
    pub(crate) fn is_unclaimed(&self, region: &Region<D::Memory>) -> bool {
        let page = |place: Place| Some(self.space(place)?.page(place.page));
        let mappings = region.mappings.iter().map(|mapping| page(mapping.place));
        mappings.into_iter().all(|page| page.is_some_and(|page| !page.claimed))
    }
}
