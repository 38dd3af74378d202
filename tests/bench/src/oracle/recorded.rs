//! The waves of recorded jobs.

use std::error::Error;

use zico_core::{Begin, Block, Bytes, Job, Pool, PoolConfig, Request, Ticks};
use zico_mock::replay::Machine;
use zico_mock::trace::{Step, Trace, TraceError};
use zico_mock::{MockConfig, MockDevice};

use super::Wave;

/// A job as the model has it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// One iteration, in regions beside what the job keeps.
    pub wave: Wave,
    /// The regions that it keeps between iterations.
    pub kept: u32,
}

/// The trace cut off after its second iteration, so that a replay repeats that one: what varies
/// between recorded iterations is no matter of schedules.
///
/// # Errors
/// If the trace does not make sense any more: a defect.
pub fn steady(trace: &Trace) -> Result<Trace, TraceError> {
    let iterations = trace.iterations().iter().take(2).cloned().collect();
    let (name, provenance) = (trace.name().to_owned(), trace.provenance().to_owned());
    Trace::new(name, provenance, trace.setup().to_vec(), iterations)
}

/// The wave of the second iteration of a job that is alone in a pool, with each launch done before
/// the host goes on. What counts is what is leased while a launch runs, in whole regions.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn recorded(
    trace: &Trace,
    region: Bytes,
    machine: &Machine,
) -> Result<Recorded, Box<dyn Error>> {
    let live = trace.stats().peak.value();
    let spare = Bytes::new((4 * live).next_multiple_of(region.value()));
    let device = MockDevice::new(MockConfig::new(spare))?;
    let pool = Pool::new(device, PoolConfig::new(spare).region_size(region))?;
    let job = pool.join(trace.name(), pool.device().add_stream())?;
    let blocks = vec![None; trace.blocks().len()];
    let mut run = Run { job, blocks, scale: machine.time_scale, region, parts: Vec::new() };
    run.steps(trace.setup())?;
    for iteration in trace.iterations().iter().take(2) {
        run.parts.clear();
        match run.job.begin()? {
            Begin::Started => run.steps(iteration.steps())?,
            Begin::Wait(_) => return Err("a job that is alone has to wait".into()),
        }
        run.job.end()?;
        pool.poll()?;
    }
    let held = run.job.held();
    let kept = run.regions(held.persistent.saturating_add(held.iteration));
    let parts = run.parts.iter().map(|&(work, leased)| (work, leased.saturating_sub(kept)));
    Ok(Recorded { wave: Wave::new(parts), kept })
}

/// A job under way.
struct Run {
    job: Job<MockDevice>,
    blocks: Vec<Option<Block>>,
    scale: f64,
    region: Bytes,
    /// Each launch's work, and all that is leased while it runs.
    parts: Vec<(u64, u32)>,
}

impl Run {
    fn regions(&self, bytes: Bytes) -> u32 {
        u32::try_from(bytes.value() / self.region.value()).unwrap_or(u32::MAX)
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Box<dyn Error>> {
        for step in steps {
            match *step {
                Step::Alloc { block, bytes, lifetime } => {
                    let placed = self.job.alloc(Request::new(bytes, lifetime))?;
                    self.blocks[block.index()] = Some(placed);
                }
                Step::Free { block } => {
                    if let Some(placed) = self.blocks[block.index()].take() {
                        self.job.free(placed)?;
                    }
                }
                Step::Launch { work } => {
                    let held = self.job.held();
                    let leased = held.total().saturating_sub(held.draining);
                    self.parts.push((scaled(work, self.scale), self.regions(leased)));
                }
                Step::Phase(_) => {}
            }
        }
        Ok(())
    }
}

fn scaled(work: Ticks, scale: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates"
    )]
    let scaled = (work.value() as f64 * scale).round() as u64;
    scaled
}
