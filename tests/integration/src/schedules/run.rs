//! Runs the jobs of a setup, one step at a time, and checks the answers.

use std::cell::RefCell;
use std::sync::Arc;

use fastrand::Rng;
use zico_core::{Block, Bytes, Device as _, Pool, PoolConfig, Ticks};
use zico_mock::{Claim, MockConfig, MockDevice, MockStream};

use super::script::Op;
use super::{Failure, Kind, Setup};
use crate::between::Between;
use crate::handle::Handle;
use crate::waves::{REGION, regions};

pub(super) type Dev = Between<MockDevice>;

/// As long as others wait for a job that does nothing.
const PATIENCE: Ticks = Ticks::millis(60_000);

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Calls made.
    pub steps: u64,
    /// Jobs that were told that there is no memory, where there was not enough.
    pub told: u32,
    /// Jobs that were told so when their iteration took more than any before, while others ran.
    pub excused: u32,
    /// Calls that had to wait while their job's iteration was interrupted, its memory on the host.
    pub interrupted: u64,
}

/// A live block.
pub(super) struct Live {
    pub(super) block: Block,
    /// None while the job goes to the host, is there, or comes back.
    pub(super) claim: Option<Claim>,
    pub(super) elsewhere: bool,
    pub(super) cost: u64,
    pub(super) stays: bool,
}

/// The result of a step.
pub(super) enum Done {
    Yes,
    /// Not now: to be asked again when the generation is another than this.
    Wait(u32, String),
    /// The same, because of its pace.
    Rest(u32),
    /// Not now, because of the device.
    Later,
    /// Refused for good.
    Told(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Goes,
    Sleeps,
    Over,
}

/// One job.
pub(super) struct Actor {
    pub(super) at: usize,
    pub(super) state: State,
    pub(super) job: Option<Arc<Handle<Dev>>>,
    pub(super) stream: MockStream,
    pub(super) side: MockStream,
    pub(super) slots: Vec<Option<Live>>,
    /// To be freed by another thread.
    pub(super) given: Vec<Live>,
    /// The generation at which it was told to wait, and what it was told.
    pub(super) waits: Option<(u32, String)>,
    pub(super) inside: bool,
    pub(super) iterations: u32,
    /// What it holds beside what persists, and the most of that in its iterations so far, in
    /// regions.
    pub(super) now: u64,
    pub(super) shown: u64,
    pub(super) most: u64,
    /// The step at which its stream takes events again.
    pub(super) mute: Option<u64>,
}

pub(super) struct Run<'a> {
    pub(super) setup: &'a Setup,
    pub(super) rng: Rng,
    pub(super) device: MockDevice,
    pub(super) pool: Pool<Dev>,
    pub(super) actors: Vec<Actor>,
    pub(super) trace: Option<RefCell<&'a mut Vec<String>>>,
    pub(super) outcome: Outcome,
    /// The most that may be held, since the budget was changed last.
    pub(super) most: Bytes,
}

/// Runs a setup to its end.
pub(super) fn run(setup: &Setup, trace: Option<&mut Vec<String>>) -> Result<Outcome, Failure> {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(4))).unwrap();
    let config = PoolConfig::new(regions(setup.budget)).region_size(REGION);
    let config = config.policy(setup.policy()).hand_over(setup.hand_over);
    let config = config.fewest_calls(setup.fewest_calls);
    let pool = Pool::new(Between::new(device.clone()), config).unwrap();
    let actors = setup.scripts.iter().map(|_| Actor {
        at: 0,
        state: State::Goes,
        job: None,
        stream: device.add_stream(),
        side: device.add_stream(),
        slots: Vec::new(),
        given: Vec::new(),
        waits: None,
        inside: false,
        iterations: 0,
        now: 0,
        shown: 0,
        most: 0,
        mute: None,
    });
    let actors = actors.collect();
    let (rng, most) = (Rng::with_seed(setup.seed ^ 0x5eed), regions(setup.budget));
    let (outcome, trace) = (Outcome::default(), trace.map(RefCell::new));
    let mut run = Run { setup, rng, device, pool, actors, trace, outcome, most };
    run.go()?;
    run.end()
}

