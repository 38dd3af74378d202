//! Memory that goes back to the device: first from the addresses of all clients, then from the
//! broker.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::clients::Client;
use super::{Broker, Revocation, Store};
use crate::ledger::{Excess, Retired};
use crate::types::JobKey;
use crate::types::tuning::RETIRED_AT_A_TIME;
use crate::types::units::Bytes;
use crate::types::want::Want;

/// A region's number, as it travels.
pub(super) fn number(region: usize) -> u32 {
    // There are at most 2^20.
    u32::try_from(region).unwrap_or(u32::MAX)
}

impl<S: Store> Broker<S> {
    /// Gives memory that is nobody's back to the device until no more than `target` bytes are held,
    /// as far as clients release it. Those that have it mapped are [told](super::Notice::Release).
    /// Nothing happens while clients of the broker before this one have yet to tell what they have.
    pub fn trim(&mut self, target: Bytes) {
        let target = target.value() / self.region.value().max(1);
        self.give_up_while(Excess::Above(usize::try_from(target).unwrap_or(usize::MAX)));
        self.pump();
    }

    /// Gives memory back that a lowered budget has no room for. What has yet to be handed in is
    /// waited for.
    pub(super) fn shrink(&mut self) {
        if self.ledger.is_shrinking() && !self.is_recovering {
            while self.ledger.close_more() {}
            self.give_up_while(Excess::BeyondLimit);
        }
    }

    fn give_up_while(&mut self, excess: Excess) {
        if self.is_recovering || !self.ledger.exceeds(excess) {
            return;
        }
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            from = self.ledger.idle_from(next, &mut found);
        }
        found.sort_unstable();
        let idle: Vec<usize> = found.into_iter().map(|(_, region)| region).collect();
        for some in idle.chunks(RETIRED_AT_A_TIME) {
            for retired in self.ledger.retire(some, excess) {
                self.revoke(retired);
            }
        }
    }

    /// Gives memory back that a job of another user could have, but for what is in it.
    pub(super) fn make_way(&mut self, job: JobKey, want: &Want, last: bool) {
        if !self.has_users {
            return;
        }
        let some = self.ledger.wanted_of_others(job, want, last);
        for retired in self.ledger.retire(&some, Excess::OfOthers) {
            self.revoke(retired);
        }
    }

    /// Takes a region's memory from all who have it.
    fn revoke(&mut self, retired: Retired) {
        let region = number(retired.region);
        let by: BTreeSet<Client> = self.imports.get(&region).cloned().unwrap_or_default();
        for client in &by {
            if let Some(state) = self.clients.get_mut(client) {
                state.note_release(region);
            }
        }
        self.revocations.push(Revocation { retired, by });
        self.finish_revocations();
    }

    /// Gives back what nobody has mapped any more. What the device refuses to take is in use again.
    fn finish_revocations(&mut self) {
        let revocations = core::mem::take(&mut self.revocations);
        for Revocation { mut retired, by } in revocations {
            if !by.is_empty() {
                self.revocations.push(Revocation { retired, by });
                continue;
            }
            for (place, region) in retired.mapped() {
                self.ledger.unmapped(place, region);
            }
            retired.destroyed = self.store.destroy(number(retired.region)).is_ok();
            self.ledger.retired(&[retired]);
        }
    }

    /// A client has a region's memory no more.
    pub(super) fn released(&mut self, client: Client, region: u32) {
        if let Some(by) = self.imports.get_mut(&region) {
            by.remove(&client);
            if by.is_empty() {
                self.imports.remove(&region);
            }
        }
        for revocation in &mut self.revocations {
            if number(revocation.retired.region) == region {
                revocation.by.remove(&client);
            }
        }
        self.finish_revocations();
    }

    /// A client has none of it any more.
    pub(super) fn release_all(&mut self, client: Client) {
        self.imports.retain(|_, by| {
            by.remove(&client);
            !by.is_empty()
        });
        self.revocations.iter_mut().for_each(|revocation| {
            revocation.by.remove(&client);
        });
        self.finish_revocations();
    }
}
