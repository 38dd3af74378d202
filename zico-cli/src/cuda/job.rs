//! One job of a replay on a CUDA device: a thread that goes through a trace.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use zico_core::{
    AllocError, Begin, Block, Bytes, Device, Held, Job, JobConfig, JoinError, Passed, Request,
    Ticks,
};
use zico_cuda::{CudaDevice, CudaError, CudaEvent, Pattern, StreamId};
use zico_mock::replay::{Op, Program};
use zico_mock::trace::{BlockId, Step, Trace};

use super::Run;
use super::outcome::JobOutcome;

/// The interval at which a waiting thread polls for completed fences.
const LOOK: Duration = Duration::from_micros(100);
/// The stride of patterns: one word in each smallest unit of blocks.
const STRIDE: u32 = 512;
/// The least that a pattern covers.
const WORD: Bytes = Bytes::new(4);

pub(super) struct Player<'r> {
    run: &'r Run<'r>,
    job: Job<CudaDevice>,
    stream: StreamId,
    program: Program<'r>,
    blocks: HashMap<BlockId, (Block, Option<Pattern>)>,
    /// Events after each half of the launches that may be outstanding.
    fences: VecDeque<CudaEvent>,
    launches: u64,
    outcome: JobOutcome,
}

type Done = Result<(), Box<dyn Error>>;

impl<'r> Player<'r> {
    pub(super) fn join(
        run: &'r Run<'r>,
        name: String,
        terms: JobConfig,
        trace: &'r Trace,
    ) -> Result<Self, JoinError<CudaError>> {
        let stream = run.device.add_stream().map_err(JoinError::Device)?;
        Ok(Self {
            run,
            job: run.pool.join(terms.name(name.clone()), stream)?,
            stream,
            program: Program::new(trace),
            blocks: HashMap::new(),
            fences: VecDeque::new(),
            launches: 0,
            outcome: JobOutcome::new(name),
        })
    }

    /// Executes the trace until all jobs have done their iterations, and leaves.
    pub(super) fn play(mut self) -> JobOutcome {
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
                    self.alloc(block, Request::new(bytes, lifetime))?;
                }
                Op::Step(Step::Free { block }) => self.free(block)?,
                Op::Step(Step::Launch { work }) => self.launch(work)?,
                Op::Step(Step::Phase(_)) => {}
                Op::End => self.end()?,
            }
        }
    }

    /// What it has leased between two iterations it keeps.
    fn note_kept(&mut self) {
        let Held { persistent, iteration, transient, .. } = self.job.held();
        let leased = persistent.saturating_add(iteration).saturating_add(transient);
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
        self.job.end()?;
        self.note_kept();
        self.outcome.iterations += 1;
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
        let pattern = Pattern { addr: block.address(), len: block.bytes(), stride: STRIDE, seed };
        let pattern = (block.bytes() >= WORD).then_some(pattern);
        if let Some(pattern) = pattern {
            self.run.probe.fill(self.stream, pattern)?;
        }
        self.blocks.insert(id, (block, pattern));
        Ok(())
    }

    fn free(&mut self, id: BlockId) -> Done {
        if let Some((block, pattern)) = self.blocks.remove(&id) {
            self.check(pattern)?;
            self.job.free(block)?;
        }
        Ok(())
    }

    fn check(&self, pattern: Option<Pattern>) -> Result<(), CudaError> {
        if let Some(pattern) = pattern {
            self.run.probe.check(self.stream, pattern)?;
            self.run.checked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn check_all(&self) -> Done {
        self.blocks.values().try_for_each(|&(_, pattern)| self.check(pattern))?;
        Ok(())
    }

    /// The host runs ahead of the device by a bounded number of launches.
    fn launch(&mut self, recorded: Ticks) -> Done {
        let machine = &self.run.config.machine;
        self.run.probe.spin(self.stream, machine.scaled(recorded, 1.0))?;
        self.launches += 1;
        if self.launches.is_multiple_of(machine.run_ahead.div_ceil(2)) {
            self.fences.push_back(self.run.device.record(self.stream)?);
        }
        while self.fences.len() > 2
            && let Some(oldest) = self.fences.front()
        {
            match self.run.device.query(oldest)? {
                Passed::Yes => drop(self.fences.pop_front()),
                Passed::NotYet => std::thread::sleep(LOOK),
            }
        }
        Ok(())
    }
}
