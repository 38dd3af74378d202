//! Return tickets: a job whose memory is on the host has a right to come back.
//!
//! What a job has on the host takes nothing of the budget: iterations of others may use its room.
//! But all of them together can never keep so much that it could not come back. That is the
//! ledger's invariant: what every job keeps for good, and what is to come back, fit in the budget
//! side by side. Whatever would break it is refused at once: a suspension, memory that stays, a
//! floor, a lower budget.
//!
//! A job that asks to come back joins those that wait to start an iteration, and is treated as one
//! of them. From when it may come its room is its own, as if it were leased: the banker's test has
//! found that the iterations that run can finish beside it. So it waits for iterations to end, and
//! for those who hold between iterations what they do not keep; it never waits for room that
//! somebody has taken for good.

use alloc::vec::Vec;

use super::Ledger;
use super::account::Account;
use super::admission::rest;
use super::lease::{Denied, WorkOrder};
use super::queue::Obstacle;
use super::region::{Place, State};
use super::run::Phase;
use crate::types::JobKey;
use crate::types::error::{NoTicket, NotSuspended};
use crate::types::units::{Bytes, Ticks};
use crate::types::want::{Growth, Told, Want};
use crate::types::zone::Zone;

impl Ledger {
    /// A job between iterations begins to go to the host, if it can have a ticket. It has what it
    /// [had](Self::leased_pages) until that is [sent](Self::send): the copies come first.
    pub(crate) fn suspend(&mut self, job: JobKey) -> Result<(), NotSuspended> {
        let account = self.accounts.get(&job).filter(|account| !account.gone);
        let account = account.ok_or(NotSuspended::Left)?;
        let gives_way = account.is_called() && matches!(account.phase, Phase::Waiting(_));
        let is_interrupted = account.is_to_be_interrupted();
        if !matches!(account.phase, Phase::Idle) && !gives_way && !is_interrupted {
            return Err(NotSuspended::InIteration);
        }
        self.check_ticket(job, account)?;
        self.no_longer_rests(job);
        let now = self.now;
        if gives_way {
            self.waiting.retain(|&waiting| waiting != job);
            self.set_phase(job, Phase::Idle);
        }
        let Some(account) = self.accounts.get_mut(&job) else { return Err(NotSuspended::Left) };
        if is_interrupted {
            account.interrupt(now);
        }
        account.away.go();
        account.goes_on = false;
        account.has_moved();
        account.stall = None;
        // All that it has is to come back: none of it is a guess any more.
        account.first_wave.lapse();
        Ok(())
    }

    /// Whether a job could be sure to come back.
    pub(super) fn check_ticket(&self, job: JobKey, account: &Account) -> Result<(), NotSuspended> {
        if self.can_have_ticket(job, account) {
            return Ok(());
        }
        let own = account.has_all();
        let others = self.stays_beside(job, account);
        let bytes = |regions: u32| self.bytes(regions.into());
        Err(NotSuspended::NoTicket(NoTicket {
            job: account.name.clone(),
            held: bytes(own),
            kept_by_others: bytes(others),
            budget: self.budget(),
        }))
    }

    /// Some of the pages that a job has leased, those from one on. Where to go on, if there are more.
    pub(crate) fn leased_pages(
        &self,
        job: JobKey,
        from: (usize, u64),
        leased: &mut Vec<(Zone, u64)>,
    ) -> Option<(usize, u64)> {
        let (places, next) = self.places_from(job, from);
        let account = self.accounts.get(&job)?;
        leased.extend(places.into_iter().filter_map(|place| {
            let region = account.pages[place.zone.index()].page(place.page).region?;
            let is_leased = self.regions[region].state == State::Leased(place);
            is_leased.then_some((place.zone, place.page))
        }));
        next
    }

