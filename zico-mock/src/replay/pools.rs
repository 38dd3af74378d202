//! The pools of a replay: one that all jobs share, or one for each job on the same device.

use std::slice;

use zico_core::policy::Policy;
use zico_core::{Bytes, Pool, PoolError, Ticks};

use super::processes::Processes;
use super::{ReplayConfig, ReplayError};
use crate::{MockDevice, MockError};

/// What a replay under no policy is called.
pub(super) const UNMANAGED: &str = "unmanaged";

/// One pool under a policy, or one for each job. Then each may take the whole device, nothing is
/// handed over, and a job that finds the device taken gets the device's error.
pub(super) struct Pools {
    kind: Kind,
    policy: &'static str,
}

enum Kind {
    Shared(Pool<MockDevice>),
    /// One for each job, without a policy.
    Apart(Vec<Pool<MockDevice>>),
    /// One for each job, a process, at one broker.
    Processes(Box<Processes>),
}

impl Pools {
    /// The pools for so many jobs: one for each if there is no policy.
    pub(super) fn new(
        device: &MockDevice,
        policy: Option<Box<dyn Policy>>,
        jobs: usize,
        config: &ReplayConfig,
    ) -> Result<Self, PoolError<MockError>> {
        let name = policy.as_ref().map_or(UNMANAGED, |policy| policy.name());
        let pool = |policy| Pool::new(device.clone(), config.pool(policy));
        let kind = match policy {
            None => Kind::Apart((0..jobs.max(1)).map(|_| pool(None)).collect::<Result<_, _>>()?),
            Some(policy) if config.processes => {
                Kind::Processes(Box::new(Processes::new(device, policy, jobs, config)?))
            }
            policy => Kind::Shared(pool(policy)?),
        };
        Ok(Self { kind, policy: name })
    }

    fn processes(&self) -> Option<&Processes> {
        match &self.kind {
            Kind::Processes(processes) => Some(processes),
            _ => None,
        }
    }

    fn processes_mut(&mut self) -> Option<&mut Processes> {
        match &mut self.kind {
            Kind::Processes(processes) => Some(processes),
            _ => None,
        }
    }

    /// All that there are.
    fn all(&self) -> impl Iterator<Item = &Pool<MockDevice>> {
        let own = match &self.kind {
            Kind::Shared(pool) => slice::from_ref(pool),
            Kind::Apart(pools) => pools,
            Kind::Processes(_) => &[],
        };
        own.iter().chain(self.processes().into_iter().flat_map(Processes::pools))
    }

    /// Each process hears what the broker says.
    fn serve(&self) {
        self.processes().into_iter().for_each(Processes::serve);
    }

    /// The one that a job joins, if that is still there.
    pub(super) fn of(&self, job: usize) -> Option<&Pool<MockDevice>> {
        match &self.kind {
            Kind::Shared(pool) => Some(pool),
            Kind::Apart(pools) => pools.get(job),
            Kind::Processes(processes) => processes.pool(job),
        }
    }

    /// A job is to be gone at once. Whether it is a process of its own, which has been killed.
    pub(super) fn kill(&self, job: usize) -> bool {
        self.processes().map(|processes| processes.kill(job)).is_some()
    }

    /// The driver tears down a process that has died, of which the device has nothing left to do.
    pub(super) fn bury(&mut self, job: usize) -> Result<(), ReplayError> {
        self.processes_mut().map_or(Ok(()), |processes| processes.bury(job))
    }

    /// The policy's name.
    pub(super) fn policy(&self) -> &'static str {
        self.policy
    }

    /// The budget: that of each pool, and of the device.
    pub(super) fn budget(&self) -> Bytes {
        self.all().next().map_or(Bytes::ZERO, Pool::budget)
    }

    pub(super) fn region_size(&self) -> Bytes {
        self.all().next().map_or(Bytes::ZERO, Pool::region_size)
    }

    /// Changes whenever something has happened in any of them that a job may have waited for.
    pub(super) fn generation(&self) -> u32 {
        self.serve();
        let gone = self.processes().map_or(0, Processes::gone);
        self.all().map(Pool::generation).fold(gone, u32::wrapping_add)
    }

    /// When to poll next if nothing else happens.
    pub(super) fn poll_at(&self) -> Option<Ticks> {
        let processes = self.processes().and_then(Processes::poll_at);
        self.all().filter_map(Pool::poll_at).chain(processes).min()
    }

    pub(super) fn poll(&mut self, now: Ticks) -> Result<(), ReplayError> {
        self.processes_mut().map_or(Ok(()), |processes| processes.poll(now))?;
        self.serve();
        self.all().try_for_each(Pool::poll)?;
        self.serve();
        Ok(())
    }

    /// An error if a process has asked its broker for what no correct one would.
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        self.processes().map_or(Ok(()), Processes::check)
    }

    /// How many brokers have died.
    pub(super) fn restarts(&self) -> u64 {
        self.processes().map_or(0, Processes::restarts)
    }

    /// A job has left. What its own pool still holds goes back to the device, as the memory of a
    /// process that has ended does; a pool that others share keeps it for them.
    pub(super) fn has_left(&self, job: usize) -> Result<(), MockError> {
        if let Kind::Apart(pools) = &self.kind {
            pools[job].poll()?;
            pools[job].trim(Bytes::ZERO)?;
        }
        Ok(())
    }

    /// The books, for people to read.
    pub(super) fn books(&self) -> String {
        // Processes have the same books, those of the broker.
        let most = if self.processes().is_some() { 1 } else { usize::MAX };
        self.all().take(most).map(|pool| pool.snapshot().to_string()).collect()
    }
}
