//! What it costs that the books are in another process: messages and microseconds, beside a pool's
//! own books.
//!
//! ```text
//! cargo run --release -p zico-node --example messages
//! ```
//!
//! The broker is a thread of this process here; the sockets are those of several.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zico_core::{Bytes, Device, Job, Lifetime, Pool, PoolConfig, Request};
use zico_node::host::{HostConfig, HostDevice};
use zico_node::{Client, Server, ServerConfig};

const REGION: Bytes = Bytes::kib(64);
const TURNS: usize = 2000;
/// The regions that a wave takes.
const WAVE: u32 = 256;

fn device() -> Result<HostDevice, Box<dyn Error>> {
    Ok(HostDevice::new(HostConfig::new().granularity(REGION).capacity(Bytes::mib(256)))?)
}

/// The median of the microseconds that each call takes.
fn median(mut call: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let began = Instant::now();
        call()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[TURNS / 2].as_secs_f64() * 1e6)
}

/// A region leased and given back.
fn lease(job: &Job<HostDevice>) -> Result<f64, Box<dyn Error>> {
    let request = Request::new(Bytes::kib(64), Lifetime::Iteration);
    median(|| {
        let block = job.alloc(request)?;
        job.free(block)?;
        Ok(())
    })
}

fn iteration(job: &Job<HostDevice>) -> Result<f64, Box<dyn Error>> {
    median(|| {
        job.begin_blocking(None, Duration::from_millis(1))?;
        job.end()?;
        Ok(())
    })
}

/// An iteration whose wave rises by a region at a time and falls again.
fn wave(job: &Job<HostDevice>) -> Result<f64, Box<dyn Error>> {
    let request = Request::new(REGION, Lifetime::Iteration);
    median(|| {
        job.begin_blocking(None, Duration::from_millis(1))?;
        let blocks = (0..WAVE).map(|_| job.alloc(request)).collect::<Result<Vec<_>, _>>()?;
        blocks.into_iter().rev().try_for_each(|block| job.free(block))?;
        job.end()?;
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = || PoolConfig::new(Bytes::mib(64)).region_size(REGION);
    let own_device = device()?;
    let own = Pool::new(own_device.clone(), pool())?;
    let own_job = own.join("own", own_device.add_stream())?;

    let folder = std::env::temp_dir().join(format!("messages-{}", std::process::id()));
    let socket = folder.join("socket");
    let (name, users) = ("host".to_owned(), Vec::new());
    let config = ServerConfig { socket: socket.clone(), pool: pool(), device: name, users };
    let mut server = Server::bind(config, device()?, Duration::ZERO)?;
    let (stops, stop) = rustix::pipe::pipe()?;
    let broker = std::thread::spawn(move || server.run(&stops));
    let messages = Arc::new(AtomicU64::new(0));
    let counted = messages.clone();
    let far_device = device()?;
    let far = Client::connect_probed(far_device.clone(), &socket, move |number, _| {
        counted.store(number, Ordering::Relaxed);
    })?;
    let far_job = far.join("far", far_device.add_stream())?;
    let per_turn = |before: u64| (messages.load(Ordering::Relaxed) - before) as f64 / TURNS as f64;

    println!(
        "{:<44} {:>10} {:>10} {:>9}",
        "microseconds, median", "in process", "broker", "messages"
    );
    let held = |job: &Job<HostDevice>| {
        median(|| {
            std::hint::black_box(job.held());
            Ok(())
        })
    };
    type Measure<'a> = &'a dyn Fn(&Job<HostDevice>) -> Result<f64, Box<dyn Error>>;
    let rows: [(&str, Measure<'_>, u32); 4] = [
        ("a question and its answer", &held, 1),
        ("a region leased and given back", &lease, 1),
        ("the same in a wave of 256 regions", &wave, WAVE),
        ("an empty iteration", &iteration, 1),
    ];
    for (what, measure, of) in rows {
        // The memory is there, and mapped.
        measure(&own_job)?;
        measure(&far_job)?;
        let near = measure(&own_job)? / f64::from(of);
        let before = messages.load(Ordering::Relaxed);
        let apart = measure(&far_job)? / f64::from(of);
        let messages = per_turn(before) / f64::from(of);
        println!("{what:<44} {near:>10.2} {apart:>10.2} {messages:>9.2}");
    }
    let created = median(|| {
        let memory = own_device.create(REGION)?;
        own_device.destroy(memory).map_err(|refused| refused.error)?;
        Ok(())
    })?;
    println!("{:<44} {created:>10.2}", "memory of a region created and destroyed");

    drop((far_job, far));
    drop(stop);
    broker.join().map_err(|_| "the broker has panicked")??;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
