//! zico itself: a pool on the mock device, with one job in it and memory to spare.
//!
//! zico can be told more than its peers: of each block, whether it outlives the iteration, lives
//! within one, or is a temporary of one operator. It places the three apart. The traces say that
//! with hindsight, from how long each block did live; a runtime says it from where it allocates,
//! and may be wrong about some. The peers are told sizes only, and so is zico with [`Told::Sizes`]:
//! it learns the rest.
//!
//! It also does more: memory goes back to the pool in whole regions as soon as they are empty, for
//! other jobs to have. So its peak is reached at one moment; the peers hold theirs from then on.

use std::error::Error;

use zico_core::{Begin, Block, Bytes, Job, Lifetime, Planning, Pool, PoolConfig, Request};
use zico_mock::replay::{PolicyKind, ReplayConfig, replay};
use zico_mock::trace::{Iteration, Step, Trace};
use zico_mock::{MockConfig, MockDevice};

use crate::Peaks;

/// The size of a region: what CUDA maps at least.
pub const REGION: Bytes = Bytes::mib(2);

/// What zico is told of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its size and how long it lives.
    Lifetimes,
    /// Its size, as the peers; lifetimes are learned.
    Sizes,
    /// The same, and nothing is learned: all blocks are placed together.
    Nothing,
}

/// Takes zico through a job in program order: nothing is launched, so the device has passed a free
/// when it is made, as it is for the peers.
///
/// What is held is what is charged to the job. That includes the regions that it has given up and
/// that zico gathers, up to 8 MiB of them, before it looks whether the device has passed them.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn in_program_order(trace: &Trace, told: Told) -> Result<Alone, Box<dyn Error>> {
    let mut run = Run::new(trace, told)?;
    run.steps(trace.setup())?;
    for iteration in trace.iterations() {
        run.iteration(iteration)?;
    }
    let live = trace.stats().peak.value();
    Ok(Alone { peaks: Peaks { live, held: run.held }, stranded: run.stranded })
}

/// The same in an iteration that follows a plan: the last recorded one, until it has been planned
/// and once more. Of that iteration alone; it is an error if it was not all as planned.
///
/// # Errors
/// If zico or the mock device refuses anything: a defect.
pub fn planned(trace: &Trace) -> Result<Peaks, Box<dyn Error>> {
    let mut run = Run::new(trace, Told::Lifetimes)?;
    run.steps(trace.setup())?;
    let Some(last) = trace.iterations().last() else { return Err("there is no iteration".into()) };
    for iteration in trace.iterations().iter().chain([last, last, last]) {
        (run.live, run.held) = (0, 0);
        run.iteration(iteration)?;
    }
    let blocks = |planning: Planning| (planning.placed, planning.departed);
    let before = blocks(run.job.snapshot().planning);
    (run.live, run.held) = (0, 0);
    run.iteration(last)?;
    let after = blocks(run.job.snapshot().planning);
    let planned = |step: &&Step| matches!(step, Step::Alloc { lifetime, .. } if *lifetime != Lifetime::Persistent);
    let count = last.steps().iter().filter(planned).count() as u64;
    if after != (before.0 + count, before.1) {
        return Err(format!("{count} allocations, planned {before:?} to {after:?}").into());
    }
    Ok(Peaks { live: run.live, held: run.held })
}

/// What zico holds for one job alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// At its peak.
    pub peaks: Peaks,
    /// The most bytes that it held at the end of an iteration, the first one included, and that no
    /// block was in: what other jobs could not have, because blocks that stay lay beside others
    /// that went.
    pub stranded: u64,
}

/// A job under way.
struct Run {
    pool: Pool<MockDevice>,
    job: Job<MockDevice>,
    told: Told,
    blocks: Vec<Option<Block>>,
    /// What its blocks come to now.
    current: u64,
    /// The most that they have come to, and that it has held.
    live: u64,
    held: u64,
    stranded: u64,
}

impl Run {
    fn new(trace: &Trace, told: Told) -> Result<Self, Box<dyn Error>> {
        let live = trace.stats().peak.value();
        let spare = Bytes::new((4 * live).next_multiple_of(REGION.value()));
        let device = MockDevice::new(MockConfig::new(spare))?;
        let pool = Pool::new(device, PoolConfig::new(spare).region_size(REGION))?;
        let job = pool.join(trace.name(), pool.device().add_stream())?;
        let blocks = vec![None; trace.blocks().len()];
        Ok(Self { pool, job, told, blocks, current: 0, live: 0, held: 0, stranded: 0 })
    }

    fn iteration(&mut self, iteration: &Iteration) -> Result<(), Box<dyn Error>> {
        match self.job.begin(None)? {
            Begin::Started => self.steps(iteration.steps())?,
            Begin::Wait(_) => return Err("a job that is alone has to wait".into()),
        }
        self.job.end()?;
        self.between()
    }

