//! The event loop of a replay: jobs and the device take turns in virtual time.

use zico_core::policy::Policy;
use zico_core::{Bytes, Ticks};

use super::actor::Actor;
use super::elastic::Elastic;
use super::pacer::Pacer;
use super::pools::Pools;
use super::{GRANULARITY, JobOutcome, Outcome, PATIENCE, ReplayConfig, ReplayError, Wave, names};
use crate::trace::Trace;
use crate::{MockConfig, MockDevice, Operation};

/// The limit of rounds without progress at one moment ...
const VAIN_ROUNDS: u32 = 10_000;
/// ... and of those in which time goes by and no job goes on.
const IDLE_ROUNDS: u32 = 1_000_000;

/// A replay under way.
pub(super) struct Replay<'t> {
    device: MockDevice,
    pools: Pools,
    budget: Bytes,
    region: Bytes,
    actors: Vec<Actor<'t>>,
    wave: Wave,
    peak_live: Bytes,
    /// When each job had done its first iteration.
    settled: Option<Ticks>,
    /// Processes that have died and have yet to be torn down.
    killed: Vec<usize>,
    /// The pools' generation at the last retry of the waiting jobs.
    seen: u32,
    pacer: Option<Pacer>,
    elastic: Option<Elastic>,
    /// When the window closes at the latest.
    length: Option<Ticks>,
}

