//! Lets the jobs of a setup go on, one step at a time, and watches.

use std::cell::RefCell;
use std::sync::Arc;

use fastrand::Rng;
use zico_core::{
    AllocError, Begin, BeginError, Block, Bytes, Device as _, Job, JoinError, Lifetime, Pool,
    PoolConfig, Request, Ticks,
};
use zico_mock::{Access, Claim, MockConfig, MockDevice, MockStream, Utilisation};

use super::bound::cost;
use super::script::{Ending, Marks, Op};
use super::{Failure, Kind, Setup};
use crate::between::Between;
use crate::waves::{REGION, regions};

pub(super) type Dev = Between<MockDevice>;

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Calls made.
    pub steps: u64,
    /// Jobs that were told that there is no memory, where there was not enough.
    pub told: u32,
    /// Jobs that were told so when their iteration took more than any before, while others ran.
    pub excused: u32,
}

/// A live block.
struct Live {
    block: Block,
    claim: Claim,
    elsewhere: bool,
    cost: u64,
    stays: bool,
}

/// What becomes of a step.
enum Done {
    Yes,
    /// Not now: to be asked again when the generation is another than this.
    Wait(u32, String),
    /// Not now, because of the device.
    Later,
    /// It never can be.
    Told(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Goes,
    Sleeps,
    Over,
}

/// One job.
struct Actor {
    at: usize,
    state: State,
    job: Option<Arc<Job<Dev>>>,
    stream: MockStream,
    side: MockStream,
    slots: Vec<Option<Live>>,
    /// To be freed by another thread.
    given: Vec<Live>,
    /// The generation at which it was told to wait, and what it was told.
    waits: Option<(u32, String)>,
    inside: bool,
    iterations: u32,
    /// What it holds beside what persists, and the most of that in its iterations so far, in regions.
    now: u64,
    shown: u64,
    most: u64,
    /// The step at which its stream takes events again.
    mute: Option<u64>,
}

pub(super) struct Run<'a> {
    setup: &'a Setup,
    rng: Rng,
    device: MockDevice,
    pool: Pool<Dev>,
    actors: Vec<Actor>,
    trace: Option<RefCell<&'a mut Vec<String>>>,
    outcome: Outcome,
    /// The most that may be held, since the budget was changed last.
    most: Bytes,
}

