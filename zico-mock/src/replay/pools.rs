//! The pools of a replay: one that all jobs share, or one for each job on the same device.

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
    /// At least one, but for those of processes that have been torn down.
    all: Vec<Option<Pool<MockDevice>>>,
    /// Of these the generations.
    gone: u32,
    policy: &'static str,
    shared: bool,
    /// If each job is one.
    processes: Option<Processes>,
}

impl Pools {
    /// The pools for so many jobs: one for each if there is no policy.
    pub(super) fn new(
        device: &MockDevice,
        policy: Option<Box<dyn Policy>>,
        jobs: usize,
        config: &ReplayConfig,
    ) -> Result<Self, PoolError<MockError>> {
        let (name, shared) = (policy.as_ref().map(|policy| policy.name()), policy.is_some());
        let name = name.unwrap_or(UNMANAGED);
        if shared && config.processes {
            let processes = Processes::new(device, policy, jobs, config)?;
            let all = processes.pools();
            let all = all.into_iter().map(Some).collect();
            return Ok(Self { all, gone: 0, policy: name, shared, processes: Some(processes) });
        }
        let pool = |policy| Pool::new(device.clone(), config.pool(policy));
        let more = if shared { 0 } else { jobs.saturating_sub(1) };
        let mut all = vec![Some(pool(policy)?)];
        for _ in 0..more {
            all.push(Some(pool(None)?));
        }
        Ok(Self { all, gone: 0, policy: name, shared, processes: None })
    }

    /// Each process hears what the broker says.
    fn serve(&self) {
        self.processes.iter().for_each(Processes::serve);
    }

    /// The one that a job joins, if that is still there.
    pub(super) fn of(&self, job: usize) -> Option<&Pool<MockDevice>> {
        self.all[if self.shared && self.processes.is_none() { 0 } else { job }].as_ref()
    }

    fn all(&self) -> impl Iterator<Item = &Pool<MockDevice>> {
        self.all.iter().flatten()
    }

    /// A job is to be gone at once. Whether it is a process of its own, which has been killed.
    pub(super) fn kill(&self, job: usize) -> bool {
        self.processes.iter().for_each(|processes| processes.kill(job));
        self.processes.is_some()
    }

    /// The driver tears down a process that has died, of which the device has nothing left to do.
    pub(super) fn bury(&mut self, job: usize) -> Result<(), ReplayError> {
        let Some(processes) = &mut self.processes else { return Ok(()) };
        if let Some(pool) = self.all[job].take() {
            self.gone = self.gone.wrapping_add(pool.generation()).wrapping_add(1);
        }
        processes.bury(job)
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
        self.all().map(Pool::generation).fold(self.gone, u32::wrapping_add)
    }

    /// When to poll next if nothing else happens.
    pub(super) fn poll_at(&self) -> Option<Ticks> {
        let processes = self.processes.as_ref().and_then(Processes::poll_at);
        self.all().filter_map(Pool::poll_at).chain(processes).min()
    }

    pub(super) fn poll(&mut self, now: Ticks) -> Result<(), ReplayError> {
        self.processes.iter_mut().try_for_each(|processes| processes.poll(now))?;
        self.serve();
        self.all().try_for_each(Pool::poll)?;
        self.serve();
        Ok(())
    }

    /// An error if a process has asked its broker for what no correct one would.
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        self.processes.as_ref().map_or(Ok(()), Processes::check)
    }

    /// How many brokers have died.
    pub(super) fn restarts(&self) -> u64 {
        self.processes.as_ref().map_or(0, Processes::restarts)
    }

    /// A job has left. What its own pool still holds goes back to the device, as the memory of a
    /// process that has ended does; a pool that others share keeps it for them.
    pub(super) fn has_left(&self, job: usize) -> Result<(), MockError> {
        if let Some(pool) = self.of(job).filter(|_| !self.shared) {
            pool.poll()?;
            pool.trim(Bytes::ZERO)?;
        }
        Ok(())
    }

    /// The books, for people to read.
    pub(super) fn books(&self) -> String {
        let most = if self.processes.is_some() { 1 } else { usize::MAX };
        self.all().take(most).map(|pool| pool.snapshot().to_string()).collect()
    }
}