    /// The contents of these pages are on the host, or the copies of them are enqueued: their
    /// regions drain. So with pages that were backed for a return and could not be filled again.
    pub(crate) fn send(
        &mut self,
        job: JobKey,
        zone: Zone,
        pages: impl IntoIterator<Item = u64>,
        now: Ticks,
    ) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let moment = account.moment();
        for page in pages {
            let place = Place { job, zone, page };
            if Self::drain(&mut self.regions, account, place, moment) {
                account.away.add(zone, 1);
                self.away += 1;
            }
        }
        account.note(now);
        self.notify();
    }

    /// The copies could not be made: a job stays with all that it has.
    pub(crate) fn stay(&mut self, job: JobKey) {
        let now = self.now;
        if let Some(account) = self.accounts.get_mut(&job) {
            account.away.arrive();
            account.go_on(now);
        }
        self.notify();
        self.admit();
    }

    /// All that goes has been [sent](Self::send): others may count on its room.
    pub(crate) fn gone(&mut self, job: JobKey, now: Ticks) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        account.away.arrive();
        account.has_moved();
        account.leaves_device(now);
        account.note(now);
        self.now = now;
        self.notify();
        self.tighten();
        self.admit();
    }

    /// Whether a job's memory is on the host or on its way there or back.
    pub(crate) fn is_away(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(|account| !account.away.is_empty())
    }

    /// Whether it is on its way to the host.
    pub(crate) fn is_going_out(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(|account| account.away.is_going_out())
    }

    /// Whether it may come back.
    pub(crate) fn is_coming_back(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(|account| account.away.is_coming_back())
    }

    /// How many regions of a zone it has on the host, or on the way.
    pub(crate) fn away_of(&self, job: JobKey, zone: Zone) -> u32 {
        self.accounts.get(&job).map_or(0, |account| account.away.regions_of(zone))
    }

    /// Whether a job on its way back may turn round: it has a ticket still, or could have one.
    pub(crate) fn may_go_again(&self, job: JobKey) -> bool {
        let account = self.accounts.get(&job).filter(|account| !account.gone);
        account.is_some_and(|account| {
            let is_idle = matches!(account.phase, Phase::Idle);
            account.away.is_coming_back() || is_idle && self.can_have_ticket(job, account)
        })
    }

    /// A job on the host asks to come back, or asks again. Whether it may.
    pub(crate) fn ask_to_return(&mut self, job: JobKey) -> Result<bool, NotSuspended> {
        let account = self.accounts.get_mut(&job).filter(|account| !account.gone);
        let account = account.ok_or(NotSuspended::Left)?;
        if account.away.is_coming_back() || account.away.is_empty() {
            account.has_moved();
            return Ok(true);
        }
        if matches!(account.phase, Phase::Idle) {
            self.get_in_line(job);
        }
        let may = self.accounts.get(&job).is_some_and(|account| account.away.is_coming_back());
        if !may {
            self.note_if_stuck();
            self.call_upon(None);
        }
        Ok(may)
    }

    /// What keeps a job from coming back: room that others keep just now, or iterations that could
    /// not all finish beside it.
    pub(super) fn obstacle_to_return(&mut self, job: JobKey) -> Option<Obstacle> {
        let own = self.accounts.get(&job)?;
        if self.is_return_awaited(job) {
            return Some(Obstacle::Awaited);
        }
        let regions = own.away.regions();
        let all = self.room_to_return(job, own);
        let others = || self.others(job);
        let fits = |kept: u32| all.saturating_add(kept) <= self.target;
        let kept = others().map(Account::kept).fold(0, u32::saturating_add);
        let at_rest = others().map(rest).fold(0, u32::saturating_add);
        let runs = others().any(Account::is_running);
        let (fits, fits_at_rest) = (fits(kept), fits(at_rest));
        let growth = Growth { regions, persists: true, told: true };
        let is_held_off = self.held_off(job).is_some();
        if own.is_interrupted() && !is_held_off {
            // What keeps it may go in the middle of an iteration.
            self.looks_again |= own.bypassed.is_overdue();
            if runs {
                return self.obstacle_to_go_on(job, all);
            }
        }
        if fits && !is_held_off && self.is_safe_with(Some((job, growth)), 0) {
            return None;
        }
        Some(if runs && fits_at_rest { Obstacle::Running } else { Obstacle::Leftovers })
    }

    /// Regions for pages of a job that may come back. None if they cannot be had yet: the device
    /// has to pass what others have given up, or others lose patience with it.
    pub(crate) fn lease_back(
        &mut self,
        job: JobKey,
        zone: Zone,
        pages: &[u64],
        now: Ticks,
    ) -> Option<WorkOrder> {
        let account = self.accounts.get_mut(&job)?;
        if !account.away.is_coming_back() {
            return None;
        }
        let (pages, asked, told) = (pages.to_vec(), Bytes::ZERO, Told::ByTheJob);
        let want = Want { zone, pages, planned: false, asked, told };
        let mut backings = core::mem::take(&mut self.backings);
        let order = (self.choose(job, &want, &mut backings) == 0).then(|| {
            let regions = u32::try_from(backings.len()).unwrap_or(u32::MAX);
            self.returned(job, zone, regions);
            self.grant(job, &want, &mut backings, now).returning()
        });
        self.backings = backings;
        if order.is_none() {
            self.refused_pinned |= self.pinned > 0;
            // What others have given up is fenced.
            self.accounts.get_mut(&job)?.denied = true;
        }
        order
    }

    /// So many regions of a zone are on the device again.
    fn returned(&mut self, job: JobKey, zone: Zone, regions: u32) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.away.take(zone, regions);
            self.away = self.away.saturating_sub(regions);
        }
    }

    /// The device could not map regions that were leased for a job's return: they are away still.
    pub(super) fn not_returned(&mut self, job: JobKey, zone: Zone, regions: usize) {
        let regions = u32::try_from(regions).unwrap_or(u32::MAX);
        if let Some(account) = self.accounts.get_mut(&job).filter(|account| !account.gone) {
            account.away.add(zone, regions);
            self.away = self.away.saturating_add(regions);
        }
    }

    /// All of a job is on the device again.
    pub(crate) fn is_back(&mut self, job: JobKey, now: Ticks) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        account.away.arrive();
        account.has_moved();
        account.denied = false;
        account.go_on(now);
        account.turn_changes(now);
        account.note(now);
        self.now = now;
        self.notify();
        self.admit();
    }

    /// A job that leaves has nothing to come back for.
    pub(super) fn give_up_ticket(&mut self, job: JobKey) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let away = core::mem::take(&mut account.away);
        self.away = self.away.saturating_sub(away.regions());
    }

    /// Whether a job has a right to come back, or comes to have one in its turn: of one that has just
    /// begun to go all is on the device still.
    pub(super) fn has_tickets(&self) -> bool {
        let goes = |account: &Account| account.away.is_going_out();
        self.away > 0 || self.has_turns || self.accounts.values().any(goes)
    }

    /// Why what is asked for, which persists, can never be had while jobs are on the host: one of them
    /// could not come back. What the job's iterations begin with does not count: it can be freed,
    /// and what stays is no less for it.
    pub(super) fn breaks_ticket(&self, job: JobKey, want: &Want) -> Option<Denied> {
        let own = self.accounts.get(&job)?;
        let before = own.comes_to_persist(Growth::default());
        let after = own.comes_to_persist(want.growth());
        let all = self.stays_beside(job, own).saturating_add(after);
        let missing = all.checked_sub(self.target).filter(|&missing| missing > 0)?;
        let pages = want.pages.len() as u64;
        (after > before)
            .then(|| Denied::Never(self.out_of_memory(job, want.asked, pages, missing.into())))
    }

    /// Whether a job could be sure to come back from the host.
    pub(super) fn can_have_ticket(&self, job: JobKey, account: &Account) -> bool {
        let runs_on = account.is_running() && !account.is_to_be_interrupted();
        let own = if runs_on { account.always_keeps() } else { account.has_all() };
        own.saturating_add(self.stays_beside(job, account)) <= self.target
    }

    /// What the others will always have where this one is on the device. Beside one that gives way
    /// to none the largest of those that do has to have room; those give way to each other.
    fn stays_beside(&self, job: JobKey, account: &Account) -> u32 {
        let stays = self.stays_but(Some(job));
        let largest = if account.gives_way() { 0 } else { self.largest_turn(Some(job)) };
        stays.saturating_add(largest)
    }

    /// What all jobs but one, if one is left out, will always have, whoever comes back first.
    pub(super) fn stays_but(&self, job: Option<JobKey>) -> u32 {
        self.there_but(job).map(Account::kept_in_any_case).fold(0, u32::saturating_add)
    }

    /// The most that one job that gives way to others will always have beside that.
    pub(super) fn largest_turn(&self, but: Option<JobKey>) -> u32 {
        if !self.has_turns && !self.has_interruptible {
            return 0;
        }
        let turn =
            |account: &Account| account.always_keeps().saturating_sub(account.kept_in_any_case());
        self.there_but(but).map(turn).max().unwrap_or(0)
    }

    fn there_but(&self, job: Option<JobKey>) -> impl Iterator<Item = &Account> {
        let is_other =
            move |&(&key, account): &(&JobKey, &Account)| Some(key) != job && !account.gone;
        self.accounts.iter().filter(is_other).map(|(_, account)| account)
    }

    /// The room that a job on the host needs to come back: for all that it has, and where it gives
    /// way to others for an iteration.
    pub(super) fn room_to_return(&self, job: JobKey, own: &Account) -> u32 {
        let all = own.leased_total().saturating_add(own.away.regions()).max(own.terms.floor);
        if own.is_preemptible() { all.max(self.room_to_start(job, own)) } else { all }
    }
}
