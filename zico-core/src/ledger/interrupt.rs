//! Interruption: iterations that give way in the middle, where nothing else is left.
//!
//! Two iterations that have outgrown what was expected of them may hold what each other needs:
//! neither can go on, and one of them would be told that there is no memory. One that is
//! *interruptible* goes to the host instead, as it is, and the other one has its room. It asks for
//! the same memory again when it is back.
//!
//! **Who.** Only an iteration that waits for memory, and whose going lets another one go on that
//! waits. Of several the job of the lowest priority, then the one that began last: so the one that
//! began first ends (as in wound-wait: Rosenkrantz, Stearns and Lewis, TODS 1978). It goes within
//! a call of its own that asks again, after one that was told to wait: nothing of it is enqueued
//! meanwhile.
//!
//! **And back.** It has a [ticket](super::ticket) for all that it holds. It comes back when no
//! other iteration runs, and nothing starts beside it until it has ended: what it needs is not
//! known. So the banker's argument (I4) is that of one iteration alone. One that is interrupted
//! again and again (a job that was let start, so that it might free something, has made it anew) is
//! told that there is no memory, after `MOST_INTERRUPTIONS` of
//! [`tuning`](crate::types::tuning).

use core::cmp::Reverse;

use super::Ledger;
use super::account::Account;
use super::queue::Obstacle;
use crate::types::JobKey;
use crate::types::units::Ticks;

impl Ledger {
    /// Nothing can go on: calls upon a job to interrupt its iteration, so that another one can that
    /// waits. Whether there is one.
    pub(super) fn interrupt(&mut self) -> bool {
        if !self.has_interruptible {
            return false;
        }
        let can = |(&job, account): (&JobKey, &Account)| {
            let began = account.can_be_interrupted(self.epoch)?;
            let helps = self.serves_another(job, account) && self.can_go_on_later(job, account);
            helps.then_some((account.terms.priority, Reverse(began), Reverse(job)))
        };
        let chosen = self.accounts.iter().filter_map(can).min().map(|(.., Reverse(job))| job);
        let stall = chosen.and_then(|job| self.accounts.get_mut(&job)?.stall.as_mut());
        let found = stall.is_some();
        stall.into_iter().for_each(|stall| stall.gives_way = true);
        found
    }

    /// Whether another one that waits for memory would have it if this one had nothing, or waits to
    /// go on itself.
    fn serves_another(&self, job: JobKey, account: &Account) -> bool {
        let leaves = account.leased_total().saturating_sub(account.terms.floor);
        self.accounts.iter().any(|(&key, other)| {
            let asked = other.stall.map_or(0, |stall| stall.asked.regions);
            let has = self.left_for(key).saturating_add(leaves);
            let waits = other.is_running() && other.is_denied_at(self.epoch) && asked <= has;
            key != job && (waits || other.waits_to_go_on())
        })
    }

    /// Whether it can come back: it can have a ticket, and there is room for it beside what the others
    /// hold when their iterations have ended, as far as is known.
    fn can_go_on_later(&self, job: JobKey, account: &Account) -> bool {
        let all = account.has_all();
        let kept = self.others(job).map(Account::kept).fold(0, u32::saturating_add);
        let others = kept.max(self.stays_but(Some(job)));
        all.saturating_add(others) <= self.target
    }

    /// Whether what another job has on the host is to come back for an iteration only, and then goes.
    pub(super) fn is_another_interrupted(&self, job: JobKey) -> bool {
        self.others(job).any(Account::is_interrupted)
    }

    /// What keeps an iteration that has been interrupted, and has so much, from going on beside others
    /// that run: they are to end first. But what they leave behind may be what there is no room for,
    /// each time: where it has been passed over too often, it goes on as soon as there is room.
    pub(super) fn obstacle_to_go_on(&self, job: JobKey, all: u32) -> Option<Obstacle> {
        let is_overdue = self.accounts.get(&job)?.bypassed.is_overdue();
        if !is_overdue && self.others(job).any(Account::is_about_to_end) {
            return Some(Obstacle::Running);
        }
        let taken = |other: &Account| other.holds().max(other.terms.floor);
        let taken = self.others(job).map(taken).fold(all, u32::saturating_add);
        (taken > self.target).then_some(Obstacle::NoRoom)
    }

    /// A job ends an iteration that has been interrupted: it stays where it is.
    pub(super) fn cut_short(&mut self, job: JobKey, now: Ticks) {
        let account = self.accounts.get_mut(&job).filter(|account| account.is_interrupted());
        let Some(account) = account else { return };
        account.away.give_up_return();
        account.cut_short(now);
        self.waiting.retain(|&waiting| waiting != job);
    }

    /// Whether an iteration that has been interrupted is on its way back or runs again: nothing
    /// starts beside it, unless it does nothing for longer than others have patience.
    pub(super) fn goes_on_alone(&self, but: JobKey) -> bool {
        self.has_interruptible && self.others(but).any(Account::is_back_alone)
    }
}
