//! Taking over the books of a ledger that is no more, from what the jobs say they have.

use super::Ledger;
use super::account::Account;
use super::region::{Place, State};
use crate::learn::predictor::Predictor;
use crate::types::JobKey;
use crate::types::units::Ticks;
use crate::types::zone::Zone;

/// What a job has a region for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Leased(Place),
    /// Given back, under the batch that is open.
    Draining,
    Idle,
    /// In use elsewhere since it was given back where it is mapped. That is to be fenced, under the
    /// batch that is open, before something else is mapped there.
    Passing,
}

impl Ledger {
    /// Keeps a key for a job that had it before. Whether it can be a job's.
    pub(crate) fn reserve_key(&mut self, key: JobKey) -> bool {
        // Keys are counted up: a number that far away is no job's.
        let is_one = key > 0 && key < JobKey::MAX / 2;
        if is_one {
            self.next = self.next.max(key);
        }
        is_one
    }

    /// Lets a job in that the ledger before this one had let in. What is reserved for it was so
    /// before, whatever others have been told of meanwhile, which may be half of what they do: no
    /// more than there is.
    pub(crate) fn rejoin(&mut self, key: JobKey, account: Account) -> bool {
        let floors = self.accounts.values().chain([&account]).map(|account| account.terms.floor);
        let has_room = floors.fold(0, u32::saturating_add) <= self.target;
        if has_room {
            self.let_join(key, account);
        }
        has_room
    }

    /// Whether a region may have memory that has been a user's.
    pub(crate) fn may_have_memory(&self, region: usize, user: u32) -> bool {
        region < self.regions.count() && {
            let found = &self.regions[region];
            found.state != State::Closed && (!found.created || found.user == user)
        }
    }

    /// A region has memory, which has been a user's. Whether it may.
    pub(crate) fn adopt_memory(&mut self, region: usize, user: u32) -> bool {
        let may = self.may_have_memory(region, user);
        if may {
            self.regions.set_created(region, true);
            self.regions.set_user(region, user);
        }
        may
    }

    /// A job has a region that has memory, mapped at this place if at one. Whether nobody else has it.
    pub(crate) fn adopt(
        &mut self,
        job: JobKey,
        region: usize,
        place: Option<Place>,
        used: Use,
    ) -> bool {
        if region >= self.regions.count() || !self.accounts.contains_key(&job) {
            return false;
        }
        let state = self.regions[region].state;
        let taken = |place: Place| {
            self.pages(place).is_some_and(|pages| pages.page(place.page).region.is_some())
        };
        if state == State::Closed
            || (matches!(used, Use::Leased(_) | Use::Draining) && state != State::Free)
            || place.is_some_and(taken)
        {
            return false;
        }
        let found = &self.regions[region];
        if !found.created || found.user != self.user(job) {
            return false;
        }
        if let Some(place) = place {
            self.regions.map(region, place);
            self.set_mapping(place, Some(region));
        }
        let Some(account) = self.accounts.get_mut(&job) else { return false };
        let batch = account.batch;
        if matches!(used, Use::Draining | Use::Passing) {
            account.pending.push(region);
            if let Some(place) = place {
                account.pages[place.zone.index()].set(place.page, |page| page.last = batch);
            }
        }
        match used {
            Use::Leased(place) => {
                account.leased[place.zone.index()] += 1;
                account.taken += 1;
                self.regions.set_state(region, State::Leased(place));
            }
            Use::Draining => {
                account.draining += 1;
                self.regions.set_state(region, State::Draining { job, batch });
            }
            Use::Idle | Use::Passing => {}
        }
        true
    }

    /// A job has so many regions of a zone on the host, or is on its way there with them.
    pub(crate) fn adopt_away(&mut self, job: JobKey, zone: Zone, regions: u32, goes: bool) {
        let most = u32::try_from(self.regions.count()).unwrap_or(u32::MAX);
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let regions = regions.min(most.saturating_sub(account.away.regions_of(zone)));
        account.away.add(zone, regions);
        self.away = self.away.saturating_add(regions);
        if goes {
            account.away.go();
        }
    }

    /// What a job's next or running iteration is expected to take at most, beside what persists.
    pub(crate) fn claim(&self, job: JobKey) -> Option<u32> {
        let profile = self.accounts.get(&job)?.predictor.profile()?;
        Some(profile.claim().value())
    }

    /// A job has told all that it has, and whether an iteration runs: from there on it is noted
    /// what that takes, and nothing is learned from the part of it that is seen.
    pub(crate) fn resume(&mut self, job: JobKey, runs: bool, claim: Option<u32>, now: Ticks) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        if runs && !account.is_running() && !account.is_interrupted() {
            if claim.is_some() {
                account.predictor = Predictor::of(claim);
            }
            account.begin(now);
            account.run().into_iter().for_each(|run| run.is_partial = true);
            if !account.away.is_empty() {
                account.interrupt(now);
            }
        }
        account.note(now);
        self.notify();
    }
}
