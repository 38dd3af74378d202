//! The waves of recorded jobs.

use std::error::Error;
use std::sync::Arc;

use zico_core::{Begin, Block, Bytes, Device, Job, Pool, PoolConfig, Profile, Request, Ticks};
use zico_mock::replay::{Machine, Needs};
use zico_mock::trace::{Step, Trace, TraceError};
use zico_mock::{MockConfig, MockDevice};

use super::{Case, Wave};

/// A job as the model has it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// One iteration, in regions beside what the job keeps.
    pub wave: Wave,
    /// The regions that it keeps between iterations.
    pub kept: u32,
    /// What a pool learns of the iteration when each launch is done before the host goes on.
    pub profile: Arc<Profile>,
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
    let pool = Pool::new(device.clone(), PoolConfig::new(spare).region_size(region))?;
    let job = pool.join(trace.name(), pool.device().add_stream())?;
    let blocks = vec![None; trace.blocks().len()];
    let mut run = Run { job, device, blocks, scale: machine.time_scale, region, parts: Vec::new() };
    run.steps(trace.setup())?;
    for iteration in trace.iterations().iter().take(2) {
        run.iteration(&pool, iteration.steps())?;
    }
    let held = run.job.held();
    let kept = run.regions(held.persistent.saturating_add(held.iteration));
    let parts = run.parts.iter().map(|&(work, leased)| (work, leased.saturating_sub(kept)));
    let wave = Wave::new(parts);
    // The profile is that of two iterations that are alike.
    for iteration in trace.iterations().iter().skip(1).take(1).cycle().take(2) {
        run.iteration(&pool, iteration.steps())?;
    }
    let learned = run.job.profile().ok_or("no iteration has ended")?;
    // What has been given up is free at once.
    let steps = learned.steps().iter().map(|step| zico_core::Step { demand: step.leased, ..*step });
    let profile = Arc::new(Profile::of(steps, learned.operations(), learned.length()));
    Ok(Recorded { wave, kept, profile })
}

/// Jobs on the model.
pub struct Model {
    /// With no room yet.
    pub case: Case,
    /// What they keep, in regions.
    pub kept: u32,
    /// What a pool learns of each.
    pub profiles: Vec<Arc<Profile>>,
}

/// Recorded jobs on the model.
///
/// # Errors
/// As [`recorded()`].
pub fn model(traces: &[Trace], region: Bytes, machine: &Machine) -> Result<Model, Box<dyn Error>> {
    let (mut waves, mut kept, mut profiles) = (Vec::new(), 0, Vec::new());
    for trace in traces {
        let job = recorded(trace, region, machine)?;
        waves.push(job.wave);
        kept += job.kept;
        profiles.push(job.profile);
    }
    let utilisation = f64::from(machine.utilisation.permille()) / 1000.0;
    Ok(Model { case: Case { waves, room: 0, utilisation }, kept, profiles })
}

/// The regions that iterations can have at a budget, beside what jobs keep.
///
/// # Errors
/// If there are more than fit in 32 bits.
pub fn room(needs: &Needs, f: f64, kept: u32) -> Result<u32, Box<dyn Error>> {
    let regions = needs.budget_at(f).value() / needs.region.value();
    Ok(u32::try_from(regions)?.saturating_sub(kept))
}

/// A job under way.
struct Run {
    job: Job<MockDevice>,
    device: MockDevice,
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

    fn iteration(&mut self, pool: &Pool<MockDevice>, steps: &[Step]) -> Result<(), Box<dyn Error>> {
        self.parts.clear();
        match self.job.begin(None)? {
            Begin::Started => self.steps(steps)?,
            Begin::Wait(_) => return Err("a job that is alone has to wait".into()),
        }
        self.job.end()?;
        pool.poll()?;
        Ok(())
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
                    let work = scaled(work, self.scale);
                    self.parts.push((work, self.regions(leased)));
                    self.device.advance_to(self.device.now().saturating_add(Ticks::new(work)));
                }
                Step::Use { .. } | Step::Phase(_) => {}
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
