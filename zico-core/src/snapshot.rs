//! What a pool holds and for whom, for people and for reports.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::account::Account;
use crate::device::Device;
use crate::ledger::Ledger;
use crate::lifetime::Lifetime;
use crate::region::{Region, State};
use crate::units::Bytes;

/// What is charged to one job, in whole regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Leased for persistent blocks.
    pub persistent: Bytes,
    /// Leased for the iteration's blocks.
    pub iteration: Bytes,
    /// Leased for temporaries.
    pub transient: Bytes,
    /// Given up, and not yet passed by the device.
    pub draining: Bytes,
    /// The most that has been charged to the job at one time.
    pub peak: Bytes,
    /// The most that it has leased at one time: without what was draining, which depends on the
    /// device's pace, it is the same whoever runs beside it.
    pub peak_leased: Bytes,
}

impl Held {
    pub(crate) fn of<D: Device>(account: &Account<D>, region: Bytes) -> Self {
        let bytes = |regions: u32| Bytes::new(u64::from(regions) * region.value());
        let leased = |lifetime: Lifetime| bytes(account.leased[lifetime.index()]);
        Self {
            persistent: leased(Lifetime::Persistent),
            iteration: leased(Lifetime::Iteration),
            transient: leased(Lifetime::Transient),
            draining: bytes(account.draining),
            peak: bytes(account.peak),
            peak_leased: bytes(account.peak_leased),
        }
    }

    /// All of it now.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.persistent
            .saturating_add(self.iteration)
            .saturating_add(self.transient)
            .saturating_add(self.draining)
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Nothing: it is between iterations.
    #[default]
    Idle,
    /// Waits for its iteration to start.
    Waiting,
    /// Runs an iteration.
    Running,
    /// Waits for memory within an iteration.
    Stalled,
    /// Has left, and the device has yet to pass what it held.
    Left,
}

/// One job in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSnapshot {
    /// Its name.
    pub name: String,
    /// What it does.
    pub activity: Activity,
    /// What is charged to it.
    pub held: Held,
    /// Iterations that have ended.
    pub iterations: u64,
}

/// A pool's books at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What the pool may hold at most.
    pub budget: Bytes,
    /// What it holds: the regions created on the device.
    pub held: Bytes,
    /// Created, and nobody's.
    pub free: Bytes,
    /// The jobs, in the order in which they joined.
    pub jobs: Vec<JobSnapshot>,
}

impl Snapshot {
    pub(crate) fn of<D: Device>(ledger: &Ledger<D>) -> Self {
        let region = Bytes::new(ledger.page_bytes);
        let bytes = |regions: usize| Bytes::new(regions as u64 * ledger.page_bytes);
        let idle = |region: &&Region<D::Memory>| {
            (region.state == State::Free && region.memory.is_some())
                || region.state == State::Retiring
        };
        let free = ledger.regions.iter().filter(idle).count();
        let job = |account: &Account<D>| JobSnapshot {
            name: account.name.clone(),
            activity: account.activity(),
            held: Held::of(account, region),
            iterations: account.iterations,
        };
        Self {
            budget: bytes(ledger.regions.len()),
            held: bytes(ledger.created()),
            free: bytes(free),
            jobs: ledger.accounts.values().map(job).collect(),
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "budget {}, held {}, free {}", self.budget, self.held, self.free)?;
        for job in &self.jobs {
            let held = &job.held;
            writeln!(
                f,
                "  {}: {:?}, {} iterations, holds {} (persistent {}, iteration {}, transient {}, \
                 draining {})",
                job.name,
                job.activity,
                job.iterations,
                held.total(),
                held.persistent,
                held.iteration,
                held.transient,
                held.draining,
            )?;
        }
        Ok(())
    }
}
