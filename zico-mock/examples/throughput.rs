//! How many launches and ownership marks a second the mock runs.
//!
//! `cargo run --release -p zico-mock --example throughput`
//!
//! Four streams, each with its own quarter of 8 GiB mapped in 2 MiB units, and 256 live claims of a
//! few KiB to 7 MiB, a quarter of which span four units. A step gives up the oldest claim, claims
//! its place anew and enqueues a launch; 32 launches are kept outstanding a stream. Three items a
//! step.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Instant;

use zico_core::{Addr, Bytes, Device, Ticks};
use zico_mock::{Claim, MockConfig, MockDevice, MockStream, Utilisation};

const STEPS: u64 = 1_000_000;
const LIVE: u64 = 256;
const OUTSTANDING: u64 = 32;

struct Job {
    stream: MockStream,
    number: u16,
    base: Addr,
    live: VecDeque<(u64, Claim)>,
}

impl Job {
    /// Gives up the oldest claim, claims its place anew and launches.
    fn step(&mut self, device: &MockDevice, step: u64) -> Result<(), Box<dyn Error>> {
        let oldest = if step < LIVE { None } else { self.live.pop_front() };
        let place = match oldest {
            Some((place, claim)) => {
                device.disown(self.stream, claim).map_err(|refused| refused.error)?;
                place
            }
            None => step,
        };
        // Places are 8 MiB apart. Every fourth claim spans units, the others lie in one.
        let addr = self.base.checked_add(Bytes::mib(8 * place)).ok_or("no such place")?;
        let len = if place.is_multiple_of(4) { Bytes::mib(7) } else { Bytes::kib(4 * place + 1) };
        let claim = device.own(self.stream, self.number.into(), addr, len)?;
        self.live.push_back((place, claim));
        let work = Ticks::new(1_000 + step * 7_919 % 50_000);
        let utilisation = Utilisation::new(300 + 150 * self.number).ok_or("too much")?;
        device.launch(self.stream, work, utilisation)?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(8)))?;
    let unit = device.caps().granularity;
    let range = device.reserve(Bytes::gib(8), unit)?;
    for at in 0..4096 {
        device.map(&range, Bytes::mib(2 * at), &[&device.create(unit)?])?;
    }
    let base = device.base(&range);
    let mut jobs = Vec::new();
    for number in 0..4 {
        let base = base.checked_add(Bytes::gib(2 * u64::from(number))).ok_or("no such address")?;
        jobs.push(Job { stream: device.add_stream(), number, base, live: VecDeque::new() });
    }
    let start = Instant::now();
    for step in 0..STEPS / 4 {
        for job in &mut jobs {
            while device.outstanding(job.stream) >= OUTSTANDING
                && let Some(moment) = device.next_completion()
            {
                device.advance_to(moment);
            }
            job.step(&device, step)?;
        }
    }
    let end = device.run_until_idle();
    let seconds = start.elapsed().as_secs_f64();
    let items = 3 * STEPS;
    println!(
        "{items} items, {} of virtual time, in {seconds:.2} s: {:.2} million items/s, {} violations",
        end,
        items as f64 / seconds / 1e6,
        device.violation_count()
    );
    Ok(())
}