impl Run<'_> {
    fn go(&mut self) -> Result<(), Failure> {
        let ops: usize = self.setup.scripts.iter().map(|script| script.ops.len() + 3).sum();
        let most = 400 * ops as u64;
        let mut vain = 0;
        loop {
            self.outcome.steps += 1;
            if self.outcome.steps > most {
                return Err(self.failure(Kind::Endless, format!("{most} steps")));
            }
            self.unmute(false);
            let generation = self.pool.generation();
            let ready = |actor: &Actor| {
                actor.state == State::Goes
                    && actor.waits.as_ref().is_none_or(|&(seen, _)| seen != generation)
            };
            let count = self.actors.iter().filter(|actor| ready(actor)).count();
            if count == 0 {
                if self.actors.iter().all(|actor| actor.state == State::Over) {
                    return Ok(());
                }
                if self.something_else_happens(&mut vain)? {
                    continue;
                }
                let in_vain = (0..self.actors.len()).find(|&who| self.waits_in_vain(who));
                if let Some(who) = in_vain {
                    self.outcome.told += 1;
                    self.leave(who);
                    continue;
                }
                return Err(self.hang());
            }
            let nth = self.rng.usize(..count);
            let who = (0..self.actors.len()).filter(|&who| ready(&self.actors[who])).nth(nth);
            self.step(who.unwrap_or(0))?;
            self.meanwhile()?;
            self.check()?;
            vain = 0;
        }
    }

    /// No job can go on: advances the device and muted streams. False if nothing is left to happen.
    fn something_else_happens(&mut self, vain: &mut u32) -> Result<bool, Failure> {
        if let Some(who) = self.actors.iter().position(|actor| !actor.given.is_empty()) {
            self.free_given(who);
            *vain = 0;
            return Ok(true);
        }
        if self.unmute(true) {
            *vain = 0;
            return Ok(true);
        }
        if let Some(moment) = self.device.next_completion() {
            self.device.advance_to(moment);
            self.poll()?;
            *vain = 0;
            return Ok(true);
        }
        if let Some(moment) = self.pool.poll_at() {
            self.device.advance_to(moment);
            self.poll()?;
            *vain = 0;
            return Ok(true);
        }
        if *vain < 3 {
            *vain += 1;
            self.poll()?;
            return Ok(true);
        }
        let all_else_is_over = self.actors.iter().all(|actor| actor.state != State::Goes);
        let sleeper = self.actors.iter().position(|actor| actor.state == State::Sleeps);
        if let Some(who) = sleeper.filter(|_| all_else_is_over || !self.setup.enough) {
            self.note(|| format!("job {who} wakes up"));
            self.actors[who].state = State::Goes;
            *vain = 0;
            return Ok(true);
        }
        // For a job that does nothing others wait only as long as the pool has patience.
        if *vain < 6 {
            *vain += 1;
            self.device.advance_to(self.device.now().saturating_add(PATIENCE));
            self.poll()?;
            return Ok(true);
        }
        // Lets a job ask again although the generation has not changed: it must not succeed.
        for who in 0..self.actors.len() {
            if self.actors[who].state != State::Goes {
                continue;
            }
            let (at, told) = (self.actors[who].at, self.outcome.told + self.outcome.excused);
            self.step(who)?;
            if self.actors[who].at != at || self.outcome.told + self.outcome.excused != told {
                let text = format!("job {who} asked again without reason, and got an answer");
                return Err(self.failure(Kind::NotWoken, text));
            }
        }
        Ok(false)
    }

    /// Now and then, beside the jobs' own steps.
    fn meanwhile(&mut self) -> Result<(), Failure> {
        match self.rng.u8(..32) {
            0..3 => self.poll()?,
            3..6 => {
                let micros = self.rng.u64(1..300);
                self.device.advance_to(self.device.now().saturating_add(Ticks::micros(micros)));
            }
            6..9 => {
                let who = self.rng.usize(..self.actors.len());
                if !self.actors[who].given.is_empty() {
                    self.free_given(who);
                }
            }
            9 if self.setup.changes => {
                let budget = regions(self.setup.budget + self.rng.u64(..=self.setup.budget));
                let before = self.pool.budget_status();
                let set = self.pool.set_budget(budget);
                self.note(|| format!("set_budget({budget}): {set:?}"));
                if let Ok(status) = set {
                    self.most =
                        before.target.saturating_add(before.pending).at_least(status.target);
                }
            }
            10 if self.rng.u8(..4) == 0 => {
                let target = regions(self.rng.u64(..=self.setup.budget));
                let held = self.pool.trim(target);
                self.note(|| format!("trim({target}): {held:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Failure> {
        let polled = self.pool.poll();
        self.note(|| format!("poll at {}: {polled:?}", self.device.now()));
        match polled {
            Err(error) if self.actors.iter().all(|actor| actor.mute.is_none()) => {
                Err(self.failure(Kind::Device, format!("poll: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Streams whose time has come, or all, take events again. Whether there was one.
    fn unmute(&mut self, all: bool) -> bool {
        let mut any = false;
        for actor in &mut self.actors {
            if actor.mute.is_some_and(|until| all || until <= self.outcome.steps) {
                actor.mute = None;
                self.pool.device().unmute(actor.stream);
                any = true;
            }
        }
        any
    }

    /// Lets a job go on by a step.
    fn step(&mut self, who: usize) -> Result<(), Failure> {
        let generation = self.pool.generation();
        let script = &self.setup.scripts[who];
        let actor = &mut self.actors[who];
        let op = script.ops.get(actor.at).copied();
        let done = match (&actor.job, op) {
            (None, _) => self.join(who),
            (_, Some(op)) => self.op(who, op, generation),
            (_, None) => {
                self.finish(who);
                return Ok(());
            }
        };
        self.actors[who].waits = None;
        let told = matches!(done, Done::Told(_));
        match done {
            Done::Yes | Done::Later => {}
            Done::Wait(_, why) | Done::Told(why)
                if self.is_within_floor(who, op) && (told || self.nothing_drains()) =>
            {
                let text = format!("job {who} at {}: {why}", Self::name(op));
                return Err(self.failure(Kind::Floor, text));
            }
            Done::Wait(generation, why) => {
                self.actors[who].waits = Some((generation, why));
                self.note(|| format!("job {who} has to wait at {}", Self::name(op)));
            }
            Done::Rest(generation) => {
                self.actors[who].waits = Some((generation, "its pace holds it up".to_owned()));
                self.note(|| format!("job {who} rests at {}", Self::name(op)));
            }
            Done::Told(why) => return self.told(who, op, &why),
        }
        Ok(())
    }

    pub(super) fn name(op: Option<Op>) -> String {
        op.map_or("the end".to_owned(), |op| op.to_string().trim().to_owned())
    }

    /// A job has been told that it cannot go on.
    fn told(&mut self, who: usize, op: Option<Op>, why: &str) -> Result<(), Failure> {
        self.note(|| format!("job {who} is told at {}: {why}", Self::name(op)));
        if self.setup.enough {
            if !self.is_excused(who, op) {
                let text = format!("job {who} at {}: {why}", Self::name(op));
                return Err(self.failure(Kind::Told, text));
            }
            self.outcome.excused += 1;
        } else {
            self.outcome.told += 1;
        }
        self.leave(who);
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        if self.device.violation_count() > 0 {
            let text = format!("{:?}", self.device.violations().first());
            return Err(self.failure(Kind::Violation, text));
        }
        let status = self.pool.budget_status();
        let most = status.target.saturating_add(status.pending);
        let held = self.device.usage().physical;
        if held > most || most > self.most {
            let text = format!("{held} held where {} may be: {status:?}", self.most);
            return Err(self.failure(Kind::Budget, text));
        }
        Ok(())
    }

    /// All jobs leave: all memory has to come back.
    fn end(mut self) -> Result<Outcome, Failure> {
        self.unmute(true);
        (0..self.actors.len()).for_each(|who| self.leave(who));
        self.poll()?;
        self.device.run_until_idle();
        self.poll()?;
        self.check()?;
        let snapshot = self.pool.snapshot();
        if !snapshot.jobs.is_empty() || snapshot.free != snapshot.held {
            return Err(self.failure(Kind::Leftover, "all have left".to_owned()));
        }
        let Run { device, pool, outcome, .. } = self;
        drop(pool);
        let usage = device.usage();
        if (usage.physical, usage.ranges, usage.mappings) != (Bytes::ZERO, 0, 0) {
            let text = format!("the pool is gone, and there is {usage:?}");
            return Err(Failure { kind: Kind::Leftover, text });
        }
        Ok(outcome)
    }

    pub(super) fn note(&self, text: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().push(text());
        }
    }
}
