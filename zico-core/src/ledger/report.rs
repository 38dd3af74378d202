//! The books as they stand, for people.

use super::Ledger;
use super::account::Account;
use crate::learn::profile::Profile;
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::report::{BudgetStatus, Holder, JobSnapshot, Snapshot};
use crate::types::sync::Arc;
use crate::types::units::{Bytes, Regions};

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
        Snapshot {
            budget: self.budget(),
            held: self.bytes(self.created() as u64),
            free: self.bytes((self.regions.idle_count() + self.retiring) as u64),
            counts: self.counts,
            jobs: self.accounts.iter().map(|(&job, account)| self.job_of(job, account)).collect(),
        }
    }

    /// The same of one job, if it is there.
    pub(crate) fn job(&self, job: JobKey) -> Option<JobSnapshot> {
        Some(self.job_of(job, self.accounts.get(&job)?))
    }

    fn job_of(&self, job: JobKey, account: &Account) -> JobSnapshot {
        let region = self.region();
        JobSnapshot {
            name: account.name.clone(),
            activity: account.activity(),
            held: account.held(region),
            stats: account.stats(region),
            iterations: account.iterations,
            claim: account.ahead().map(|ahead| Regions::new(ahead).bytes(region)),
            ..JobSnapshot::gone(JobId(job))
        }
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