impl<'t> Replay<'t> {
    pub(super) fn new(
        policy: Option<Box<dyn Policy>>,
        traces: &[&'t Trace],
        config: &ReplayConfig,
    ) -> Result<Self, ReplayError> {
        let mock = MockConfig::new(config.budget).granularity(GRANULARITY).budget(config.budget);
        let device = MockDevice::new(mock)?;
        let pools = Pools::new(&device, policy, traces.len(), config)?;
        let mut actors = Vec::with_capacity(traces.len());
        for (i, (trace, name)) in traces.iter().zip(names(traces)).enumerate() {
            let tag = u32::try_from(i).unwrap_or(u32::MAX);
            let terms = config.jobs.get(i).cloned().unwrap_or_default();
            let Some(pool) = pools.of(i) else { continue };
            actors.push(Actor::new(tag, (name, terms), trace, config, pool)?);
        }
        let (budget, region) = (pools.budget(), pools.region_size());
        let mut elastic = Elastic::new(traces, config);
        elastic.iter_mut().for_each(|elastic| elastic.look(Ticks::ZERO, &mut actors));
        let seen = pools.generation();
        Ok(Self {
            device,
            pools,
            budget,
            region,
            actors,
            wave: Wave::new(),
            peak_live: Bytes::ZERO,
            settled: None,
            killed: Vec::new(),
            seen,
            pacer: Pacer::new(traces, config),
            elastic,
            length: config.length,
        })
    }

    pub(super) fn run(mut self, progress: &mut dyn FnMut(u64)) -> Result<Outcome, ReplayError> {
        let mut reported = 0;
        let (mut last, mut vain, mut idle) = ((Ticks::ZERO, 0), 0, 0);
        while !self.is_over() {
            let ready =
                |(i, actor): (usize, &Actor<'_>)| Some((actor.ready_at()?, actor.turns(), i));
            let next = self.actors.iter().enumerate().filter_map(ready).min();
            let completion = self.device.next_completion();
            let first = next.map(|(at, ..)| at).into_iter().chain(completion).min();
            match (next, completion) {
                _ if self.is_due(first) => self.tick()?,
                (Some((at, _, i)), completion)
                    if completion.is_none_or(|completion| at < completion) =>
                {
                    self.device.advance_to(at);
                    self.actors[i].step(at)?;
                    self.note(at);
                }
                (_, Some(completion)) => self.complete(completion)?,
                (_, None) => self.nudge()?,
            }
            let now = self.now();
            if let Some(pacer) = &mut self.pacer {
                pacer.look(now, &self.actors, &self.pools);
            }
            self.elastic.iter_mut().for_each(|elastic| elastic.look(now, &mut self.actors));
            self.wake();
            if self.settled.is_none() && self.actors.iter().all(|actor| actor.iterations() > 0) {
                self.settled = Some(self.now());
                self.actors.iter_mut().for_each(Actor::settle);
            }
            // Each round advances time or some job. Many rounds that do neither mean that waiting
            // jobs wake each other without progress; very many in which only time goes by, that
            // they go to the host and come back for ever.
            let point = (self.now(), self.actors.iter().map(Actor::steps).sum::<u64>());
            vain = if point == last { vain + 1 } else { 0 };
            idle = if point.1 == last.1 { idle + 1 } else { 0 };
            last = point;
            if vain > VAIN_ROUNDS || idle > IDLE_ROUNDS {
                return Err(self.deadlock());
            }
            self.check_patience()?;
            let done = self.actors.iter().map(Actor::iterations_wanted_done).sum();
            if done != reported {
                reported = done;
                progress(done);
            }
        }
        self.finish()
    }

    /// Whether the window closes: each job has done its iterations, but for those that are paced, or
    /// its time is over.
    fn is_over(&self) -> bool {
        let is_over = |(i, actor): (usize, &Actor<'_>)| actor.is_done() || self.is_paced(i);
        match self.length {
            Some(length) => self.now() >= length,
            None => self.actors.iter().enumerate().all(is_over),
        }
    }

    /// Whether a job is paced.
    fn is_paced(&self, job: usize) -> bool {
        self.pacer.as_ref().is_some_and(|pacer| pacer.paces(job))
            || self.elastic.as_ref().is_some_and(|elastic| elastic.paces(job))
    }

    /// What happens next by the clock alone.
    fn alarm(&self) -> Option<Ticks> {
        let window = self.pacer.as_ref().and_then(Pacer::next);
        let ends = self.actors.iter().filter_map(Actor::ends_at).min();
        [window, self.pools.poll_at(), self.length, ends].into_iter().flatten().min()
    }

    /// Whether that is before the first of all else.
    fn is_due(&self, first: Option<Ticks>) -> bool {
        self.alarm().is_some_and(|alarm| first.is_none_or(|first| alarm <= first))
    }

    /// Something happens by the clock alone.
    fn tick(&mut self) -> Result<(), ReplayError> {
        let Some(at) = self.alarm() else { return Ok(()) };
        let at = at.at_least(self.now());
        self.device.advance_to(at);
        self.end_some(at)?;
        self.pools.poll(at)
    }

    /// Jobs whose time is over leave, or are killed.
    fn end_some(&mut self, now: Ticks) -> Result<(), ReplayError> {
        let Self { actors, pools, killed, .. } = self;
        let over = |actor: &Actor<'_>| actor.ends_at().is_some_and(|at| at <= now);
        for (i, actor) in actors.iter_mut().enumerate().filter(|(_, actor)| over(actor)) {
            if pools.kill(i) {
                actor.stop()?;
                killed.push(i);
            } else {
                actor.leave()?;
            }
        }
        self.bury()
    }

    /// What killed processes had goes back, once the device has done what they gave it.
    fn bury(&mut self) -> Result<(), ReplayError> {
        for i in std::mem::take(&mut self.killed) {
            if self.actors[i].is_quiet()? {
                self.actors[i].leave()?;
                self.pools.bury(i)?;
            } else {
                self.killed.push(i);
            }
        }
        Ok(())
    }

    /// The device finishes a launch.
    fn complete(&mut self, at: Ticks) -> Result<(), ReplayError> {
        self.device.advance_to(at);
        for actor in &mut self.actors {
            actor.completed(at);
        }
        self.bury()?;
        // What one job's cap no longer covers goes back to the device, for the others.
        if self.elastic.is_some() || self.actors.iter().any(Actor::waits_for_pool) {
            self.pools.poll(at)?;
        }
        let mut left = self.actors.iter().enumerate().filter(|(_, actor)| actor.has_left());
        left.try_for_each(|(i, _)| self.pools.has_left(i))?;
        Ok(())
    }

    /// No job is ready and the device is idle: polls the pool for completed fences. If that changes
    /// nothing, the replay is deadlocked.
    fn nudge(&mut self) -> Result<(), ReplayError> {
        let before = self.pools.generation();
        self.pools.poll(self.now())?;
        if self.pools.generation() == before && self.seen == before {
            return Err(self.deadlock());
        }
        Ok(())
    }

    /// No job may wait for ever, however busy the others are. One that is paced may, for as long as
    /// they run.
    fn check_patience(&mut self) -> Result<(), ReplayError> {
        let total = self.actors.iter().map(Actor::iterations).sum();
        for job in 0..self.actors.len() {
            if self.actors[job].has_waited(total) > PATIENCE && !self.is_paced(job) {
                let (job, snapshot) = (self.actors[job].name().to_owned(), self.pools.books());
                return Err(ReplayError::Starved { job, snapshot });
            }
        }
        Ok(())
    }

    fn deadlock(&self) -> ReplayError {
        ReplayError::Deadlock { at: self.now(), snapshot: self.pools.books() }
    }

    /// Lets jobs that wait for the pool retry if it has changed.
    fn wake(&mut self) {
        let generation = self.pools.generation();
        if generation != self.seen {
            self.seen = generation;
            let now = self.now();
            self.actors.iter_mut().for_each(|actor| actor.look_again(now));
        }
    }

    fn now(&self) -> Ticks {
        zico_core::Device::now(&self.device)
    }

    fn note(&mut self, now: Ticks) {
        let live =
            self.actors.iter().fold(Bytes::ZERO, |sum, actor| sum.saturating_add(actor.live()));
        self.peak_live = self.peak_live.at_least(live);
        self.wave.note(now, self.actors.iter().map(|actor| actor.held().total()));
    }

    /// Closes the window, lets all jobs leave, and collects the figures.
    fn finish(mut self) -> Result<Outcome, ReplayError> {
        let window = self.now();
        let steps = self.actors.iter().map(Actor::steps).sum();
        let traffic = self.actors.iter().map(Actor::overflowed);
        let traffic = traffic.fold(self.device.host_traffic(), |(out, back), (more, again)| {
            (out.saturating_add(more), back.saturating_add(again))
        });
        let finished = self.actors.into_iter().map(|actor| actor.finish(window));
        let jobs: Vec<JobOutcome> = finished.collect::<Result<_, _>>()?;
        self.device.run_until_idle();
        self.pools.poll(zico_core::Device::now(&self.device))?;
        self.pools.check()?;
        let calls = self.device.calls();
        let memory = [Operation::Create, Operation::Destroy, Operation::Map, Operation::Unmap];
        Ok(Outcome {
            policy: self.pools.policy(),
            budget: self.budget,
            traffic,
            region: self.region,
            window,
            settled: self.settled,
            peak_held: self.device.usage().peak_physical,
            peak_live: self.peak_live,
            violations: self.device.violations(),
            violation_count: self.device.violation_count(),
            steps,
            memory_calls: memory.iter().map(|&operation| calls.of(operation)).sum(),
            restarts: self.pools.restarts(),
            jobs,
            wave: self.wave,
        })
    }
}
