//! Recorded jobs on a CUDA device, in real time.
//!
//! Each job is a thread with a stream of its own. What it allocates it fills, on the stream, with a
//! pattern that no other block has, and before it frees it, it has the pattern checked there; a
//! recorded launch is a kernel that takes as long. Memory that two jobs owned at once, or that was
//! handed over too early, shows as words that differ from the pattern.

mod job;
mod outcome;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use zico_core::{Pool, PoolConfig};
use zico_cuda::{CudaDevice, Options, Probe, discover, measure_calls, take_call_costs};
use zico_mock::replay::{ReplayConfig, names};
use zico_mock::trace::Trace;

use crate::failure::Failure;
use job::Player;
use outcome::{JobOutcome, Outcome};

pub(crate) use outcome::show;

/// What the threads of a replay share.
struct Run<'r> {
    device: CudaDevice,
    probe: Probe,
    pool: Pool<CudaDevice>,
    config: &'r ReplayConfig,
    /// The number of jobs that have not finished their iterations.
    unfinished: AtomicUsize,
    /// The seed of the next pattern.
    seed: AtomicU32,
    checked: AtomicU64,
    progress: &'r (dyn Fn() + Sync),
}

/// Replays `traces` together on a device. A job that has done its iterations goes on until all
/// have. `progress` is told of each iteration of those that were asked for.
///
/// # Errors
/// If the device cannot be used. A job that cannot go on stops alone; its outcome says why.
pub(crate) fn replay(
    ordinal: u32,
    traces: &[&Trace],
    config: &ReplayConfig,
    progress: &(dyn Fn() + Sync),
) -> Result<Outcome, Failure> {
    let policy = config.policy.policy(config.iterations).ok_or(Failure::UnmanagedOnCuda)?;
    let device = CudaDevice::open(ordinal, Options::new())?;
    let probe = Probe::load(&device)?;
    let name = policy.name();
    let mut pool = PoolConfig::new(config.budget).policy(policy).hand_over(config.hand_over);
    if let Some(region) = config.region {
        pool = pool.region_size(region);
    }
    let pool = Pool::new(device.clone(), pool)?;
    let run = Run {
        device,
        probe,
        pool,
        config,
        unfinished: AtomicUsize::new(traces.len()),
        seed: AtomicU32::new(1),
        checked: AtomicU64::new(0),
        progress,
    };
    let players = traces.iter().zip(names(traces)).enumerate().map(|(index, (trace, name))| {
        let terms = config.jobs.get(index).cloned().unwrap_or_default();
        Player::join(&run, name, terms, trace)
    });
    let players: Vec<Player<'_>> = players.collect::<Result<_, _>>()?;
    measure_calls(true);
    let _ = take_call_costs();
    let started = Instant::now();
    let jobs = Mutex::new(Vec::with_capacity(traces.len()));
    std::thread::scope(|scope| {
        let threads: Vec<_> = players
            .into_iter()
            .enumerate()
            .map(|(index, player)| {
                let jobs = &jobs;
                scope.spawn(move || {
                    let outcome = player.play();
                    if let Ok(mut jobs) = jobs.lock() {
                        jobs.push((index, outcome));
                    }
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Failure::Thread))
    })?;
    let mut jobs: Vec<(usize, JobOutcome)> = jobs.into_inner().unwrap_or_default();
    jobs.sort_by_key(|&(index, _)| index);
    finish(ordinal, name, &run, started, jobs.into_iter().map(|(_, job)| job).collect())
}

fn finish(
    ordinal: u32,
    policy: &'static str,
    run: &Run<'_>,
    started: Instant,
    jobs: Vec<JobOutcome>,
) -> Result<Outcome, Failure> {
    let mismatches = run.probe.mismatches()?;
    let window = started.elapsed();
    let calls = take_call_costs();
    measure_calls(false);
    let found = discover().devices.into_iter().find(|device| device.ordinal == ordinal);
    let snapshot = run.pool.snapshot();
    Ok(Outcome {
        device: found.map_or_else(String::new, |device| device.name),
        policy,
        budget: snapshot.budget,
        region: run.pool.region_size(),
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
