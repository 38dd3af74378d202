//! Each call of the driver fails once: no panic, at most one typed error, and in the end everything
//! has been released.

use std::time::Duration;

use zico_core::{
    AllocError, Begin, Block, Bytes, Job, Lifetime, Pool, PoolConfig, Request, Resume, Ticks,
};
use zico_cuda::{CudaDevice, Options, Pattern, Probe, StreamId};
use zico_gpu::patterns::AnyError;

use crate::driver::on_driver;

const TEST: &str = "faults::every_call_may_fail";
/// Out of memory, a failure that may pass, and an end of all.
const CODES: [u32; 3] = [2, 304, 999];

#[test]
fn every_call_may_fail() {
    let Some(log) = on_driver(TEST, &[], sessions) else { return };
    log.all_came_back();
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for call in log.calls() {
        *counts.entry(call.to_owned()).or_default() += 1;
    }
    // One session makes a third of the calls. How often it asks whether an event has passed varies.
    let faults = counts.iter().flat_map(|(call, &count)| {
        let most = if call == "cuEventQuery" { 8 } else { u32::MAX };
        (1..=count.div_ceil(3).min(most)).map(move |nth| (call, nth))
    });
    for (number, (call, nth)) in faults.enumerate() {
        let fault = format!("{call}:{nth}={}", CODES[number % CODES.len()]);
        let Some(log) = on_driver(TEST, &[("ZICO_DRIVER_FAULTS", &fault)], sessions) else {
            return;
        };
        log.all_came_back();
    }
}

/// Three sessions, of which a fault may end one.
fn sessions() {
    let failures: Vec<AnyError> = (0..3).filter_map(|_| session().err()).collect();
    println!("{failures:?}");
    assert!(failures.len() <= 1, "{failures:?}");
}

/// Two jobs take turns with the same memory, and some of it goes back to the device.
fn session() -> Result<(), AnyError> {
    let device = CudaDevice::open(0, Options::new())?;
    let probe = Probe::load(&device)?;
    let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::mib(6)))?;
    let streams = [device.add_stream()?, device.add_stream()?];
    let jobs = [pool.join("one", streams[0])?, pool.join("two", streams[1])?];
    for (seed, (job, &stream)) in (1..).zip(jobs.iter().zip(&streams)) {
        while !matches!(job.begin(None)?, Begin::Started) {
            pause(&pool)?;
        }
        let block = alloc(&pool, job)?;
        let pattern = Pattern { addr: block.address(), len: block.bytes(), stride: 512, seed };
        use_it(&probe, stream, pattern)?;
        job.free(block)?;
        job.end()?;
    }
    give_way(&pool, &probe, &jobs, streams[0])?;
    let mismatches = probe.mismatches()?;
    assert_eq!(mismatches, 0, "the jobs' memory is their own");
    pool.poll()?;
    pool.trim(Bytes::mib(2))?;
    device.memory_info()?;
    Ok(())
}

/// The first job goes to the host, the second uses all there is, and the first finds what it had.
fn give_way(
    pool: &Pool<CudaDevice>,
    probe: &Probe,
    [one, two]: &[Job<CudaDevice>; 2],
    stream: StreamId,
) -> Result<(), AnyError> {
    let kept = loop {
        match one.alloc(Request::new(Bytes::mib(3), Lifetime::Iteration)) {
            Err(AllocError::Busy(_)) => pause(pool)?,
            done => break done?,
        }
    };
    let pattern = Pattern { addr: kept.address(), len: kept.bytes(), stride: 512, seed: 7 };
    probe.fill(stream, pattern)?;
    one.suspend()?;
    let block = alloc(pool, two)?;
    two.free(block)?;
    while one.resume()? != Resume::Done {
        pause(pool)?;
    }
    probe.check(stream, pattern)?;
    one.free(kept)?;
    Ok(())
}

fn use_it(probe: &Probe, stream: StreamId, pattern: Pattern) -> Result<(), AnyError> {
    probe.fill(stream, pattern)?;
    probe.spin(stream, Ticks::millis(1))?;
    probe.check(stream, pattern)?;
    Ok(())
}

fn alloc(pool: &Pool<CudaDevice>, job: &Job<CudaDevice>) -> Result<Block, AnyError> {
    loop {
        match job.alloc(Request::new(Bytes::mib(5), Lifetime::Iteration)) {
            Err(AllocError::Busy(_)) => pause(pool)?,
            done => return Ok(done?),
        }
    }
}

fn pause(pool: &Pool<CudaDevice>) -> Result<(), AnyError> {
    std::thread::sleep(Duration::from_micros(500));
    pool.poll()?;
    Ok(())
}
