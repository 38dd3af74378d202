//! Pages whose mappings are being changed.
//!
//! Mappings are changed without the ledger's lock. Meanwhile the pages in question are *pinned* in
//! the books: nobody else leases them, or takes a mapping away from them, and a job that leaves
//! keeps its address ranges until its pins are gone. Whoever is refused because of a pin is woken
//! when it goes.

use alloc::vec::Vec;

use super::Ledger;
use super::region::{Place, Region};
use crate::types::config::HandOver;

impl Ledger {
    /// Pins pages, and notes those that were not pinned before.
    pub(super) fn pin(&mut self, places: impl Iterator<Item = Place>, pinned: &mut Vec<Place>) {
        for place in places {
            let Some(account) = self.accounts.get_mut(&place.job) else { continue };
            let mut new = false;
            account.pages[place.zone.index()].set(place.page, |page| {
                new = !core::mem::replace(&mut page.pinned, true);
            });
            if new {
                account.pins += 1;
                self.pinned += 1;
                pinned.push(place);
            }
        }
    }

    /// Takes pins away, and wakes those who have been refused because of one.
    pub(super) fn unpin(&mut self, places: &[Place]) {
        for place in places {
            self.pinned = self.pinned.saturating_sub(1);
            if let Some(account) = self.accounts.get_mut(&place.job) {
                account.pins = account.pins.saturating_sub(1);
                account.pages[place.zone.index()].set(place.page, |page| page.pinned = false);
            }
            self.depart(place.job);
        }
        if !places.is_empty() && core::mem::take(&mut self.refused_pinned) {
            self.notify();
        }
    }

    /// Whether a region may be had by a job as far as its mappings go: where it has to leave other
    /// pages first, those have to be known, and not pinned.
    pub(super) fn can_be_moved(&self, region: &Region) -> bool {
        self.hand_over != HandOver::Isolated || self.is_unpinned(region)
    }

    /// Whether the pages of all mappings of a region are those of jobs that are there, and not
    /// pinned.
    pub(super) fn is_unpinned(&self, region: &Region) -> bool {
        region.mappings.iter().all(|mapping| {
            let page = self.pages(mapping.place).map(|pages| pages.page(mapping.place.page));
            page.is_some_and(|page| !page.pinned)
        })
    }
}
