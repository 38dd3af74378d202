//! Memory that a running iteration waits for and is about to get, or a job that comes back from the
//! host: no iteration starts that would take it.
//!
//! A job may have its own memory back before the device has passed its use. So where the host is
//! far ahead, what one iteration gives up is taken by the next one of the same job, and is never
//! free: another job that waits for it would wait until it is overdue
//! ([`fairness`](super::fairness)), in each of its iterations anew.

use core::ops::Bound;

use super::Ledger;
use super::account::Account;
use crate::types::JobKey;
use crate::types::want::Growth;

impl Ledger {
    /// Whether a job that starts would come to take what another one waits for. That is all there,
    /// but the device has yet to pass some of it, or the other one has yet to ask again.
    ///
    /// O(jobs), and the banker's test, for each that waits.
    pub(super) fn takes_what_is_awaited(&mut self, job: JobKey) -> bool {
        let Some(own) = self.accounts.get(&job) else { return false };
        let taken = |account: &Account| account.leased_total().max(account.terms.floor);
        let more = self.room_to_start(job, own).saturating_sub(taken(own));
        let all = self.accounts.values().map(taken).fold(0, u32::saturating_add);
        let room = self.limit.saturating_sub(all);
        let (mut after, mut takes) = (None, false);
        while let Some((key, asked)) = self.next_awaited(after) {
            after = Some(key);
            let is_short = asked.regions <= room && asked.regions.saturating_add(more) > room;
            if is_short && self.may_have(key, asked) {
                takes = true;
                self.accounts.get_mut(&key).into_iter().for_each(Account::note_awaited);
            }
        }
        takes
    }

    /// Whether another job comes back from the host, and the device has yet to pass what it comes
    /// back to. There is room for both, but who has given that up may have it again at once.
    pub(super) fn is_return_awaited(&self, job: JobKey) -> bool {
        let free = self.regions.free_count() as u64;
        let waits = |other: &Account| {
            other.away.is_coming_back() && other.denied && u64::from(other.away.regions()) > free
        };
        self.away > 0 && self.accounts.iter().any(|(&key, other)| key != job && waits(other))
    }

    /// The first job behind `after` that waits for memory in an iteration and may get it by itself,
    /// and what it has asked for.
    fn next_awaited(&self, after: Option<JobKey>) -> Option<(JobKey, Growth)> {
        let drains = self.accounts.values().any(|account| account.draining > 0);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.accounts.range((from, Bound::Unbounded));
        let waits = |account: &Account| {
            let goes_on = drains || account.may_go_on(self.epoch) && !account.is_still();
            account.is_stalled() && account.awaited().is_some() && goes_on
        };
        let mut waiting = behind.filter(|(_, account)| waits(account));
        waiting.find_map(|(&key, account)| Some((key, account.stall?.asked)))
    }
}
