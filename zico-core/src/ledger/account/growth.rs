//! By how much what persists grows within an iteration without the job's word.
//!
//! Where lifetimes are learned, what outlives an iteration persists, as far as is known. Gradients
//! may live until the next iteration begins: so they come to persist in each iteration, and go when
//! it is over. That is part of what an iteration takes, and it is not kept for good.

use super::super::run::Phase;
use super::Account;

impl Account {
    /// What has come to persist within the running iteration, or the last one, without the job's
    /// word: it may go again when the next one begins.
    pub(in crate::ledger) fn lately_grown(&self) -> u32 {
        match &self.phase {
            Phase::Running(run) => run.grown(self.persistent()),
            _ => self.grew,
        }
    }

    /// What has come to persist within iterations without the job's word and is still there, the
    /// running one included.
    pub(in crate::ledger) fn shifted_by_now(&self) -> u32 {
        let Phase::Running(run) = &self.phase else { return self.shifted };
        let persistent = self.persistent();
        let with = self.shifted.saturating_add(run.grown(persistent));
        with.saturating_sub(run.shrunk(persistent))
    }

    /// What the running claim is added to: what persisted at its start, what the job has said
    /// since, and the growth of the last iterations. Growth beyond theirs is in the place of what
    /// was an iteration's own before.
    pub(in crate::ledger) fn base(&self) -> u32 {
        let persisted = match &self.phase {
            Phase::Running(run) => run.persisted.saturating_add(run.told),
            _ => self.persistent(),
        };
        persisted.saturating_add(self.grows_in_each())
    }

    /// By how many regions what persists may still grow within the running iteration without the
    /// job's word, as it has in the last ones.
    pub(in crate::ledger) fn grows(&self) -> u32 {
        match &self.phase {
            Phase::Running(run) => {
                self.grows_in_each().saturating_sub(run.grown(self.persistent()))
            }
            Phase::Admitted => self.grows_in_each(),
            Phase::Idle | Phase::Waiting(_) => 0,
        }
    }

    /// By how many regions what persists has grown within the last iterations. While lifetimes are
    /// being learned that tells nothing: the optimizer's state comes once.
    pub(in crate::ledger) fn grows_in_each(&self) -> u32 {
        if self.predictor.is_learning() { 0 } else { self.growth.most() }
    }
}
