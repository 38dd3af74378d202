//! Recorded jobs on a device in real time: a CUDA device, or host memory.
//!
//! Each job is a thread with a stream of its own, or a process under a broker. What it allocates it
//! fills with a pattern that no other block has, and before it frees it, it has the pattern
//! checked; a recorded launch keeps the stream busy for as long. Memory that two jobs owned at
//! once, or that was handed over too early, shows as patterns that are not what was written.

mod job;
mod outcome;
#[cfg(target_os = "linux")]
mod processes;
mod stage;
#[cfg(target_os = "linux")]
mod worker;

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use zico_core::{Pool, PoolConfig};
use zico_cuda::{Options, discover, measure_calls, take_call_costs};
use zico_mock::replay::{ReplayConfig, names};
use zico_mock::trace::Trace;

use crate::args::DeviceName;
use crate::failure::Failure;
use job::Player;
use outcome::{JobOutcome, Outcome};
use stage::{CudaStage, Stage};

pub(crate) use outcome::show;
#[cfg(target_os = "linux")]
pub(crate) use worker::run as run_worker;

/// Why a device could not be used.
type Failed = Box<dyn Error + Send + Sync>;

/// What the jobs of a process share.
struct Run<'r, S> {
    stage: S,
    config: &'r ReplayConfig,
    /// The number of jobs that have not finished their iterations.
    unfinished: &'r AtomicUsize,
    /// The seed of the next pattern.
    seed: AtomicU32,
    checked: AtomicU64,
    progress: &'r (dyn Fn() + Sync),
}

/// Replays `traces` together on a device, in processes of their own if that is asked for. A job
/// that has done its iterations goes on until all have. `progress` is told of each iteration of
/// those that were asked for.
///
/// # Errors
/// If the device cannot be used. A job that cannot go on stops alone; its outcome says why.
pub(crate) fn replay(
    device: DeviceName,
    traces: &[&Trace],
    config: &ReplayConfig,
    progress: &(dyn Fn() + Sync),
) -> Result<Outcome, Failure> {
    let pool = pool_of(config)?;
    let outcome = match device {
        #[cfg(target_os = "linux")]
        _ if config.processes => return processes::replay(device, pool, traces, config, progress),
        DeviceName::Cuda(ordinal) => {
            let stage = CudaStage::open(ordinal, Options::new())?;
            let found = discover().devices.into_iter().find(|device| device.ordinal == ordinal);
            let name = found.map_or_else(String::new, |device| device.name);
            in_threads(stage, name, pool, traces, config, progress)
        }
        #[cfg(target_os = "linux")]
        DeviceName::Host => {
            let stage =
                stage::HostStage::open().map_err(|error| Failure::OnDevice(error.into()))?;
            in_threads(stage, "host".to_owned(), pool, traces, config, progress)
        }
        _ => return Err(Failure::NotHere),
    };
    outcome.map_err(Failure::OnDevice)
}

/// The pool that the jobs share, wherever its books are, and the name of its policy.
type Shared = (PoolConfig, &'static str);

fn pool_of(config: &ReplayConfig) -> Result<Shared, Failure> {
    let policy = config.policy.policy(config.iterations).ok_or(Failure::UnmanagedOnDevice)?;
    let name = policy.name();
    let pool = PoolConfig::new(config.budget)
        .policy(policy)
        .hand_over(config.hand_over)
        .fewest_calls(config.fewest_calls);
    Ok(match config.region {
        Some(region) => (pool.region_size(region), name),
        None => (pool, name),
    })
}

fn in_threads<S: Stage>(
    stage: S,
    device: String,
    (pool, policy): Shared,
    traces: &[&Trace],
    config: &ReplayConfig,
    progress: &(dyn Fn() + Sync),
) -> Result<Outcome, Failed>
where
    S::Device: Clone,
{
    let pool = Pool::new(stage.device().clone(), pool)?;
    let unfinished = AtomicUsize::new(traces.len());
    let run = Run::new(stage, config, &unfinished, 1, progress);
    let players = traces.iter().zip(names(traces)).enumerate().map(|(index, (trace, name))| {
        let terms = config.jobs.get(index).cloned().unwrap_or_default();
        Player::join(&run, &pool, name, terms, trace)
    });
    let players: Vec<Player<'_, S>> = players.collect::<Result<_, _>>()?;
    measure_calls(true);
    let _ = take_call_costs();
    let started = Instant::now();
    let jobs = play(players)?;
    let mismatches = run.stage.mismatches()?;
    let window = started.elapsed();
    let calls = take_call_costs();
    measure_calls(false);
    let snapshot = pool.snapshot();
    Ok(Outcome {
        device,
        policy,
        budget: snapshot.budget,
        region: pool.region_size(),
        window,
        // Under a fixed budget no memory goes back to the device, so the bytes held now are the
        // peak.
        held: snapshot.held,
        counts: snapshot.counts,
        checked: run.checked.load(Ordering::Relaxed),
        mismatches,
        calls,
        jobs,
    })
}

/// Each in a thread of its own, until all are done.
fn play<S: Stage>(players: Vec<Player<'_, S>>) -> Result<Vec<JobOutcome>, Failed> {
    let jobs = Mutex::new(Vec::with_capacity(players.len()));
    std::thread::scope(|scope| {
        let play = players.into_iter().enumerate().map(|(index, player)| {
            let jobs = &jobs;
            scope.spawn(move || {
                let outcome = player.play();
                if let Ok(mut jobs) = jobs.lock() {
                    jobs.push((index, outcome));
                }
            })
        });
        let threads: Vec<_> = play.collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Failure::Thread))
    })?;
    let mut jobs: Vec<(usize, JobOutcome)> = jobs.into_inner().unwrap_or_default();
    jobs.sort_by_key(|&(index, _)| index);
    Ok(jobs.into_iter().map(|(_, job)| job).collect())
}

impl<'r, S> Run<'r, S> {
    fn new(
        stage: S,
        config: &'r ReplayConfig,
        unfinished: &'r AtomicUsize,
        first_seed: u32,
        progress: &'r (dyn Fn() + Sync),
    ) -> Self {
        let (seed, checked) = (AtomicU32::new(first_seed), AtomicU64::new(0));
        Self { stage, config, unfinished, seed, checked, progress }
    }
}
