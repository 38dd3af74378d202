//! Floors and caps: what is always there for a job, and what it may hold at most.

use super::Ledger;
use super::account::Account;
use super::placement::{Backing, Origin};
use crate::types::JobKey;

impl Ledger {
    /// Whether a floor of `floor` can be reserved for a job that joins now: the running iterations
    /// can still finish in some order, and each other job's known peak still fits beside it.
    pub(super) fn has_room_for(&mut self, floor: u32) -> bool {
        if floor == 0 {
            return true;
        }
        let stays = self.stays_but(None).saturating_add(self.largest_turn(None));
        if self.has_tickets() && stays.saturating_add(floor) > self.target {
            return false;
        }
        let kept = self.kept().saturating_add(floor);
        let fits = |account: &Account| {
            let need = account.largest().unwrap_or(0).max(account.kept());
            kept.saturating_sub(account.kept()).saturating_add(need) <= self.target
        };
        self.accounts.values().all(fits) && kept <= self.target && self.is_safe_with(None, floor)
    }

    /// What cannot be had by iterations of others: what stays between a job's iterations, and
    /// what is reserved, of all jobs.
    pub(super) fn kept(&self) -> u32 {
        self.accounts.values().map(Account::kept).fold(0, u32::saturating_add)
    }

    /// Whether the job would keep to its cap, and leave the others their floors, if it got these
    /// regions. What drains counts: nobody else can have it yet.
    pub(super) fn is_within_terms(&self, job: JobKey, backings: &[Backing]) -> bool {
        let Some(own) = self.accounts.get(&job) else { return false };
        let more = backings.iter().filter(|backing| backing.from != Origin::Own).count();
        let charged = own.charged().saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        if charged > own.cap() {
            return false;
        }
        if self.accounts.values().all(|account| account.terms.floor == 0) {
            return true;
        }
        let reserved = self.accounts.iter().map(|(&key, account)| {
            let charged = if key == job { charged } else { account.charged() };
            charged.max(account.terms.floor)
        });
        reserved.fold(0, u32::saturating_add) <= self.limit
    }
}
