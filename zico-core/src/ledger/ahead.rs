//! Pages that a job is about to need, leased before it asks for them.
//!
//! For whom a question costs more than its answer: a job whose books are at a broker. It gets only
//! what is mapped at its pages already and is nobody's, or its own that the device has yet to pass;
//! no more than its profile says that it will hold; and nothing while anybody waits, or unless the
//! peaks of all jobs fit side by side: where jobs share, who has what when is decided as in one
//! process. What it does not come to use it gives back.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Ledger;
use super::placement::{Backing, Origin};
use super::region::State;
use crate::types::JobKey;
use crate::types::tuning::{LEAST_AHEAD, PAGES_LOOKED_AHEAD, PARTS_AHEAD};
use crate::types::units::{Bytes, Ticks};
use crate::types::want::{Growth, Told, Want};
use crate::types::zone::Zone;

impl Ledger {
    /// Leases pages of an iteration's arena that the job's iterations have used at this time or a
    /// little later, first those after `after`. Which. O(jobs log jobs), as any lease.
    pub(crate) fn lease_ahead(&mut self, job: JobKey, after: u64, now: Ticks) -> Vec<u64> {
        let most = self.may_take_ahead(job) as usize;
        let backings = self.about_to_be_used(job, after, most);
        let regions = u32::try_from(backings.len()).unwrap_or(u32::MAX);
        let growth = Growth { regions, ..Growth::default() };
        let granted = !backings.is_empty()
            && self.is_within_terms(job, &backings)
            && self.is_safe_with(Some((job, growth)), 0);
        if !granted {
            return Vec::new();
        }
        let pages: Vec<u64> = backings.iter().map(|backing| backing.page).collect();
        let (zone, planned, asked) = (Zone::Iteration, false, Bytes::ZERO);
        let want = Want { zone, pages, planned, asked, told: Told::Learned };
        self.book(job, &want, &backings, now);
        want.pages
    }

    /// How many regions it may take so: of those more that its profile says that the running iteration
    /// will hold at a time. None that another job may come to miss.
    fn may_take_ahead(&self, job: JobKey) -> u32 {
        let Some(account) = self.accounts.get(&job) else { return 0 };
        let promised = account.promised().filter(|_| account.is_running() && !self.has_waiting());
        let Some(promised) = promised else { return 0 };
        if !self.peaks_fit() {
            return 0;
        }
        let most = LEAST_AHEAD.max(promised / PARTS_AHEAD);
        promised.saturating_sub(account.ephemeral()).min(most)
    }

    /// Whether the peaks of all jobs fit side by side. O(jobs).
    pub(super) fn peaks_fit(&self) -> bool {
        let peaks = self.accounts.values().map(|account| account.charged().max(account.comes_to()));
        peaks.fold(0, u32::saturating_add) <= self.limit
    }

    /// Pages that the job's iterations use at this time or a little later, with the regions that are
    /// mapped there: at most so many.
    fn about_to_be_used(&self, job: JobKey, after: u64, most: usize) -> Vec<Backing> {
        let (mut backings, mut regions) = (Vec::new(), BTreeSet::new());
        let Some(account) = self.accounts.get(&job) else { return backings };
        let Some(part) = account.moment().part else { return backings };
        let soon = 0b11_u64 << part;
        let pages = &account.pages[Zone::Iteration.index()];
        let others = (after.saturating_add(1)..pages.len()).chain(0..after.min(pages.len()));
        for number in others.take(PAGES_LOOKED_AHEAD) {
            if backings.len() >= most {
                break;
            }
            let page = pages.page(number);
            let from = page.region.map(|region| (region, self.regions[region].state));
            let from = match from {
                Some((region, State::Free)) => Some((region, Origin::Nobody)),
                Some((region, State::Draining { job: owner, .. })) if owner == job => {
                    Some((region, Origin::Own))
                }
                _ => None,
            };
            // Two pages may have had the same region.
            if let Some((region, from)) = from
                && !page.pinned
                && page.usage.parts() & soon != 0
                && regions.insert(region)
            {
                backings.push(Backing { page: number, region, mapped: true, from });
            }
        }
        backings
    }
}
