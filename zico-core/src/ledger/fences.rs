//! Regions that were given up: batches, their fences, and what the device has completed.
//!
//! A region that a job gives up joins the job's open *batch*. A batch is *fenced* by an event
//! recorded after it was closed; when the device has completed that, its regions are free. Until
//! then they *drain*: they stay charged to the job, which alone may have them back.

use alloc::vec::Vec;

use super::account::{Account, Batch};
use super::pages::Moment;
use super::region::{Place, RegionTable, State};
use super::{AT_A_TIME, Ledger};
use crate::types::JobKey;
use crate::types::tuning::{BATCH_BYTES, BATCH_REGIONS};
use crate::types::units::Ticks;
use crate::types::zone::Zone;

/// Whether a batch of so many regions is to be fenced.
pub(crate) const fn is_full(regions: usize, page_bytes: u64) -> bool {
    regions >= BATCH_REGIONS || regions as u64 * page_bytes >= BATCH_BYTES
}

impl Ledger {
    /// Takes back pages that an arena has emptied.
    pub(crate) fn give_back(&mut self, job: JobKey, zone: Zone, pages: impl Iterator<Item = u64>) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let moment = account.moment();
        for page in pages {
            let place = Place { job, zone, page };
            self.epoch += u64::from(Self::drain(&mut self.regions, account, place, moment));
        }
    }

    /// A job has given pages back: notes what is charged to it now, and lets others start that have
    /// more room. Whether it is time to fence the pages.
    pub(crate) fn note_given(&mut self, job: JobKey, zone: Zone, now: Ticks) -> bool {
        let Some(account) = self.accounts.get_mut(&job) else { return false };
        account.note(now);
        let more_room = zone == Zone::Persistent || !account.is_running();
        let is_full = Self::is_full(account, self.page_bytes);
        if more_room && !self.waiting.is_empty() {
            self.admit();
        }
        is_full
    }

    /// Moves the region that is leased at a page of a job, if one is, to the job's open batch.
    /// Whether one was.
    pub(super) fn drain(
        regions: &mut RegionTable,
        account: &mut Account,
        place: Place,
        moment: Moment,
    ) -> bool {
        let pages = &mut account.pages[place.zone.index()];
        let Some(region) = pages.page(place.page).region else { return false };
        if regions[region].state != State::Leased(place) {
            return false;
        }
        account.leased[place.zone.index()] -= 1;
        account.draining += 1;
        account.pending.push(region);
        let batch = account.batch;
        let mut parts = 0;
        pages.set(place.page, |page| {
            page.last = batch;
            page.usage.end(moment);
            parts = page.usage.parts();
        });
        regions.set_state(region, State::Draining { job: place.job, batch });
        regions.set_parts(region, place, parts);
        true
    }

    fn is_full(account: &Account, page_bytes: u64) -> bool {
        is_full(account.pending.len(), page_bytes)
    }

    /// The jobs whose open batch is to be fenced now: it is full, the job will not fill it soon, or
    /// somebody waits for memory.
    pub(crate) fn due(&self) -> Vec<JobKey> {
        let pressure = self.accounts.values().any(|account| account.denied);
        let due = |account: &Account| {
            !account.pending.is_empty()
                && (pressure || !account.is_running() || Self::is_full(account, self.page_bytes))
        };
        self.accounts.iter().filter(|(_, account)| due(account)).map(|(&job, _)| job).collect()
    }

    /// Closes a job's open batch: its regions are to be fenced by an event recorded from now on.
    pub(crate) fn close_batch(&mut self, job: JobKey) -> Option<Batch> {
        let is_due = |account: &&mut Account| !account.pending.is_empty();
        let account = self.accounts.get_mut(&job).filter(is_due)?;
        let number = account.batch;
        account.batch += 1;
        let empty = core::mem::take(&mut self.list);
        Some(Batch { number, regions: core::mem::replace(&mut account.pending, empty) })
    }

    /// A batch has been fenced.
    pub(crate) fn fenced(&mut self, job: JobKey, batch: Batch) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        // Another thread may have fenced a later one meanwhile.
        let at = account.fenced.partition_point(|other| other.number < batch.number);
        account.fenced.insert(at, batch);
        self.counts.fences += 1;
    }

    /// No event could be recorded: the regions join the batch that is open now.
    pub(crate) fn reopen(&mut self, job: JobKey, closed: Batch) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        for &region in &closed.regions {
            if self.regions[region].state == (State::Draining { job, batch: closed.number }) {
                self.regions.set_state(region, State::Draining { job, batch: account.batch });
            }
        }
        // One that has come and gone meanwhile stands there already: however often recording fails,
        // the batch does not outgrow the budget.
        account.pending.extend(closed.regions);
        account.pending.sort_unstable();
        account.pending.dedup();
    }

    /// The device has completed the fence of this batch, a job's oldest: what still drains in it is
    /// free. Of a large batch some regions at a time: the fence stays until all of them are.
    /// Whether that was the last of it, or `None` if the fence is not the oldest: another thread
    /// was faster.
    pub(crate) fn completed(&mut self, job: JobKey, batch: u64, now: Ticks) -> Option<bool> {
        let account = self.accounts.get_mut(&job)?;
        let fence = account.fenced.front_mut().filter(|fence| fence.number == batch)?;
        self.epoch += 1;
        self.wake = true;
        // From here on nothing may be added to it: a lease that is taken back finds that it has
        // completed.
        account.completed = account.completed.max(batch);
        let rest = fence.regions.len().saturating_sub(AT_A_TIME);
        for region in fence.regions.drain(rest..) {
            if let State::Draining { job: owner, batch: last } = self.regions[region].state
                && owner == job
                && last <= batch
            {
                self.regions.set_state(region, State::Free);
                account.draining -= 1;
            }
        }
        if rest == 0 {
            self.list = account.fenced.pop_front().map_or_else(Vec::new, |fence| fence.regions);
        }
        account.count_time(now);
        account.note(now);
        self.tighten();
        self.depart(job);
        if self.looks_again {
            self.admit();
        }
        Some(rest == 0)
    }
}
