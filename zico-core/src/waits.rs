//! Who waits for what, and for whom.

use alloc::vec::Vec;
use core::fmt;

use crate::account::Account;
use crate::device::Device;
use crate::ledger::Ledger;
use crate::region::JobKey;
use crate::run::Phase;
use crate::snapshot::Activity;
use crate::sync::Arc;
use crate::units::Bytes;

/// Which job of a pool. No two jobs of a pool ever have the same; in another pool it means nothing.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(crate) JobKey);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a job waits for.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// That its iteration may start.
    Start,
    /// Memory: so much has to be leased for what it asked for last.
    Memory(Bytes),
}

/// A job that others wait for.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocker {
    /// Which job.
    pub id: JobId,
    /// Its name.
    pub job: Arc<str>,
    /// What it does.
    pub activity: Activity,
    /// What is charged to it.
    pub held: Bytes,
}

/// A job that waits.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Which job.
    pub id: JobId,
    /// Its name.
    pub job: Arc<str>,
    /// What it waits for.
    pub awaited: Awaited,
    /// The other jobs that run an iteration, hold what they may still free, or have given up what the
    /// device has yet to pass, the one that has most first. None where it is only its turn that it waits
    /// for.
    pub blockers: Vec<Blocker>,
}

impl fmt::Display for Waiting {
    /// A sentence: "b waits for 8 MiB: a (Idle) holds 2 MiB".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.awaited {
            Awaited::Start => write!(f, "{} waits to start an iteration", self.job)?,
            Awaited::Memory(bytes) => write!(f, "{} waits for {bytes}", self.job)?,
        }
        for (i, Blocker { job, activity, held, .. }) in self.blockers.iter().enumerate() {
            let before = if i == 0 { ": " } else { "; " };
            write!(f, "{before}{job} ({activity:?}) holds {held}")?;
        }
        Ok(())
    }
}

impl<D: Device> Ledger<D> {
    /// The jobs that wait, in the order in which they joined.
    pub(crate) fn waits(&self) -> Vec<Waiting> {
        let waiting = |(&key, account): (&JobKey, &Account<D>)| {
            let bytes =
                |regions: u32| Bytes::new(u64::from(regions).saturating_mul(self.page_bytes));
            let awaited = match (&account.phase, account.awaited()) {
                (Phase::Waiting(_), _) => Awaited::Start,
                (_, Some(regions)) => Awaited::Memory(bytes(regions)),
                _ => return None,
            };
            let holds = |other: &Account<D>| {
                other.is_running() || other.holds_leftovers() || other.draining > 0
            };
            let others = self.accounts.iter().filter(|&(&other, _)| other != key);
            let mut blockers: Vec<Blocker> = others
                .filter(|(_, other)| holds(other))
                .map(|(&other, account)| Blocker {
                    id: JobId(other),
                    job: account.name.clone(),
                    activity: account.activity(),
                    held: bytes(account.charged()),
                })
                .collect();
            blockers.sort_by_key(|blocker| core::cmp::Reverse(blocker.held));
            Some(Waiting { id: JobId(key), job: account.name.clone(), awaited, blockers })
        };
        self.accounts.iter().filter_map(waiting).collect()
    }
}
