//! A job's iteration as it runs: whether it may start, how far it has come, what it waits for.

use super::fairness::Bypasses;
use crate::learn::profile::Recorder;
use crate::types::units::{Progress, Ticks};
use crate::types::want::Growth;

/// A running iteration.
pub(super) struct Run {
    pub(super) began: Ticks,
    /// Time spent waiting for memory or for its pace, the current wait left out.
    pub(super) stalled: Ticks,
    /// Regions of iteration lifetime held when it began: it is not expected to give those back.
    pub(super) carried: u32,
    /// Regions that persisted when it began, and those leased since that the job said would.
    pub(super) persisted: u32,
    pub(super) told: u32,
    /// By how many regions what persists has grown without the job's word, at the most.
    pub(super) most: u32,
    /// The most regions that were leased while it ran,
    pub(super) total: u32,
    /// and the most of those that do not persist.
    pub(super) held: u32,
    /// By how many regions it has held more than its profile had promised from there on.
    pub(super) exceeded: u32,
    pub(super) recorder: Recorder,
    /// Part of it was not seen: nothing is learned from it.
    pub(super) is_partial: bool,
    /// How often it has been interrupted.
    pub(super) interruptions: u32,
}

pub(super) enum Phase {
    /// Between iterations.
    Idle,
    /// Has asked to start; how long that is expected to take, if the profiles tell.
    Waiting(Option<Ticks>),
    /// May start, and has not yet been told.
    Admitted,
    Running(Run),
}

impl Run {
    /// By how many regions what persists has grown without the job's word, if it is so much now.
    pub(super) fn grown(&self, persistent: u32) -> u32 {
        persistent.saturating_sub(self.persisted).saturating_sub(self.told)
    }

    /// By how many regions what persists has shrunk, if it is so much now.
    pub(super) fn shrunk(&self, persistent: u32) -> u32 {
        self.persisted.saturating_add(self.told).saturating_sub(persistent)
    }

    /// Time since the iteration's start without pauses, of which one may be under way.
    pub(super) fn elapsed(&self, now: Ticks, paused_since: Option<Ticks>) -> Ticks {
        paused_since
            .map_or(now, |since| since.min(now))
            .saturating_sub(self.began)
            .saturating_sub(self.stalled)
    }
}

/// A job was denied memory and has had none since, in an iteration or between two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    pub(super) since: Ticks,
    /// The ledger's epoch when it was last denied.
    pub(super) epoch: u64,
    /// What it asked for.
    pub(super) asked: Growth,
    /// How far the job had come. One that has come further does without.
    pub(super) at: Progress,
    /// Iterations of other jobs that have begun since.
    pub(super) bypassed: Bypasses,
    /// Something has not started, so that it gets what it waits for.
    pub(super) is_awaited: bool,
    /// Jobs that were let start where nobody could go on, since they might free something.
    pub(super) let_in: u32,
    /// Others have waited for it to ask again for as long as they have patience: not once more
    /// before it does.
    pub(super) given_up: bool,
    /// Nothing else is left: its iteration is to be [interrupted](super::interrupt).
    pub(super) gives_way: bool,
}

impl Stall {
    /// Whether nothing begins before it goes on.
    pub(super) fn is_overdue(self) -> bool {
        self.bypassed.is_overdue() && !self.given_up
    }

    /// Whether others wait until it goes on.
    pub(super) fn is_waited_for(self) -> bool {
        self.is_awaited || self.is_overdue()
    }
}
