//! One job of a replay in real time: a thread that goes through a trace.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::error::Error;
use std::num::NonZeroU8;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use zico_core::{
    AllocError, Begin, Block, Device, Held, Job, JobConfig, Passed, Pool, Request, Ticks,
};
use zico_mock::replay::{Op, Program};
use zico_mock::trace::{BlockId, Step, Trace};

use super::outcome::JobOutcome;
use super::stage::{Mark, Stage};
use super::{Failed, Run};

/// The interval at which a waiting thread polls for completed fences.
const LOOK: Duration = Duration::from_micros(100);
pub(super) struct Player<'r, S: Stage> {
    run: &'r Run<'r, S>,
    job: Job<S::Device>,
    stream: S::Stream,
    /// The job's other streams.
    sides: BTreeMap<NonZeroU8, S::Stream>,
    program: Program<'r>,
    blocks: HashMap<BlockId, (Block, Mark)>,
    /// Events after each half of the launches that may be outstanding.
    fences: VecDeque<S::Event>,
    launches: u64,
    began: Instant,
    outcome: JobOutcome,
}

type Done = Result<(), Box<dyn Error>>;

impl<'r, S: Stage> Player<'r, S> {
    pub(super) fn join(
        run: &'r Run<'r, S>,
        pool: &Pool<S::Device>,
        name: String,
        terms: JobConfig,
        trace: &'r Trace,
    ) -> Result<Self, Failed> {
        let stream = run.stage.add_stream()?;
        Ok(Self {
            run,
            job: pool.join(terms.name(name.clone()), stream)?,
            stream,
            sides: BTreeMap::new(),
            program: Program::new(trace),
            blocks: HashMap::new(),
            fences: VecDeque::new(),
            launches: 0,
            began: Instant::now(),
            outcome: JobOutcome::new(name),
        })
    }

    /// Executes the trace until all jobs have done their iterations, those of other processes
    /// included, and leaves.
    pub(super) fn play(mut self) -> JobOutcome {
        self.began = Instant::now();
        let played = self.go_on().and_then(|()| self.check_all());
        let held = self.job.held();
        (self.outcome.persistent, self.outcome.peak) = (held.persistent, held.peak);
        if let Err(error) = played {
            self.outcome.failure = Some(error.to_string());
            if self.outcome.iterations < self.run.config.iterations {
                self.run.unfinished.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.outcome
    }

    fn go_on(&mut self) -> Done {
        loop {
            match self.program.next() {
                // Between two iterations is the place to stop.
                Op::Begin { .. } if self.run.unfinished.load(Ordering::Acquire) == 0 => {
                    return Ok(());
                }
                Op::Begin { .. } => self.begin()?,
                Op::Step(Step::Alloc { block, bytes, lifetime }) => {
                    let told = Request::new(bytes, lifetime);
                    let learned = self.run.config.learned;
                    self.alloc(block, if learned { Request::learned(bytes) } else { told })?;
                }
                Op::Step(Step::Free { block }) => self.free(block)?,
                Op::Step(Step::Launch { work }) => self.launch(work)?,
                Op::Step(Step::Use { block, stream }) => self.lend(block, stream)?,
                Op::Step(Step::Phase(_)) => {}
                Op::End => self.end()?,
            }
        }
    }

    /// What it has leased between two iterations it keeps.
    fn note_kept(&mut self) {
        let Held { persistent, iteration, .. } = self.job.held();
        let leased = persistent.saturating_add(iteration);
        self.outcome.kept = self.outcome.kept.at_least(leased);
    }

    fn begin(&mut self) -> Done {
        self.note_kept();
        if !matches!(self.job.begin(None)?, Begin::Started) {
            let asked = Instant::now();
            self.job.begin_blocking(None, LOOK)?;
            self.outcome.start_delay += asked.elapsed();
        }
        Ok(())
    }

    fn end(&mut self) -> Done {
        if self.run.config.ends_with_next { self.job.end_with_next() } else { self.job.end() }?;
        self.note_kept();
        self.outcome.iterations += 1;
        self.outcome.ends.push(self.began.elapsed());
        if self.outcome.iterations <= self.run.config.iterations {
            (self.run.progress)();
        }
        if self.outcome.iterations == self.run.config.iterations {
            self.run.unfinished.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(())
    }

    fn alloc(&mut self, id: BlockId, request: Request) -> Done {
        let block = match self.job.alloc(request) {
            Err(AllocError::Busy(_)) => {
                let asked = Instant::now();
                let block = self.job.alloc_blocking(request, LOOK)?;
                self.outcome.stalled += asked.elapsed();
                block
            }
            done => done?,
        };
        let seed = self.run.seed.fetch_add(1, Ordering::Relaxed);
        let mark = Mark { at: block.address(), len: block.bytes(), seed };
        self.run.stage.fill(self.stream, mark)?;
        self.blocks.insert(id, (block, mark));
        Ok(())
    }

    fn free(&mut self, id: BlockId) -> Done {
        if let Some((block, mark)) = self.blocks.remove(&id) {
            self.check(mark)?;
            self.job.free(block)?;
        }
        Ok(())
    }

    /// Another stream of the job reads a block, after all that the job's own has been given.
    fn lend(&mut self, id: BlockId, number: NonZeroU8) -> Done {
        let Some(&(block, mark)) = self.blocks.get(&id) else { return Ok(()) };
        let side = match self.sides.entry(number) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(self.run.stage.add_stream()?),
        };
        self.job.record_use(block, side)?;
        let device = self.run.stage.device();
        device.order_after(side, &device.record(self.stream)?)?;
        self.run.stage.check(side, mark)?;
        Ok(())
    }

    fn check(&self, mark: Mark) -> Result<(), S::Error> {
        self.run.stage.check(self.stream, mark)?;
        self.run.checked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn check_all(&self) -> Done {
        self.blocks.values().try_for_each(|&(_, mark)| self.check(mark))?;
        Ok(())
    }

    /// The host runs ahead of the device by a bounded number of launches.
    fn launch(&mut self, recorded: Ticks) -> Done {
        let machine = &self.run.config.machine;
        self.run.stage.launch(self.stream, machine.scaled(recorded, 1.0))?;
        self.launches += 1;
        if self.launches.is_multiple_of(machine.run_ahead.div_ceil(2)) {
            self.fences.push_back(self.run.stage.device().record(self.stream)?);
        }
        while self.fences.len() > 2
            && let Some(oldest) = self.fences.front()
        {
            match self.run.stage.device().query(oldest)? {
                Passed::Yes => drop(self.fences.pop_front()),
                Passed::NotYet => std::thread::sleep(LOOK),
            }
        }
        Ok(())
    }
}
