//! The pools of a replay: one that all jobs share, or one for each job on the same device.

use zico_core::policy::Policy;
use zico_core::{Bytes, Pool, PoolConfig, PoolError, Ticks};

use super::ReplayConfig;
use crate::{MockBroker, MockClient, MockDevice, MockError};

/// What a replay under no policy is called.
pub(super) const UNMANAGED: &str = "unmanaged";

/// One pool under a policy, or one for each job. Then each may take the whole device, nothing is
/// handed over, and a job that finds the device taken gets the device's error.
pub(super) struct Pools {
    /// At least one.
    all: Vec<Pool<MockDevice>>,
    policy: &'static str,
    shared: bool,
    /// Where the books are, and the processes, if each job is one.
    broker: Option<(MockBroker, Vec<MockClient>)>,
}

impl Pools {
    /// The pools for so many jobs: one for each if there is no policy.
    pub(super) fn new(
        device: &MockDevice,
        policy: Option<Box<dyn Policy>>,
        jobs: usize,
        config: &ReplayConfig,
    ) -> Result<Self, PoolError<MockError>> {
        let settings = |policy| {
            let mut pool = PoolConfig::new(config.budget)
                .hand_over(config.hand_over)
                .fewest_calls(config.fewest_calls);
            if let Some(region) = config.region {
                pool = pool.region_size(region);
            }
            if let Some(policy) = policy {
                pool = pool.policy(policy);
            }
            pool
        };
        let (name, shared) = (policy.as_ref().map(|policy| policy.name()), policy.is_some());
        if shared && config.processes {
            let (name, policy) = (name.unwrap_or(UNMANAGED), settings(policy));
            return Self::of_processes(device, policy, jobs, name);
        }
        let pool = |policy| Pool::new(device.clone(), settings(policy));
        let more = if shared { 0 } else { jobs.saturating_sub(1) };
        let mut all = vec![pool(policy)?];
        for _ in 0..more {
            all.push(pool(None)?);
        }
        Ok(Self { all, policy: name.unwrap_or(UNMANAGED), shared, broker: None })
    }

    /// A pool for each job, all at one broker.
    fn of_processes(
        device: &MockDevice,
        config: PoolConfig,
        jobs: usize,
        policy: &'static str,
    ) -> Result<Self, PoolError<MockError>> {
        let broker = MockBroker::new(device.clone(), config)?;
        let clients = (0..jobs.max(1)).map(|_| broker.connect());
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        // A process has a thread that hears the broker while another one asks.
        for (client, every) in clients.iter().zip((3..=5).cycle()) {
            let mut asked = 0_u32;
            client.hear_while_asking(move || {
                asked = asked.wrapping_add(1);
                asked.is_multiple_of(every)
            });
        }
        let all = clients.iter().map(|client| client.pool().clone()).collect();
        Ok(Self { all, policy, shared: true, broker: Some((broker, clients)) })
    }

    /// Each process hears what the broker says.
    fn serve(&self) {
        let clients = self.broker.iter().flat_map(|(_, clients)| clients);
        clients.for_each(MockClient::serve);
    }

    /// The one that a job joins.
    pub(super) fn of(&self, job: usize) -> &Pool<MockDevice> {
        &self.all[if self.shared && self.broker.is_none() { 0 } else { job }]
    }

    /// The policy's name.
    pub(super) fn policy(&self) -> &'static str {
        self.policy
    }

    /// The budget: that of each pool, and of the device.
    pub(super) fn budget(&self) -> Bytes {
        self.all[0].budget()
    }

    pub(super) fn region_size(&self) -> Bytes {
        self.all[0].region_size()
    }

    /// Changes whenever something has happened in any of them that a job may have waited for.
    pub(super) fn generation(&self) -> u32 {
        self.serve();
        self.all.iter().map(Pool::generation).fold(0, u32::wrapping_add)
    }

    /// When to poll next if nothing else happens.
    pub(super) fn poll_at(&self) -> Option<Ticks> {
        let broker = self.broker.as_ref().and_then(|(broker, _)| broker.look_at());
        self.all.iter().filter_map(Pool::poll_at).chain(broker).min()
    }

    pub(super) fn poll(&self) -> Result<(), MockError> {
        self.broker.iter().for_each(|(broker, _)| broker.look());
        self.serve();
        self.all.iter().try_for_each(Pool::poll)?;
        self.serve();
        Ok(())
    }

    /// A job has left. What its own pool still holds goes back to the device, as the memory of a
    /// process that has ended does; a pool that others share keeps it for them.
    pub(super) fn has_left(&self, job: usize) -> Result<(), MockError> {
        if !self.shared {
            self.all[job].poll()?;
            self.all[job].trim(Bytes::ZERO)?;
        }
        Ok(())
    }

    /// The books, for people to read.
    pub(super) fn books(&self) -> String {
        let books = if self.broker.is_some() { &self.all[..1] } else { &self.all };
        books.iter().map(|pool| pool.snapshot().to_string()).collect()
    }
}