/// Runs a setup to its end.
pub(super) fn run(setup: &Setup, trace: Option<&mut Vec<String>>) -> Result<Outcome, Failure> {
    let config = MockConfig::new(Bytes::gib(4)).features(setup.features());
    let device = MockDevice::new(config).unwrap();
    let config = PoolConfig::new(regions(setup.budget)).region_size(REGION);
    let config = config.policy(setup.policy()).hand_over(setup.hand_over);
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

    /// Nobody can go on: what has to happen by itself does. Whether there is anything left of that.
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
        // What if somebody asks again, although nothing says that this would help?
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
            Done::Told(why) => return self.told(who, op, &why),
        }
        Ok(())
    }

    /// Whether what a job asks for, and all that it has, is no more than is reserved for it. Where its
    /// iterations are detected it may have to wait for one to begin.
    fn is_within_floor(&self, who: usize, op: Option<Op>) -> bool {
        let (script, Actor { job, mute, .. }) = (&self.setup.scripts[who], &self.actors[who]);
        match (op, job) {
            (Some(Op::Alloc(_, bytes, _)), Some(job)) if script.floor > 0 => {
                let held = job.held().total().value() / REGION.value();
                let detects = script.marks == Marks::Detected;
                held + cost(bytes) <= script.floor && !detects && mute.is_none()
            }
            _ => false,
        }
    }

    fn nothing_drains(&self) -> bool {
        self.pool.snapshot().jobs.iter().all(|job| job.held.draining.is_zero())
    }

    fn name(op: Option<Op>) -> String {
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

    /// Whether its iteration takes more than any before while another one runs: both hold what the other
    /// needs, and nobody could know.
    fn is_excused(&self, who: usize, op: Option<Op>) -> bool {
        let detects = |who: usize| self.setup.scripts[who].marks == Marks::Detected;
        let others = (0..self.actors.len()).filter(|&other| other != who);
        let alone = !others.into_iter().any(|other| {
            let actor = &self.actors[other];
            actor.inside || detects(other) && actor.job.is_some()
        });
        if alone {
            return false;
        }
        let actor = &self.actors[who];
        let asked = match op {
            Some(Op::Alloc(_, bytes, _)) => cost(bytes),
            _ => 0,
        };
        // A region more is foreseen.
        detects(who) || actor.inside && actor.iterations > 0 && actor.now + asked > actor.shown + 1
    }

    fn join(&mut self, who: usize) -> Done {
        let (script, most) = (&self.setup.scripts[who], self.setup.most[who]);
        let config = script.config(who, most.iteration, most.ever);
        let stream = self.actors[who].stream;
        let joined = self.pool.join(config, stream);
        self.note(|| format!("job {who} joins: {:?}", joined.as_ref().err()));
        match joined {
            Ok(job) => {
                self.actors[who].job = Some(Arc::new(job));
                Done::Yes
            }
            // "It helps to try again when an iteration has ended."
            Err(JoinError::FloorNotFree { floor, .. }) => {
                let others = self.actors.iter().enumerate();
                let alone = others
                    .filter(|&(other, _)| other != who)
                    .all(|(_, actor)| actor.state != State::Goes || actor.job.is_none());
                if alone && self.device.idle() {
                    return Done::Told(format!("no floor of {floor}"));
                }
                // Clearing up after it is a change as well, which is no reason to ask again.
                Done::Wait(self.pool.generation(), format!("no floor of {floor} yet"))
            }
            Err(error) => Done::Told(error.to_string()),
        }
    }

    fn op(&mut self, who: usize, op: Op, generation: u32) -> Done {
        let Some(job) = self.actors[who].job.clone() else { return Done::Yes };
        let done = match op {
            Op::Begin => self.begin(who, &job, generation),
            Op::End => {
                let ended = job.end();
                self.note(|| format!("job {who} ends: {ended:?}"));
                let actor = &mut self.actors[who];
                actor.inside = false;
                actor.iterations += 1;
                actor.shown = actor.shown.max(actor.most);
                Done::Yes
            }
            Op::Alloc(slot, bytes, lifetime) => {
                self.alloc(who, &job, slot, (bytes, lifetime), generation)
            }
            Op::Free(slot) => {
                if let Some(live) = self.actors[who].slots.get_mut(slot).and_then(Option::take) {
                    self.free(who, &job, live);
                }
                Done::Yes
            }
            Op::FreeElsewhere(slot) => {
                let actor = &mut self.actors[who];
                let live = actor.slots.get_mut(slot).and_then(Option::take);
                actor.given.extend(live);
                Done::Yes
            }
            Op::UseElsewhere(slot) => {
                self.use_elsewhere(who, &job, slot);
                Done::Yes
            }
            Op::Launch(micros) => {
                let (stream, work) = (self.actors[who].stream, Ticks::micros(micros));
                self.device.launch(stream, work, Utilisation::FULL).unwrap();
                Done::Yes
            }
            Op::Mute(steps) => {
                self.note(|| format!("job {who}'s stream takes no events"));
                self.actors[who].mute = Some(self.outcome.steps + u64::from(steps));
                self.pool.device().mute(self.actors[who].stream);
                Done::Yes
            }
            Op::Sleep => {
                self.actors[who].state = State::Sleeps;
                Done::Yes
            }
        };
        if matches!(done, Done::Yes) {
            self.actors[who].at += 1;
        }
        done
    }

    fn begin(&mut self, who: usize, job: &Job<Dev>, generation: u32) -> Done {
        let begun = job.begin();
        self.note(|| format!("job {who} begins: {begun:?}"));
        match begun {
            Ok(Begin::Started) => {
                let actor = &mut self.actors[who];
                actor.inside = true;
                actor.most = actor.now;
                Done::Yes
            }
            Ok(Begin::Wait(_)) => Done::Wait(generation, "it may not begin yet".to_owned()),
            Err(error @ (BeginError::NeverFits { .. } | BeginError::BeyondCap { .. })) => {
                Done::Told(error.to_string())
            }
            Err(error) => Done::Told(format!("wrongly: {error}")),
        }
    }

    fn alloc(
        &mut self,
        who: usize,
        job: &Job<Dev>,
        slot: usize,
        (bytes, lifetime): (Bytes, Option<Lifetime>),
        generation: u32,
    ) -> Done {
        let request = lifetime.map_or(Request::learned(bytes), |it| Request::new(bytes, it));
        match job.alloc(request) {
            Ok(block) => {
                self.note(|| format!("job {who}: #{slot} = {bytes} at {:?}", block.address()));
                let actor = &mut self.actors[who];
                let (owner, address) = (who.try_into().unwrap(), block.address());
                let claim = self.device.own(actor.stream, owner, address, bytes).unwrap();
                let stays = lifetime == Some(Lifetime::Persistent);
                let live = Live { block, claim, elsewhere: false, cost: cost(bytes), stays };
                actor.now += if stays { 0 } else { live.cost };
                actor.most = actor.most.max(actor.now);
                if actor.slots.len() <= slot {
                    actor.slots.resize_with(slot + 1, || None);
                }
                actor.slots[slot] = Some(live);
                Done::Yes
            }
            Err(AllocError::Busy(shortage)) => Done::Wait(generation, shortage.to_string()),
            Err(AllocError::Device(_)) if self.actors[who].mute.is_some() => Done::Later,
            Err(error) => Done::Told(error.to_string()),
        }
    }

    fn use_elsewhere(&mut self, who: usize, job: &Job<Dev>, slot: usize) {
        let actor = &mut self.actors[who];
        let Some(live) = actor.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if job.record_use(live.block, actor.side).is_err() {
            return;
        }
        live.elsewhere = true;
        let ready = self.device.record(actor.stream).unwrap();
        self.device.order_after(actor.side, &ready).unwrap();
        let (addr, len) = (live.block.address(), live.block.bytes());
        let access = [Access { owner: who.try_into().unwrap(), addr, len }];
        let work = Ticks::micros(self.rng.u64(1..400));
        self.device.launch_touching(actor.side, work, Utilisation::FULL, &access).unwrap();
    }

    fn free_given(&mut self, who: usize) {
        let live = self.actors[who].given.swap_remove(0);
        if let Some(job) = self.actors[who].job.clone() {
            self.note(|| format!("another thread of job {who} frees {:?}", live.block.address()));
            self.free(who, &job, live);
        }
    }

    fn free(&mut self, who: usize, job: &Job<Dev>, live: Live) {
        self.note(|| format!("job {who} frees {:?}", live.block.address()));
        self.disown(who, live.elsewhere, live.claim);
        self.actors[who].now -= if live.stays { 0 } else { live.cost };
        job.free(live.block).unwrap();
    }

    /// What a block's claim is to end after.
    fn disown(&self, who: usize, elsewhere: bool, claim: Claim) {
        let Actor { stream, side, .. } = self.actors[who];
        if elsewhere {
            let passed = self.device.record(stream).unwrap();
            self.device.order_after(side, &passed).unwrap();
        }
        self.device.disown(if elsewhere { side } else { stream }, claim).unwrap();
    }

    /// A job has come to the end of its program.
    fn finish(&mut self, who: usize) {
        match self.setup.scripts[who].ending {
            Ending::Leave => self.leave(who),
            Ending::Stay => {
                self.note(|| format!("job {who} does nothing any more"));
                self.actors[who].state = State::Over;
            }
            Ending::FreeAndLeave => {
                let lives: Vec<Live> = self.actors[who].slots.drain(..).flatten().collect();
                if let Some(job) = self.actors[who].job.clone() {
                    lives.into_iter().for_each(|live| self.free(who, &job, live));
                }
                self.leave(who);
            }
        }
    }

    fn leave(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        actor.state = State::Over;
        actor.waits = None;
        actor.inside = false;
        let lives: Vec<Live> =
            actor.slots.drain(..).flatten().chain(actor.given.drain(..)).collect();
        lives.into_iter().for_each(|live| self.disown(who, live.elsewhere, live.claim));
        self.note(|| format!("job {who} leaves"));
        drop(self.actors[who].job.take());
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

    /// Everybody leaves: everything has to come back.
    fn end(mut self) -> Result<Outcome, Failure> {
        self.unmute(true);
        (0..self.actors.len()).for_each(|who| self.leave(who));
        self.poll()?;
        self.device.run_until_idle();
        self.poll()?;
        self.check()?;
        let books = self.pool.snapshot();
        if !books.jobs.is_empty() || books.free != books.held {
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

    fn hang(&self) -> Failure {
        let holds = |actor: &Actor| {
            actor.state != State::Goes
                && actor.job.as_ref().is_some_and(|job| {
                    let held = job.held();
                    held.total() > held.persistent
                })
        };
        let idle = self.actors.iter().any(holds) && !self.setup.enough;
        self.failure(
            if idle { Kind::HangOnIdle } else { Kind::Hang },
            "all wait, and nothing will ever happen".to_owned(),
        )
    }

    fn failure(&self, kind: Kind, text: String) -> Failure {
        let mut text = text;
        for (who, actor) in self.actors.iter().enumerate() {
            let op = self.setup.scripts[who].ops.get(actor.at).copied();
            let (state, at, inside) = (actor.state, Self::name(op), actor.inside);
            let why = actor.waits.as_ref().map_or("", |(_, why)| why);
            let place = if inside { "in its iteration" } else { "outside iterations" };
            let number = actor.iterations + 1;
            let line = format!("\njob {who} ({state:?}, {place} {number}) at {at}: {why}");
            text.push_str(&line);
        }
        text.push_str(&format!("\n{}", self.pool.snapshot()));
        Failure { kind, text }
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().push(text());
        }
    }
}