    /// An iteration has ended: notes what it leaves behind.
    fn between(&mut self) -> Result<(), Box<dyn Error>> {
        self.pool.poll()?;
        let job = self.job.snapshot();
        let stranded = job.held.total().saturating_sub(job.stats.allocated.current);
        self.stranded = self.stranded.max(stranded.value());
        Ok(())
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Box<dyn Error>> {
        for step in steps {
            match *step {
                Step::Alloc { block, bytes, lifetime } => {
                    let request = match self.told {
                        Told::Lifetimes => Request::new(bytes, lifetime),
                        Told::Sizes => Request::learned(bytes),
                        Told::Nothing => Request::new(bytes, Lifetime::Iteration),
                    };
                    let placed = self.job.alloc(request)?;
                    self.blocks[block.index()] = Some(placed);
                    self.current += placed.bytes().value();
                }
                Step::Free { block } => {
                    if let Some(placed) = self.blocks[block.index()].take() {
                        self.job.free(placed)?;
                        self.current -= placed.bytes().value();
                    }
                    self.pool.poll()?;
                }
                Step::Launch { .. } | Step::Use { .. } | Step::Phase(_) => {}
            }
            self.held = self.held.max(self.job.held().total().value());
            self.live = self.live.max(self.current);
        }
        Ok(())
    }
}

/// The iterations of a whole replay: the recorded ones and some more, so that plans are made and
/// followed.
pub const WHOLE: u64 = 8;

/// The most physical memory that a job makes the pool create on a device that works behind the
/// host's back, over a whole replay: the setup, the iterations in which everything is learned, the
/// first planned one and those after it. The mock device's launches are the recorded ones; the host
/// runs ahead of them as [`Machine::default`](zico_mock::replay::Machine) says. There is memory to
/// spare.
///
/// # Errors
/// If the replay fails: a defect.
pub fn on_a_device(trace: &Trace, region: Bytes, plans: bool) -> Result<Peaks, Box<dyn Error>> {
    let live = trace.stats().peak.value();
    let spare = Bytes::new((4 * live).next_multiple_of(region.value()));
    let config = ReplayConfig {
        region: Some(region),
        iterations: WHOLE,
        plans,
        policy: PolicyKind::Zico,
        ..ReplayConfig::new(spare)
    };
    let outcome = replay(&[trace], &config, &mut |_| {})?;
    let charged = outcome.jobs[0].peak;
    Ok(Peaks { live, held: outcome.peak_held.at_least(charged).value() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job may have back at once what it has given up itself, however far the device is behind.
    #[test]
    fn on_a_device_that_lags_a_job_holds_no_more_than_expandable_segments() {
        for name in zico_mock::bundled::names() {
            let trace = zico_mock::bundled::open(name).expect("bundled");
            let peer = crate::run(&trace, &mut crate::expandable::Expandable::default());
            for (gib, plans) in [(4, true), (4, false), (80, true), (192, true)] {
                let region = PoolConfig::new(Bytes::gib(gib)).region_for(REGION);
                let Peaks { live, held } = on_a_device(&trace, region, plans).expect("runs");
                // Larger regions waste more, of a budget that is fifty times what the job takes.
                let most = if gib > 4 { 104 } else { 103 };
                assert!(held * 100 <= live * most, "{name}, {gib} GiB, {plans}: {held} for {live}");
                assert!(gib > 4 || held <= peer.held, "{name}, {plans}: {held}, {peer:?}");
            }
        }
    }

    #[test]
    fn in_program_order_zico_holds_no_more_than_expandable_segments() {
        for name in zico_mock::bundled::names() {
            let trace = zico_mock::bundled::open(name).expect("bundled");
            let peer = crate::run(&trace, &mut crate::expandable::Expandable::default());
            for told in [Told::Lifetimes, Told::Sizes] {
                let ordered = in_program_order(&trace, told).expect("runs").peaks;
                assert!(ordered.held <= peer.held, "{name}: {told:?} {ordered:?}, {peer:?}");
            }
        }
    }

    /// The goal for plans.
    #[test]
    fn a_planned_iteration_holds_next_to_nothing_but_its_blocks() {
        for name in zico_mock::bundled::names() {
            let trace = zico_mock::bundled::open(name).expect("bundled");
            let Peaks { live, held } = planned(&trace).expect("runs");
            assert!(held * 1000 <= live * 1005, "{name}: {held} for {live}");
        }
    }

    /// Optimizer state that appears in the first iteration and stays, and gradients that live from
    /// backward to the end, strand next to nothing of what activations give up: from the first
    /// iteration on, and with lifetimes learned at most 2% of the peak.
    #[test]
    fn what_stays_strands_little_from_the_first_iteration_on() {
        for name in zico_mock::bundled::names() {
            let trace = zico_mock::bundled::open(name).expect("bundled");
            let run = |told| in_program_order(&trace, told).expect("runs");
            let (told, learned) = (run(Told::Lifetimes), run(Told::Sizes));
            assert!(told.stranded <= 4 * REGION.value(), "{name}: {told:?}");
            assert!(learned.stranded * 50 <= learned.peaks.live, "{name}: {learned:?}");
        }
    }
}
