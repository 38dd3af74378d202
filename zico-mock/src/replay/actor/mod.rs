//! One job of a replay: a host thread in virtual time that executes a trace.

mod ending;
mod memory;

use std::collections::HashMap;

use zico_core::{
    Begin, BeginError, Block, BrokerError, Bytes, Held, Job, JobConfig, JobId, Pool, Ticks,
};

use super::handle::Handle;
use super::outcome::{JobOutcome, Span};
use super::overflow::Overflow;
use super::program::Op;
use super::progress::Progress;
use super::relief::Deed;
use super::sides::Sides;
use super::source::Source;
use super::state::{Done, State};
use super::usage::Usage;
use super::{Machine, ReplayConfig, ReplayError};
use crate::trace::{BlockId, Step, Trace};
use crate::{Claim, MockDevice, MockStream};

pub(in crate::replay) struct Actor<'t> {
    job: Option<Handle>,
    device: MockDevice,
    stream: MockStream,
    tag: u32,
    source: Source<'t>,
    machine: Machine,
    random: fastrand::Rng,
    state: State,
    /// The operation that waits, and since when.
    pending: Option<(Deed, Ticks)>,
    /// It has waited for the pool, and is about to ask again.
    asks_again: bool,
    /// Between iterations one that takes turns claims nothing: it may be on the host.
    blocks: HashMap<BlockId, (Block, Option<Claim>)>,
    takes_turns: bool,
    /// Its iterations may be interrupted.
    interruptible: bool,
    /// It waits, and has claims to nothing meanwhile.
    is_let_go: bool,
    sides: Sides,
    /// Its own pool, of which its cap is the budget, if it has an elastic one.
    pool: Option<Pool<MockDevice>>,
    /// What is on the host, if the job has an elastic cap.
    overflow: Option<Overflow>,
    live: Bytes,
    steps: u64,
    turns: u64,
    /// The iterations of all jobs together when this one last made progress.
    last_on: u64,
    /// It marks its iterations.
    marks: bool,
    /// It tells no lifetimes.
    learned: bool,
    ends_with_next: bool,
    wanted: u64,
    usage: Usage,
    progress: Progress,
    outcome: JobOutcome,
}

impl<'t> Actor<'t> {
    pub(in crate::replay) fn new(
        index: u32,
        (name, terms): (String, JobConfig),
        trace: &'t Trace,
        config: &ReplayConfig,
        pool: &Pool<MockDevice>,
    ) -> Result<Self, ReplayError> {
        let device = pool.device().clone();
        let stream = device.add_stream();
        let terms = if config.plans { terms } else { terms.without_plans() };
        let terms = match config.slice {
            Some(slice) => terms.preemptible(slice),
            None => terms,
        };
        let interruptible = terms.is_interruptible();
        let plan = config.relief.get(index as usize).cloned().flatten();
        let usage = config.usage.get(index as usize).cloned().unwrap_or_default();
        let overflow = config.elastic.then(|| Overflow::new(&device, config.budget)).flatten();
        let source = Source::new(trace, plan, &device, stream, index);
        Ok(Self {
            job: Some(Handle::new(pool.join(terms.name(name.clone()), stream)?, config.detect)),
            device,
            stream,
            tag: index,
            source,
            machine: config.machine.clone(),
            random: fastrand::Rng::with_seed(config.machine.seed.wrapping_add(index.into())),
            state: State::Ready(usage.arrives),
            pending: None,
            asks_again: false,
            blocks: HashMap::new(),
            takes_turns: config.slice.is_some(),
            interruptible,
            is_let_go: false,
            sides: Sides::default(),
            overflow,
            pool: config.elastic.then(|| pool.clone()),
            live: Bytes::ZERO,
            steps: 0,
            turns: 0,
            last_on: 0,
            marks: !config.detect && !config.elastic,
            learned: config.learned,
            ends_with_next: config.ends_with_next,
            wanted: config.iterations,
            usage,
            progress: Progress::default(),
            outcome: JobOutcome::new(name),
        })
    }

    /// When the host can go on, unless it waits.
    pub(in crate::replay) fn ready_at(&self) -> Option<Ticks> {
        match self.state {
            State::Ready(at) => Some(at),
            _ => None,
        }
    }

    /// Whether it has done all that was asked for, or has left.
    pub(in crate::replay) fn is_done(&self) -> bool {
        self.outcome.iterations >= self.wanted || self.state == State::Left
    }

    pub(in crate::replay) fn has_left(&self) -> bool {
        self.state == State::Left
    }

    pub(in crate::replay) fn waits_for_pool(&self) -> bool {
        self.state == State::Pool
    }

    /// Iterations done of those that were asked for.
    pub(in crate::replay) fn iterations_wanted_done(&self) -> u64 {
        if self.state == State::Left {
            self.wanted
        } else {
            self.outcome.iterations.min(self.wanted)
        }
    }

