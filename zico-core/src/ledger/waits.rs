//! Who waits for what, and for whom.

use alloc::vec::Vec;

use super::Ledger;
use super::account::Account;
use super::run::Phase;
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::report::Holder;
use crate::types::units::{Bytes, Ticks};
use crate::types::waits::{Awaited, Waiting};

impl Ledger {
    /// The jobs that wait, in the order in which they joined.
    pub(crate) fn waits(&self) -> Vec<Waiting> {
        let waiting = |(&key, account): (&JobKey, &Account)| {
            let bytes =
                |regions: u32| Bytes::new(u64::from(regions).saturating_mul(self.page_bytes));
            let awaited = match (&account.phase, account.rests_until(), account.awaited()) {
                _ if account.away.is_coming_back() && account.denied => {
                    Awaited::Return(bytes(account.away.regions()))
                }
                (_, Some(until), _) => Awaited::Pace(Some(until).filter(|&at| at < Ticks::MAX)),
                (Phase::Waiting(_), ..) if account.away.is_absent() => {
                    Awaited::Return(bytes(account.away.regions()))
                }
                (Phase::Waiting(_), ..) => Awaited::Start,
                (_, _, Some(regions)) => Awaited::Memory(bytes(regions)),
                _ => return None,
            };
            let returns = matches!(awaited, Awaited::Return(_));
            let holds = |other: &Account| {
                let may_free = other.is_running() || other.holds_leftovers();
                may_free || other.draining > 0 || returns && other.leased_total() > 0
            };
            let is_paced = matches!(awaited, Awaited::Pace(_));
            let others = self.accounts.iter().filter(|&(&other, _)| other != key && !is_paced);
            let mut blockers: Vec<Holder> =
                others.filter(|(_, other)| holds(other)).map(|other| self.holder(other)).collect();
            blockers.sort_by_key(|blocker| core::cmp::Reverse(blocker.held.total()));
            Some(Waiting { id: JobId(key), job: account.name.clone(), awaited, blockers })
        };
        self.accounts.iter().filter_map(waiting).collect()
    }
}
