//! How fast a job goes to the host and comes back, beside copies of the host itself.
//!
//! ```text
//! cargo run --release -p zico-cuda --example suspend -- 512 [0]
//! ```
//!
//! The bytes are copied a region at a time, as those of the job are.
//!
//! The first number is how many MiB the job has, the second how many MiB of the host the pool keeps
//! for the next time; as many unless it is given. Each round suspends and resumes the job, and
//! copies as many bytes from one buffer of the host to another; the best of each counts.

use std::error::Error;
use std::time::{Duration, Instant};

use zico_core::{Bytes, Device, Lifetime, Passed, Pool, PoolConfig, Request, Resume, Ticks};
use zico_cuda::{CudaDevice, Options, Pattern, Probe};

const ROUNDS: u32 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mib = std::env::args().nth(1).map_or(Ok(512), |text| text.parse())?;
    let bytes = Bytes::mib(mib);
    let device = CudaDevice::open(0, Options::new())?;
    let (probe, stream) = (Probe::load(&device)?, device.add_stream()?);
    // What is on the host at a time is kept for the next round, unless a second number says else.
    let spare = std::env::args().nth(2).map_or(Ok(mib), |text| text.parse())?;
    let pool = Pool::new(device, PoolConfig::new(bytes).host_spare(Bytes::mib(spare)))?;
    let job = pool.join("job", stream)?;
    let block = job.alloc(Request::new(bytes, Lifetime::Persistent))?;
    let pattern = Pattern { addr: block.address(), len: block.bytes(), stride: 512, seed: 1 };
    let len = usize::try_from(bytes.value())?;
    let (from, mut to) = (vec![1_u8; len], vec![0_u8; len]);
    let [mut out, mut back, mut plain] = [Duration::MAX; 3];
    for round in 0..ROUNDS {
        probe.fill(stream, pattern)?;
        probe.spin(stream, Ticks::ZERO)?;
        probe.mismatches()?;
        let began = Instant::now();
        job.suspend()?;
        while !job.held().total().is_zero() {
            pool.poll()?;
        }
        out = out.min(began.elapsed());
        let began = Instant::now();
        while job.resume()? != Resume::Done {
            pool.poll()?;
        }
        let copied = pool.device().record(stream)?;
        while pool.device().query(&copied)? == Passed::NotYet {}
        back = back.min(began.elapsed());
        probe.check(stream, pattern)?;
        if probe.mismatches()? != 0 {
            return Err("what came back is not what went".into());
        }
        pool.poll()?;
        let began = Instant::now();
        // As the regions lie: apart.
        let region = usize::try_from(pool.region_size().value())?;
        for (to, from) in to.chunks_mut(region).zip(from.chunks(region)) {
            to.copy_from_slice(from);
        }
        let copied = began.elapsed();
        // In the first round the host has yet to find pages for it.
        plain = if round == 0 { plain } else { plain.min(copied) };
        assert!(to[len / 2] == 1, "the copy has been made");
    }
    let rate = |time: Duration| bytes.value() as f64 / time.as_secs_f64() / 1e9;
    println!("{:<22} {:>8}  {:>10}", "", "GB/s", "of a copy");
    for (name, time) in [("to the host", out), ("back", back), ("a copy on the host", plain)] {
        println!("{name:<22} {:>8.2}  {:>9.0}%", rate(time), 100.0 * rate(time) / rate(plain));
    }
    Ok(())
}
