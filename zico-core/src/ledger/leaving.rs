//! A job leaves: what it had drains, its account is closed, its addresses are cleared up.

use alloc::vec::Vec;

use super::account::Account;
use super::first_wave::FirstWave;
use super::pages::Pages;
use super::region::Place;
use super::run::Phase;
use super::{AT_A_TIME, Ledger};
use crate::learn::signature::Signature;
use crate::types::JobKey;
use crate::types::units::Ticks;
use crate::types::zone::Zone;

/// The addresses of an arena of a job that has left: what is mapped there is to be unmapped.
pub(crate) struct Departed {
    pub(crate) job: JobKey,
    pub(crate) zone: Zone,
    pages: Pages,
}

impl Departed {
    /// Whether nothing is mapped there.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.mapped().next().is_none()
    }

    /// The pages that have a region, and which.
    pub(crate) fn mapped(&self) -> Vec<(u64, usize)> {
        self.pages.mapped().collect()
    }
}

impl Ledger {
    /// The job leaves, and is to give up all it has: [`leave_pages`](Self::leave_pages). The
    /// account stays until the device has completed that. Whether it had not left before.
    pub(crate) fn leave(&mut self, job: JobKey, now: Ticks) -> bool {
        let Some(account) = self.accounts.get_mut(&job).filter(|account| !account.gone) else {
            return false;
        };
        account.end(now, Signature::default());
        (account.phase, account.interrupted) = (Phase::Idle, None);
        account.gone = true;
        account.stall = None;
        account.first_wave = FirstWave::over();
        account.terms.floor = 0;
        self.waiting.retain(|&waiting| waiting != job);
        self.give_up_ticket(job);
        self.epoch += 1;
        true
    }

    /// A job that has left gives up some of its pages, those from one on. Where to go on, if there
    /// are more.
    pub(crate) fn leave_pages(&mut self, job: JobKey, from: (usize, u64)) -> Option<(usize, u64)> {
        let (places, next) = self.places_from(job, from);
        let account = self.accounts.get_mut(&job)?;
        let moment = account.moment();
        for place in places {
            self.epoch += u64::from(Self::drain(&mut self.regions, account, place, moment));
        }
        next
    }

    /// Some places of a job's arenas, those from one on, and where to go on, if there are more.
    pub(super) fn places_from(
        &self,
        job: JobKey,
        (mut zone, mut page): (usize, u64),
    ) -> (Vec<Place>, Option<(usize, u64)>) {
        let mut places = Vec::new();
        let Some(account) = self.accounts.get(&job) else { return (places, None) };
        while places.len() < AT_A_TIME {
            let Some(&which) = Zone::ALL.get(zone) else { return (places, None) };
            if page >= account.pages[zone].len() {
                (zone, page) = (zone + 1, 0);
                continue;
            }
            places.push(Place { job, zone: which, page });
            page += 1;
        }
        (places, Some((zone, page)))
    }

    /// A job that has left has given up all it had.
    pub(crate) fn left(&mut self, job: JobKey) {
        self.epoch += 1;
        self.wake = true;
        self.tighten();
        self.depart(job);
    }

    /// Closes the account of a job that has left, once the device has completed all it had.
    pub(super) fn depart(&mut self, job: JobKey) {
        let is_done = |account: &Account| {
            account.gone && account.pins == 0 && account.charged() == 0 && account.is_quiet()
        };
        if self.accounts.get(&job).is_some_and(is_done)
            && let Some(account) = self.accounts.remove(&job)
        {
            self.regions.leave(job);
            let arenas = Zone::ALL.into_iter().zip(account.pages);
            self.departed.extend(arenas.map(|(zone, pages)| Departed { job, zone, pages }));
        }
    }

    /// The addresses of jobs that have left, to be cleared up. That counts as a pin on each arena.
    pub(crate) fn take_departed(&mut self) -> Vec<Departed> {
        let departed = core::mem::take(&mut self.departed);
        self.pinned += u32::try_from(departed.len()).unwrap_or(u32::MAX);
        departed
    }

    /// Some pages of a job that has left are mapped no more.
    pub(crate) fn clear(&mut self, departed: &mut Departed, pages: &[(u64, usize)]) {
        let (job, zone) = (departed.job, departed.zone);
        for &(page, region) in pages {
            departed.pages.set(page, |page| page.region = None);
            self.unmapped(Place { job, zone, page }, region);
        }
    }

    /// So many arenas have been dealt with; those that could not be cleared up come back for the
    /// next time.
    pub(crate) fn cleared(&mut self, count: usize, left: Vec<Departed>) {
        if count == 0 {
            return;
        }
        self.departed.extend(left);
        self.pinned = self.pinned.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        self.notify();
    }
}
