//! What is expected of a job, from its predictor and from what it holds.

use super::Account;
use crate::learn::profile::Profile;
use crate::types::sync::Arc;
use crate::types::tuning::LEARNING;

impl Account {
    /// What persists, but for what was an iteration's own before: how long that lives has been
    /// learned.
    pub(super) fn settled(&self) -> i64 {
        i64::from(self.all_persistent()) - i64::from(self.shifted_by_now())
    }

    /// The most that an iteration of the job is known to take, what persists included.
    pub(in crate::ledger) fn largest(&self) -> Option<u32> {
        self.predictor.largest(self.all_persistent(), self.settled())
    }

    /// The most that its running iteration comes to hold, what persists included, if that is known.
    pub(super) fn in_all(&self) -> Option<u32> {
        self.predictor.in_all(self.settled())
    }

    /// What its next iteration takes for sure, what persists included, if that is known.
    pub(in crate::ledger) fn surely(&self) -> Option<u32> {
        self.predictor.surely(self.settled())
    }

    /// What its iterations take, for a policy. Nothing while one of the first runs and lifetimes are
    /// being learned: so nothing starts beside it that goes by profiles. What it takes nobody knows,
    /// and what starts may turn out to be of a new kind itself: then each of them needs all.
    pub(in crate::ledger) fn profile_to_go_by(&self) -> Option<&Arc<Profile>> {
        let is_among_first = self.is_running() && self.iterations < LEARNING;
        let tells_little = is_among_first && self.predictor.is_learning();
        self.predictor.profile().filter(|_| !tells_little)
    }

    /// The most regions that the running iteration may still come to hold, beside the persistent
    /// ones, as far as its profile tells and with the margin that its iterations have shown to
    /// need.
    pub(in crate::ledger) fn ahead(&self) -> Option<u32> {
        self.predictor.ahead(self.progress())
    }

    /// The most that its profile says it will hold from here on.
    pub(in crate::ledger) fn promised(&self) -> Option<u32> {
        let tells = self.iterations > 1 && !self.predictor.is_learning();
        self.predictor.promised(self.progress()).filter(|_| tells)
    }

    /// The most that an iteration of it holds, as far as is known, what persists included. What a
    /// running one comes to hold of which nothing is known is whatever there is.
    pub(in crate::ledger) fn comes_to(&self) -> u32 {
        self.largest().unwrap_or(if self.is_running() { u32::MAX } else { 0 })
    }

    /// Notes by how much the running iteration, which has leased something, exceeds its promise.
    /// What the first iteration has shown promises nothing yet: it is the one that makes what
    /// persists.
    pub(in crate::ledger) fn note_excess(&mut self) {
        let excess =
            self.promised().map_or(0, |promised| self.ephemeral().saturating_sub(promised));
        if let Some(run) = self.run() {
            run.exceeded = run.exceeded.max(excess);
        }
    }
}
