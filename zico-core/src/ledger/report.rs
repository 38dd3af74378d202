//! The books as they stand, for people.

use super::Ledger;
use super::account::Account;
use crate::learn::profile::Profile;
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::report::{BudgetStatus, Held, Holder, JobSnapshot, Snapshot};
use crate::types::sync::Arc;
use crate::types::units::{Bytes, Regions};

impl Account {
    /// All but what the job itself knows of its blocks.
    fn snapshot(&self, job: JobKey, region: Bytes) -> JobSnapshot {
        JobSnapshot {
            name: self.name.clone(),
            activity: self.activity(),
            held: self.held(region),
            stats: self.stats(region),
            iterations: self.iterations,
            claim: self.ahead().map(|ahead| Regions::new(ahead).bytes(region)),
            ..JobSnapshot::gone(JobId(job))
        }
    }
}

impl Ledger {
    /// The size of a region.
    pub(crate) fn region(&self) -> Bytes {
        Bytes::new(self.page_bytes)
    }

    /// So many regions in bytes.
    pub(super) fn bytes(&self, regions: u64) -> Bytes {
        Bytes::new(regions.saturating_mul(self.page_bytes))
    }

    /// All but what the jobs themselves know of their blocks.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let region = self.region();
        let job = |(&key, account): (&JobKey, &Account)| account.snapshot(key, region);
        Snapshot {
            budget: self.budget(),
            held: self.bytes(self.created() as u64),
            free: self.bytes((self.regions.idle_count() + self.retiring) as u64),
            counts: self.counts,
            jobs: self.accounts.iter().map(job).collect(),
        }
    }

    /// The same of one job. Of one that has gone there is nothing to say.
    pub(crate) fn job_snapshot(&self, job: JobKey) -> JobSnapshot {
        let snapshot = self.accounts.get(&job).map(|account| account.snapshot(job, self.region()));
        snapshot.unwrap_or_else(|| JobSnapshot::gone(JobId(job)))
    }

    /// A job and what is charged to it.
    pub(super) fn holder(&self, (&job, account): (&JobKey, &Account)) -> Holder {
        Holder {
            id: JobId(job),
            job: account.name.clone(),
            activity: account.activity(),
            held: account.held(self.region()),
        }
    }

    /// What is charged to a job.
    pub(crate) fn held(&self, job: JobKey) -> Held {
        self.accounts.get(&job).map(|account| account.held(self.region())).unwrap_or_default()
    }

    /// A job's name; none for one that has gone.
    pub(crate) fn name(&self, job: JobKey) -> Arc<str> {
        self.accounts.get(&job).map_or_else(|| "".into(), |account| account.name.clone())
    }

    /// What a job's next or running iteration is expected to take.
    pub(crate) fn profile(&self, job: JobKey) -> Option<Arc<Profile>> {
        self.accounts.get(&job)?.predictor.profile().cloned()
    }

    /// Whether the running iteration of a job that does not mark it may be taken to have ended.
    pub(crate) fn may_turn(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(Account::may_turn)
    }

    /// How far the budget is from what it is to be.
    pub(crate) fn budget_status(&self) -> BudgetStatus {
        let held = self.bytes(self.created() as u64);
        let pending = self.bytes(u64::from(self.limit.max(self.open) - self.target));
        BudgetStatus { target: self.budget(), held, pending }
    }

    /// The budget: whole regions.
    pub(crate) fn budget(&self) -> Bytes {
        self.bytes(self.target.into())
    }
}