    pub(in crate::replay) fn live(&self) -> Bytes {
        self.live
    }

    pub(in crate::replay) fn held(&self) -> Held {
        self.job.as_ref().map(|job| job.job().held()).unwrap_or_default()
    }

    pub(in crate::replay) fn name(&self) -> &str {
        &self.outcome.name
    }

    pub(in crate::replay) fn iterations(&self) -> u64 {
        self.outcome.iterations
    }

    /// Whether it has come.
    pub(in crate::replay) fn is_there(&self, now: Ticks) -> bool {
        self.usage.arrives <= now && !self.has_left()
    }

    /// When one of its iterations began, if it has.
    pub(in crate::replay) fn began(&self, iteration: u64) -> Option<Ticks> {
        let span = self.outcome.spans.get(usize::try_from(iteration).ok()?);
        span.map(|span| span.began)
    }

    /// How many iterations all jobs together have done since this one has waited for the pool and
    /// for nothing else, now that they have done `total`. What it waits for may be its own, and the
    /// device has to pass it.
    pub(in crate::replay) fn has_waited(&mut self, total: u64) -> u64 {
        if self.pending.is_none() || !self.rests() {
            self.last_on = total;
        }
        total - self.last_on
    }

    /// Which job of its pool it is, until it has left.
    pub(in crate::replay) fn id(&self) -> Option<JobId> {
        self.job.as_ref().filter(|_| !self.has_left()).map(|job| job.job().id())
    }

    /// Whether it is at an iteration, or wants to be: not one that rests between two.
    pub(in crate::replay) fn is_at_iteration(&self) -> bool {
        let enqueued = self.device.outstanding(self.stream) > 0;
        enqueued || self.is_inside() || self.is_held_up()
    }

    /// Whether it waits for the pool, for all that is known before it has asked again.
    fn is_held_up(&self) -> bool {
        self.waits_for_pool() || self.asks_again
    }

    /// Whether it waits for the pool (for memory, a start or its pace) and the device has done all
    /// that it has enqueued.
    pub(in crate::replay) fn rests(&self) -> bool {
        self.is_held_up() && self.device.outstanding(self.stream) == 0
    }

    /// The recorded work that the device has done of it.
    pub(in crate::replay) fn made(&self) -> Ticks {
        self.progress.made()
    }

    /// The number of turns it has had.
    pub(in crate::replay) fn turns(&self) -> u64 {
        self.turns
    }

    pub(in crate::replay) fn steps(&self) -> u64 {
        self.steps
    }

    /// The pool has changed: what it refused may be tried again.
    pub(in crate::replay) fn look_again(&mut self, now: Ticks) {
        if self.state == State::Pool {
            self.state = State::Ready(now);
            self.asks_again = true;
        }
    }

    /// The device has finished launches, maybe of this job.
    pub(in crate::replay) fn completed(&mut self, now: Ticks) {
        self.outcome.iterations += self.progress.finish(self.device.completed(self.stream));
        if self.state == State::RunAhead {
            self.state = State::Ready(now);
        }
    }

    /// Each job has done its first iteration: notes what this one has done so far.
    pub(in crate::replay) fn settle(&mut self) {
        self.outcome.iterations_before = self.iterations_done();
    }

    /// Iterations done, and the share that is done of the one under way.
    fn iterations_done(&self) -> f64 {
        self.outcome.iterations as f64 + self.progress.share()
    }

