//! What a job has on the host: how much, and whether it is on its way.
//!
//! On its way out or back it is the job's as if it were leased. On the host it takes nothing of the
//! budget; that it can come back is what [tickets](super::super::ticket) are for.

use super::Account;
use crate::types::want::Growth;
use crate::types::zone::Zone;

/// Where what is not on the device goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// Nowhere: it stays on the host.
    #[default]
    Stays,
    /// To the host: the copies are not enqueued yet.
    Out,
    /// To the device: room is kept for it.
    Back,
}

/// Regions whose contents are on the host, or on the way there or back.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ledger) struct Away {
    regions: [u32; Zone::COUNT],
    way: Way,
    /// The regions for which room is the job's: all of them on the way, else none. Looked at with
    /// each lease.
    reserved: [u32; Zone::COUNT],
}

impl Away {
    /// Regions of a zone.
    pub(in crate::ledger) fn regions_of(&self, zone: Zone) -> u32 {
        self.regions[zone.index()]
    }

    /// All of them.
    pub(in crate::ledger) fn regions(&self) -> u32 {
        self.regions.iter().sum()
    }

    pub(in crate::ledger) fn is_empty(&self) -> bool {
        self.regions() == 0 && self.way == Way::Stays
    }

    /// Whether it is on its way, and room for it is the job's.
    pub(in crate::ledger) fn is_moving(&self) -> bool {
        self.way != Way::Stays
    }

    pub(in crate::ledger) fn is_going_out(&self) -> bool {
        self.way == Way::Out
    }

    pub(in crate::ledger) fn is_coming_back(&self) -> bool {
        self.way == Way::Back
    }

    /// Whether it is on the host, and others may have its room meanwhile.
    pub(in crate::ledger) fn is_absent(&self) -> bool {
        self.regions() > 0 && self.way == Way::Stays
    }

    /// Regions for which room is the job's.
    pub(in crate::ledger) fn reserved(&self) -> u32 {
        self.reserved.iter().sum()
    }

    /// The same of one zone.
    pub(in crate::ledger) fn reserved_of(&self, zone: Zone) -> u32 {
        self.reserved[zone.index()]
    }

    /// The job begins to go.
    pub(in crate::ledger) fn go(&mut self) {
        self.turn(Way::Out);
    }

    /// There is room for it to come back.
    pub(in crate::ledger) fn come_back(&mut self) {
        self.turn(Way::Back);
    }

    /// It is where it was to go.
    pub(in crate::ledger) fn arrive(&mut self) {
        self.turn(Way::Stays);
    }

    /// Others need not keep room any longer for one that does not come. Whether they did.
    pub(in crate::ledger) fn give_up_return(&mut self) -> bool {
        let came = self.way == Way::Back;
        if came {
            self.turn(Way::Stays);
        }
        came
    }

    fn turn(&mut self, way: Way) {
        self.way = way;
        self.reserved = if self.is_moving() { self.regions } else { Default::default() };
    }

    /// So many regions more are not on the device.
    pub(in crate::ledger) fn add(&mut self, zone: Zone, regions: u32) {
        let away = &mut self.regions[zone.index()];
        *away = away.saturating_add(regions);
        self.turn(self.way);
    }

    /// So many are there again.
    pub(in crate::ledger) fn take(&mut self, zone: Zone, regions: u32) {
        let away = &mut self.regions[zone.index()];
        *away = away.saturating_sub(regions);
        self.turn(self.way);
    }
}

impl Account {
    /// What others can never have for good: what persists or comes to persist, what the last
    /// iterations have begun with, what is reserved, and all that is to come back from the host.
    pub(in crate::ledger) fn always_keeps(&self) -> u32 {
        if !self.away.is_empty() {
            let all = self.leased_total().saturating_add(self.away.regions());
            return all.max(self.terms.floor);
        }
        self.comes_to_persist(Growth::default()).max(self.kept_for_good())
    }

    /// The same whoever comes back first: of a job that is preemptible what is reserved, of one whose
    /// iteration is interrupted what that leaves behind. The rest they have by turns.
    pub(in crate::ledger) fn kept_in_any_case(&self) -> u32 {
        let all = self.always_keeps();
        match () {
            () if self.is_preemptible() => self.terms.floor,
            () if self.is_interrupted() => {
                let left = self.all_persistent().saturating_add(self.predictor.carried());
                left.min(all).max(self.terms.floor)
            }
            () => all,
        }
    }

    /// Whether what it has beside that gives way to others that come back.
    pub(in crate::ledger) fn gives_way(&self) -> bool {
        self.is_preemptible() || self.is_interrupted() || self.is_to_be_interrupted()
    }

    /// What it has on the device, or what is reserved for it if that is more.
    pub(in crate::ledger) fn has_all(&self) -> u32 {
        self.leased_total().max(self.terms.floor)
    }

    /// What persists or comes to persist with what is asked for, or is reserved.
    pub(in crate::ledger) fn comes_to_persist(&self, asked: Growth) -> u32 {
        // What is learned to persist may be part of what it grows by in each iteration.
        let grows = self.grows();
        let more = if asked.told { asked.regions } else { asked.regions.saturating_sub(grows) };
        let persists = self.persistent().saturating_add(grows).saturating_add(more);
        persists.max(self.terms.floor)
    }
}
