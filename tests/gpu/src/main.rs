//! The suite for a machine with a GPU; `tests/gpu/run` runs it.
//!
//! `zico-gpu [PART...]`: `conformance`, `costs`, `leases`, `sharing`, `processes`, `memory`; all of
//! them without any. Ends with code 1 if one fails.

use std::env;
use std::error::Error;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use zico_conformance::checks;
use zico_core::{
    Bytes, Class, Device, DeviceError, HandOver, Lifetime, Pool, PoolConfig, Request, Ticks,
};
use zico_cuda::{
    CallCost, CudaDevice, CudaMemory, CudaRange, Options, Pattern, Share, discover, measure_calls,
    take_call_costs,
};
use zico_gpu::CudaBench;
use zico_gpu::patterns::{Waves, share};

type Done = Result<(), Box<dyn Error + Send + Sync>>;

type Part = (&'static str, fn() -> Done);

const PARTS: [Part; 6] = [
    ("conformance", conformance),
    ("costs", costs),
    ("leases", leases),
    ("sharing", sharing),
    ("processes", processes),
    ("memory", memory),
];

/// Says to a process that it is the second one of `processes`.
const SECOND: &str = "zico-gpu-second";
/// What goes from one process to the other.
const SHARED: Bytes = Bytes::mib(64);

fn main() -> ExitCode {
    let wanted: Vec<String> = env::args().skip(1).collect();
    if wanted.first().is_some_and(|first| first == SECOND) {
        return report("second process", second_process());
    }
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        eprintln!("there is no part {unknown:?}: {}", PARTS.map(|(name, _)| name).join(", "));
        return ExitCode::from(2);
    }
    let found = discover();
    let Some(device) = found.devices.first() else {
        let trouble = found.trouble.map_or_else(String::new, |trouble| format!(": {trouble}"));
        eprintln!("no CUDA device{trouble}");
        return ExitCode::from(2);
    };
    let version = found.driver.map_or_else(String::new, |version| version.to_string());
    println!("{}, {}, driver for CUDA {version}", device.name, device.memory);
    let mut code = ExitCode::SUCCESS;
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("\n## {name}\n");
            let started = Instant::now();
            if report(name, part()) == ExitCode::SUCCESS {
                println!("\n{name}: all is well, {:.1} s", started.elapsed().as_secs_f64());
            } else {
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn report(part: &str, done: Done) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\n{part}: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A failure if something is not so.
fn ensure(holds: bool, what: impl Into<String>) -> Done {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

fn open() -> Result<CudaBench, zico_cuda::CudaError> {
    CudaBench::open(0, Options::new())
}

/// The suite that every device has to pass. A check that fails says which clause in a panic.
fn conformance() -> Done {
    let device = open()?;
    let mut failed = Vec::new();
    for (name, check) in checks() {
        println!("checking that {name}");
        let run = std::panic::AssertUnwindSafe(|| check(&device));
        if std::panic::catch_unwind(run).is_err() {
            failed.push(name);
        }
    }
    ensure(failed.is_empty(), format!("not so: {}", failed.join("; ")))
}

/// What each call of the driver takes, by the size of the memory.
fn costs() -> Done {
    const TIMES: u64 = 32;
    let bench = open()?;
    let device = &bench.device;
    let whole = Bytes::mib(256);
    let range = device.reserve(whole, whole)?;
    println!("mean (longest) of {TIMES} calls\n");
    println!("| size | create | map | set access | unmap | release |");
    println!("|---|---|---|---|---|---|");
    measure_calls(true);
    for mib in [2, 4, 8, 16, 32, 64, 128, 256] {
        let size = Bytes::mib(mib).at_least(device.caps().granularity);
        let _ = take_call_costs();
        for _ in 0..TIMES {
            let memory = device.create(size)?;
            device.map(&range, Bytes::ZERO, &[&memory])?;
            device.unmap(&range, Bytes::ZERO, size)?;
            device.destroy(memory).map_err(|refused| refused.error)?;
        }
        let costs = take_call_costs();
        let functions = ["cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"];
        println!("| {size} | {} |", functions.map(|function| cell(&costs, function)).join(" | "));
    }
    device.release(range).map_err(|refused| refused.error)?;
    let stream = device.add_stream()?;
    let _ = take_call_costs();
    for _ in 0..1000 {
        let event = device.record(stream)?;
        device.order_after(stream, &event)?;
        device.query(&event)?;
    }
    device.synchronize()?;
    let costs = take_call_costs();
    measure_calls(false);
    println!("\n| | mean (longest) of 1000 |\n|---|---|");
    for function in ["cuEventRecord", "cuStreamWaitEvent", "cuEventQuery", "cuCtxGetCurrent"] {
        println!("| {function} | {} |", cell(&costs, function));
    }
    Ok(())
}

fn cell(costs: &[CallCost], function: &str) -> String {
    let cost = costs.iter().find(|cost| cost.function == function);
    cost.map_or_else(|| "-".to_owned(), |cost| format!("{} ({})", cost.mean(), cost.longest))
}

/// What a job pays for a region: with and without calls of the driver.
fn leases() -> Done {
    const TIMES: u32 = 200;
    let bench = open()?;
    let pool = Pool::new(bench.device.clone(), PoolConfig::new(Bytes::mib(512)))?;
    let job = pool.join("leases", bench.device.add_stream()?)?;
    let region = pool.region_size();
    let pair = || -> Done {
        let block = job.alloc(Request::new(region, Lifetime::Iteration))?;
        job.free(block)?;
        Ok(())
    };
    let timed = |each: &dyn Fn() -> Done| -> Result<f64, Box<dyn Error + Send + Sync>> {
        let started = Instant::now();
        (0..TIMES).try_for_each(|_| each())?;
        Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES))
    };
    let calls = |before: zico_core::Counts| {
        let now = pool.snapshot().counts;
        now.creates + now.maps + now.unmaps - before.creates - before.maps - before.unmaps
    };
    pair()?;
    let before = pool.snapshot().counts;
    let kept = timed(&pair)?;
    ensure(calls(before) == 0, "a region that stays mapped needed a driver call")?;
    let before = pool.snapshot().counts;
    let anew = timed(&|| {
        pair()?;
        // Fences what was given up, and waits until the device has passed that.
        pool.poll()?;
        bench.device.synchronize()?;
        pool.trim(Bytes::ZERO)?;
        Ok(())
    })?;
    ensure(calls(before) >= u64::from(TIMES), "memory that was given back came from nowhere")?;
    println!("| a region of {region}, allocated and freed | us |\n|---|---|");
    println!("| it stays mapped: no call but its fences | {kept:.2} |");
    println!("| created, mapped, waited for, unmapped and given back | {anew:.2} |");
    Ok(())
}

/// Jobs that share memory, with patterns in it.
fn sharing() -> Done {
    println!(
        "| hand-over | iterations | patterns checked | words wrong | held | sum of peaks | maps | unmaps | s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let bench = open()?;
    let block = Bytes::mib(16);
    let budget = bench.device.memory_info()?.0.value() / 2;
    let budget = Bytes::new(budget).min(Bytes::mib(192));
    for hand_over in [HandOver::Fenced, HandOver::Isolated] {
        let (jobs, iterations, work) = (3, iterations(), Ticks::micros(100));
        let waves = Waves { budget, block, hand_over, jobs, iterations, work };
        let outcome = share(&bench, &waves)?;
        println!(
            "| {hand_over:?} | {jobs} x {iterations} | {} | {} | {} | {} | {} | {} | {:.2} |",
            outcome.checked,
            outcome.mismatches,
            outcome.most_held,
            outcome.sum_of_peaks,
            outcome.counts.maps,
            outcome.counts.unmaps,
            outcome.time.as_secs_f64(),
        );
        ensure(outcome.mismatches == 0, "memory was not the job's own")?;
        ensure(outcome.most_held <= budget, "more was held than the budget")?;
        ensure(outcome.sum_of_peaks > budget, "nothing was shared")?;
    }
    Ok(())
}

/// `ZICO_GPU_ITERATIONS`, or many.
fn iterations() -> u32 {
    env::var("ZICO_GPU_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Memory goes to another process and back, with patterns in it.
fn processes() -> Done {
    let bench = CudaBench::open(0, Options::new().shareable(true))?;
    let memory = bench.create(SHARED)?;
    let (_range, pattern) = mapped(&bench, &memory)?;
    let stream = bench.device.add_stream()?;
    bench.probe.fill(stream, pattern(11))?;
    bench.device.synchronize()?;
    let descriptor = bench.device.export(&memory)?;
    let status =
        Command::new(env::current_exe()?).arg(SECOND).stdin(Stdio::from(descriptor)).status()?;
    ensure(status.success(), "the second process has failed")?;
    bench.probe.check(stream, pattern(12))?;
    ensure(bench.probe.mismatches()? == 0, "what the second process wrote is not here")?;
    println!("{SHARED} went to another process, which found and replaced its contents");
    Ok(())
}

fn second_process() -> Done {
    let bench = CudaBench::open(0, Options::new().shareable(true))?;
    let memory = bench.device.import(std::io::stdin().as_fd(), SHARED)?;
    let (_range, pattern) = mapped(&bench, &memory)?;
    let stream = bench.device.add_stream()?;
    bench.probe.check(stream, pattern(11))?;
    ensure(bench.probe.mismatches()? == 0, "what the first process wrote is not here")?;
    bench.probe.fill(stream, pattern(12))?;
    Ok(bench.device.synchronize()?)
}

fn mapped(
    bench: &CudaBench,
    memory: &CudaMemory,
) -> Result<(CudaRange, impl Fn(u32) -> Pattern + use<>), zico_cuda::CudaError> {
    let range = bench.reserve(SHARED, bench.caps().granularity)?;
    bench.map(&range, Bytes::ZERO, &[memory])?;
    let addr = bench.base(&range);
    Ok((range, move |seed| Pattern { addr, len: SHARED, stride: 4, seed }))
}

/// All the memory there is, and no more.
fn memory() -> Done {
    let device = CudaDevice::open(0, Options::new())?;
    let (free, total) = device.memory_info()?;
    let unit = device.caps().granularity;
    let piece = Bytes::new((total.value() / 64).next_multiple_of(unit.value()));
    let mut pieces = Vec::new();
    let error = loop {
        match device.create(piece) {
            Ok(memory) => pieces.push(memory),
            Err(error) => break error,
        }
        ensure(pieces.len() <= 64, "more memory than there is")?;
    };
    let had = pieces.len();
    println!("{free} of {total} free; {had} pieces of {piece}, then: {error}");
    ensure(error.class() == Class::OutOfMemory, "the end of memory is another error")?;
    for memory in pieces {
        device.destroy(memory).map_err(|refused| refused.error)?;
    }
    ensure(device.memory_info()?.0 >= free.saturating_sub(piece), "memory did not come back")?;
    let again = device.create(piece)?;
    Ok(device.destroy(again).map_err(|refused| refused.error)?)
}