    /// Goes on until the host is busy or has to wait. Calls to the device's memory keep it busy.
    pub(in crate::replay) fn step(&mut self, now: Ticks) -> Result<(), ReplayError> {
        self.turns += 1;
        self.asks_again = false;
        let mut before = (self.device.calls(), self.device.usage().mapped);
        loop {
            let (deed, since) = self.pending.take().unwrap_or_else(|| (self.source.next(), now));
            let done = self.perform(deed, since, now)?;
            let (calls, mapped) = (self.device.calls(), self.device.usage().mapped);
            let busy = self.machine.memory_calls.of(&calls.since(&before.0), mapped - before.1);
            before = (calls, mapped);
            match done {
                Done::Yes if busy.is_zero() => self.steps += 1,
                Done::Yes => {
                    self.steps += 1;
                    self.state = State::Ready(now.saturating_add(busy));
                    break;
                }
                Done::Until(at) => {
                    self.steps += 1;
                    self.state = State::Ready(at.saturating_add(busy));
                    break;
                }
                Done::Wait(state) => {
                    self.pending = Some((deed, since));
                    self.state = state;
                    break;
                }
                Done::Never(why) => {
                    self.outcome.failure = Some(why);
                    self.leave()?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn perform(&mut self, deed: Deed, since: Ticks, now: Ticks) -> Result<Done, ReplayError> {
        match deed {
            Deed::Op(op) => self.operate(op, since, now),
            Deed::Run(operation) => self.run(operation, now),
            Deed::Pass(work) => Ok(self.pass(work, now)),
            deed => {
                let Self { source, blocks, .. } = self;
                let done = source.carrier().map_or(Ok(()), |carrier| carrier.carry(deed, blocks));
                Done::of(done, Done::Yes)
            }
        }
    }

    fn operate(&mut self, op: Op, since: Ticks, now: Ticks) -> Result<Done, ReplayError> {
        match op {
            Op::Begin { work } => self.begin(work, since, now),
            Op::Step(Step::Alloc { block, bytes, lifetime }) => {
                self.alloc(block, (bytes, lifetime), since, now)
            }
            Op::Step(Step::Free { block }) => self.free(block),
            Op::Step(Step::Launch { work }) => self.launch(work, now),
            Op::Step(Step::Use { block, stream }) => Ok(self.lend(block, stream)),
            Op::Step(Step::Phase(_)) => Ok(Done::Yes),
            Op::End => self.end(now),
        }
    }

    fn begin(&mut self, work: Ticks, since: Ticks, now: Ticks) -> Result<Done, ReplayError> {
        self.note_kept();
        if let Some(waits) = self.rescale(now)? {
            return Ok(Done::Wait(waits));
        }
        let begin =
            |job: &Handle| if self.marks { job.job().begin(None) } else { Ok(Begin::Started) };
        Ok(match self.job.as_ref().map(begin) {
            Some(Ok(Begin::Started)) => {
                self.waited(since, now);
                self.own_all()?;
                self.outcome.spans.push(Span { asked: since, began: now, ended: None });
                self.progress.begin(work);
                Done::Yes
            }
            Some(Ok(Begin::Wait(_))) => Done::Wait(State::Pool),
            Some(Err(BeginError::Broker(BrokerError::Unreachable))) => Done::no_broker(now),
            Some(Err(error)) => Done::Never(error.to_string()),
            None => Done::Wait(State::Left),
        })
    }

    /// An operation under a plan: it has to find what it read when it was recorded.
    fn run(&mut self, operation: u32, now: Ticks) -> Result<Done, ReplayError> {
        let Self { source, blocks, .. } = self;
        let Some(carrier) = source.carrier() else { return Ok(Done::Yes) };
        if self.device.outstanding(self.stream) >= self.machine.run_ahead {
            return Ok(Done::Wait(State::RunAhead));
        }
        if let Err(error) = carrier.before(operation, blocks) {
            return Done::of(Err(error), Done::Yes);
        }
        let work = carrier.work(operation);
        let done = self.launch(work, now)?;
        let Self { source, blocks, .. } = self;
        let after = source.carrier().map_or(Ok(()), |carrier| carrier.after(operation, blocks));
        Done::of(after, done)
    }

    fn launch(&mut self, recorded: Ticks, now: Ticks) -> Result<Done, ReplayError> {
        if self.device.outstanding(self.stream) >= self.machine.run_ahead {
            return Ok(Done::Wait(State::RunAhead));
        }
        let off = 1.0 + self.machine.jitter * (2.0 * self.random.f64() - 1.0);
        let work = self.machine.scaled(recorded, off);
        let work = self.overflow.as_mut().map_or(work, |overflow| overflow.stretch(work));
        self.device.launch(self.stream, work, self.machine.utilisation)?;
        self.progress.launch(recorded);
        Ok(Done::Until(now.saturating_add(self.machine.dispatch)))
    }

    /// The end of an iteration costs the host a dispatch as well, so that even a job without a
    /// launch moves on in time.
    fn end(&mut self, now: Ticks) -> Result<Done, ReplayError> {
        if self.takes_turns {
            self.let_go()?;
        }
        let job = self.job.as_ref().filter(|_| self.marks).map(Handle::job);
        let end = |job: &Job<_>| if self.ends_with_next { job.end_with_next() } else { job.end() };
        if let Some(Err(error)) = job.map(end) {
            return Ok(Done::Never(error.to_string()));
        }
        self.note_kept();
        if let Some(span) = self.outcome.spans.last_mut() {
            span.ended = Some(now);
        }
        self.overflow.iter_mut().for_each(Overflow::end);
        self.outcome.iterations += self.progress.end();
        let ended = now.saturating_add(self.machine.dispatch.at_least(Ticks::micros(1)));
        Ok(Done::Until(self.usage.next_iteration(ended)))
    }

    /// From one iteration to the next of the same turn, which the pool takes for one.
    fn pass(&mut self, work: Ticks, now: Ticks) -> Done {
        self.outcome.iterations += self.progress.end();
        self.progress.begin(work);
        Done::Until(now.saturating_add(self.machine.dispatch.at_least(Ticks::micros(1))))
    }

    fn is_inside(&self) -> bool {
        self.outcome.spans.last().is_some_and(|span| span.ended.is_none())
    }
}
