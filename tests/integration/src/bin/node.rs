//! A process under a broker, or the broker itself: what tests of several processes start and kill.
//!
//! ```text
//! node serve SOCKET REGIONS                  a broker of so many regions of 64 KiB of host memory
//! node train SOCKET NAME ITERATIONS SEED     a job that fills its blocks with patterns and checks them
//!      [--die-at MESSAGE]                    it kills itself before it sends this message
//!      [--hold MILLISECONDS]                 each iteration keeps its peak for so long
//! ```
//!
//! A job prints a line when it has joined, one for each iteration, and at the end how many messages it has
//! sent. Exit code 1 if a pattern was wrong or a call failed for another reason than the broker's end.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use zico_core::{AllocError, Block, Bytes, Job, Lifetime, PoolConfig, Request};
use zico_node::host::{HostConfig, HostDevice};
use zico_node::{Client, Server, ServerConfig};

const REGION: Bytes = Bytes::kib(64);
const LOOK: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", socket, regions] => serve(socket, regions),
        ["train", socket, name, iterations, seed, ref options @ ..] => {
            train(socket, name, iterations, seed, options)
        }
        _ => Err("node serve SOCKET REGIONS | node train SOCKET NAME ITERATIONS SEED".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn device() -> Result<HostDevice, Box<dyn Error>> {
    Ok(HostDevice::new(HostConfig::new().granularity(REGION).capacity(Bytes::mib(256)))?)
}

/// Serves until its standard input is closed.
fn serve(socket: &str, regions: &str) -> Result<(), Box<dyn Error>> {
    use std::os::fd::AsFd;
    let budget = Bytes::new(REGION.value() * regions.parse::<u64>()?);
    let pool = PoolConfig::new(budget).region_size(REGION);
    let (socket, device_name) = (Path::new(socket).to_owned(), "host".to_owned());
    let config = ServerConfig { socket, pool, device: device_name, users: Vec::new() };
    let mut server = Server::bind(config, device()?, Duration::ZERO)?;
    println!("serves");
    let stop = std::io::stdin().as_fd().try_clone_to_owned()?;
    server.run(&stop)?;
    Ok(())
}

/// A live block with the seed of its pattern.
struct Held {
    block: Block,
    len: Bytes,
    seed: u64,
}

struct Trainer {
    job: Job<HostDevice>,
    device: HostDevice,
    rng: Rng,
}

impl Trainer {
    fn alloc(&mut self, len: Bytes, lifetime: Lifetime) -> Result<Held, Box<dyn Error>> {
        let block = loop {
            match self.job.alloc_blocking(Request::new(len, lifetime), LOOK) {
                Ok(block) => break block,
                // Another one may leave soon.
                Err(AllocError::OutOfMemory(_)) => std::thread::sleep(LOOK),
                Err(error) => return Err(error.into()),
            }
        };
        let seed = self.rng.u64(..);
        self.device.fill(block.address(), len, seed)?;
        Ok(Held { block, len, seed })
    }

    fn check(&self, held: &Held) -> Result<(), Box<dyn Error>> {
        match self.device.verify(held.block.address(), held.len, held.seed)? {
            true => Ok(()),
            false => Err(format!("wrong pattern at {}", held.block.address()).into()),
        }
    }

    fn free(&self, held: &Held) -> Result<(), Box<dyn Error>> {
        self.check(held)?;
        self.job.free(held.block).map_err(|error| error.to_string().into())
    }

    fn iteration(&mut self, kept: &[Held], hold: Duration) -> Result<(), Box<dyn Error>> {
        self.job.begin_blocking(None, LOOK)?;
        let mut held = Vec::new();
        for step in 1..=12 {
            // The same sizes each time, as training has them.
            held.push(self.alloc(Bytes::kib(step * 24), Lifetime::Iteration)?);
        }
        std::thread::sleep(hold);
        for block in held.iter().rev() {
            self.free(block)?;
        }
        self.job.end()?;
        kept.iter().try_for_each(|block| self.check(block))
    }
}

fn train(
    socket: &str,
    name: &str,
    iterations: &str,
    seed: &str,
    options: &[&str],
) -> Result<(), Box<dyn Error>> {
    let (mut die_at, mut hold) = (u64::MAX, Duration::ZERO);
    for pair in options.chunks(2) {
        match *pair {
            ["--die-at", message] => die_at = message.parse()?,
            ["--hold", milliseconds] => hold = Duration::from_millis(milliseconds.parse()?),
            _ => return Err(format!("unknown option {pair:?}").into()),
        }
    }
    let device = device()?;
    let messages = Arc::new(AtomicU64::new(0));
    let counted = messages.clone();
    let pool = Client::connect_probed(device.clone(), Path::new(socket), move |number| {
        counted.store(number, Ordering::Relaxed);
        if number >= die_at {
            // Never returns.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    })?;
    let job = pool.join(name, device.add_stream())?;
    println!("joined");
    let mut trainer = Trainer { job, device, rng: Rng::with_seed(seed.parse()?) };
    let kept = vec![
        trainer.alloc(Bytes::kib(100), Lifetime::Persistent)?,
        trainer.alloc(Bytes::kib(30), Lifetime::Persistent)?,
    ];
    for number in 0..iterations.parse::<u64>()? {
        trainer.iteration(&kept, hold)?;
        println!("iteration {number}");
    }
    kept.iter().try_for_each(|block| trainer.free(block))?;
    drop(trainer);
    drop(pool);
    println!("messages {}", messages.load(Ordering::Relaxed));
    Ok(())
}
