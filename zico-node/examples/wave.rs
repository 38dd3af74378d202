//! A job in a process of its own, under the broker that `ZICO_SOCKET` names: `zico run -- wave 300
//! 100`.
//!
//! It keeps a tenth of so many MiB. In each of its iterations its memory rises to the whole and
//! falls again, as a training job's does over the forward and the backward pass; all of it is
//! written, and checked before it is freed.

use std::error::Error;
use std::time::Duration;
use std::{env, path::PathBuf};

use zico_core::{Bytes, JobConfig, Lifetime, Request};
use zico_node::Client;
use zico_node::host::{HostConfig, HostDevice};

/// How often what is waited for is looked at.
const LOOK: Duration = Duration::from_millis(1);
/// How long a step of an iteration takes.
const STEP: Duration = Duration::from_millis(400);
/// The steps up, and down again.
const STEPS: u64 = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let peak = Bytes::mib(args.next().map_or(Ok(300), |mib| mib.parse())?);
    let iterations = args.next().map_or(Ok(100), |count| count.parse())?;
    let socket: PathBuf = env::var_os("ZICO_SOCKET").ok_or("run it by `zico run`")?.into();
    let name = env::var("ZICO_JOB_NAME").unwrap_or_default();
    let priority = env::var("ZICO_PRIORITY").map_or(Ok(0), |priority| priority.parse())?;

    // This process's own device: it maps what the broker's budget has room for.
    let device = HostDevice::new(HostConfig::new())?;
    let pool = Client::connect(device.clone(), &socket)?;
    let job = pool.join(JobConfig::new(name).priority(priority), device.add_stream())?;

    let part = Bytes::new(peak.value() / (STEPS + 1));
    let weights = job.alloc_blocking(Request::new(part, Lifetime::Persistent), LOOK)?;
    device.fill(weights.address(), part, 0)?;
    for iteration in 0..iterations {
        job.begin_blocking(None, LOOK)?; // waits for its turn
        let mut activations = Vec::new();
        for step in 1..=STEPS {
            let block = job.alloc_blocking(Request::new(part, Lifetime::Iteration), LOOK)?;
            device.fill(block.address(), part, iteration * 100 + step)?;
            activations.push((block, iteration * 100 + step));
            std::thread::sleep(STEP);
        }
        while let Some((block, pattern)) = activations.pop() {
            if !device.verify(block.address(), part, pattern)? {
                return Err("somebody else has written to this job's memory".into());
            }
            job.free(block)?;
            std::thread::sleep(STEP);
        }
        job.end()?;
    }
    if !device.verify(weights.address(), part, 0)? {
        return Err("somebody else has written to what this job keeps".into());
    }
    job.free(weights)?;
    println!("{iterations} iterations, and every byte as it was written");
    Ok(())
}
