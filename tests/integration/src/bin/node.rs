//! A process under a broker, or the broker itself: what tests of several processes start and kill.
//!
//! ```text
//! node serve SOCKET REGIONS [USER..]         a broker of so many regions of 64 KiB of host memory,
//!                                            for other users as well
//! node budget SOCKET REGIONS                 changes the budget
//! node books SOCKET                          prints the broker's books
//! node train SOCKET NAME ITERATIONS SEED     a job that fills its blocks and checks them
//!      [--die-at MESSAGE]                    it kills itself before it sends this message
//!      [--hold MILLISECONDS]                 each iteration keeps its peak for so long
//!      [--expect clear]                      what it gets first nobody has written to
//!      [--keep KIB]                          it keeps so much more
//!      [--slice MILLISECONDS]                it is preemptible: uses its blocks in iterations only
//! ```
//!
//! A job prints a line when it has joined, one for each iteration, and at the end how many messages
//! it has sent. Exit code 1 if a pattern was wrong or a call failed for another reason than the
//! broker's end.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use zico_core::{AllocError, Block, Bytes, Job, JobConfig, Lifetime, PoolConfig, Request, Ticks};
use zico_node::host::{HostConfig, HostDevice};
use zico_node::wire::Up;
use zico_node::{Client, Observer, Server, ServerConfig};

const REGION: Bytes = Bytes::kib(64);
const LOOK: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", socket, regions, ref users @ ..] => serve(socket, regions, users),
        ["budget", socket, regions] => budget(socket, regions),
        ["books", socket] => books(socket),
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

/// Prints the broker's books, and who waits.
fn books(socket: &str) -> Result<(), Box<dyn Error>> {
    let observer = Observer::connect(Path::new(socket))?;
    println!("waits for processes {:?}", observer.awaited_processes());
    println!("{}", observer.snapshot()?);
    observer.waits()?.iter().for_each(|waits| println!("{waits}"));
    Ok(())
}

/// Changes the budget.
fn budget(socket: &str, regions: &str) -> Result<(), Box<dyn Error>> {
    let observer = Observer::connect(Path::new(socket))?;
    observer.set_budget(Bytes::new(REGION.value() * regions.parse::<u64>()?))??;
    Ok(())
}

/// Serves until its standard input is closed.
fn serve(socket: &str, regions: &str, users: &[&str]) -> Result<(), Box<dyn Error>> {
    use std::os::fd::AsFd;
    let budget = Bytes::new(REGION.value() * regions.parse::<u64>()?);
    let pool = PoolConfig::new(budget).region_size(REGION);
    let (socket, device_name) = (Path::new(socket).to_owned(), "host".to_owned());
    let users = users.iter().map(|user| user.parse()).collect::<Result<Vec<u32>, _>>()?;
    let config = ServerConfig { socket, pool, device: device_name, users };
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
    /// None if the job is told that it is out of memory.
    fn try_alloc(
        &mut self,
        len: Bytes,
        lifetime: Lifetime,
    ) -> Result<Option<Held>, Box<dyn Error>> {
        let block = match self.job.alloc_blocking(Request::new(len, lifetime), LOOK) {
            Ok(block) => block,
            Err(AllocError::OutOfMemory(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let seed = self.rng.u64(..);
        self.device.fill(block.address(), len, seed)?;
        Ok(Some(Held { block, len, seed }))
    }

    fn alloc(&mut self, len: Bytes, lifetime: Lifetime) -> Result<Held, Box<dyn Error>> {
        loop {
            if let Some(held) = self.try_alloc(len, lifetime)? {
                return Ok(held);
            }
            // Another one may leave soon.
            std::thread::sleep(LOOK);
        }
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

    /// As much as it ever takes has not been written to by anybody.
    fn expect_clear(&self) -> Result<(), Box<dyn Error>> {
        let (len, lifetime) = (Bytes::kib(1024), Lifetime::Persistent);
        let block = self.job.alloc_blocking(Request::new(len, lifetime), LOOK)?;
        if !self.device.is_clear(block.address(), len)? {
            return Err("memory that somebody has written to".into());
        }
        self.job.free(block).map_err(|error| error.to_string().into())
    }

    /// What it keeps from one iteration to the next.
    fn keep(&mut self, more: u64) -> Result<Vec<Held>, Box<dyn Error>> {
        let mut kept = Vec::new();
        for kib in [100, 30, more].into_iter().filter(|&kib| kib > 0) {
            kept.push(self.alloc(Bytes::kib(kib), Lifetime::Persistent)?);
        }
        Ok(kept)
    }

    /// Whether it has come to its end: not if there was no memory for it.
    fn iteration(&mut self, kept: &[Held], hold: Duration) -> Result<bool, Box<dyn Error>> {
        self.job.begin_blocking(None, LOOK)?;
        kept.iter().try_for_each(|block| self.check(block))?;
        let (mut held, mut is_whole) = (Vec::new(), true);
        for step in 1..=12 {
            // The same sizes each time, as training has them.
            match self.try_alloc(Bytes::kib(step * 24), Lifetime::Iteration)? {
                Some(block) => held.push(block),
                None => is_whole = false,
            }
            if !is_whole {
                break;
            }
        }
        std::thread::sleep(hold);
        for block in held.iter().rev() {
            self.free(block)?;
        }
        kept.iter().try_for_each(|block| self.check(block))?;
        self.job.end()?;
        Ok(is_whole)
    }
}

/// What kind of message it is.
fn kind(message: &Up) -> String {
    let text = match message {
        Up::Request(_, request) => format!("{request:?}"),
        other => format!("{other:?}"),
    };
    text.chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

fn train(
    socket: &str,
    name: &str,
    iterations: &str,
    seed: &str,
    options: &[&str],
) -> Result<(), Box<dyn Error>> {
    let (mut die_at, mut hold, mut expects_clear) = (u64::MAX, Duration::ZERO, false);
    let (mut keep, mut slice) = (0, None);
    for pair in options.chunks(2) {
        match *pair {
            ["--die-at", message] => die_at = message.parse()?,
            ["--expect", "clear"] => expects_clear = true,
            ["--keep", kib] => keep = kib.parse()?,
            ["--slice", milliseconds] => slice = Some(Ticks::millis(milliseconds.parse()?)),
            ["--hold", milliseconds] => hold = Duration::from_millis(milliseconds.parse()?),
            _ => return Err(format!("unknown option {pair:?}").into()),
        }
    }
    let device = device()?;
    let messages = Arc::new(AtomicU64::new(0));
    let counted = messages.clone();
    let pool =
        Client::connect_probed(device.clone(), Path::new(socket), move |number, message| {
            counted.store(number, Ordering::Relaxed);
            if number >= die_at {
                println!("dies before {}", kind(message));
                // Never returns.
                let _ = rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                );
            }
        })?;
    let config = JobConfig::new(name);
    let config = slice.map_or(config.clone(), |slice| config.preemptible(slice));
    let job = pool.join(config, device.add_stream())?;
    println!("joined");
    let mut trainer = Trainer { job, device, rng: Rng::with_seed(seed.parse()?) };
    if expects_clear {
        trainer.expect_clear()?;
    }
    // One that is preemptible may be on the host between its iterations.
    if slice.is_some() {
        trainer.job.begin_blocking(None, LOOK)?;
    }
    let kept = trainer.keep(keep)?;
    if slice.is_some() {
        trainer.job.end()?;
    }
    for number in 0..iterations.parse::<u64>()? {
        while !trainer.iteration(&kept, hold)? {}
        println!("iteration {number}");
    }
    if slice.is_some() {
        trainer.job.begin_blocking(None, LOOK)?;
    }
    kept.iter().try_for_each(|block| trainer.free(block))?;
    drop(trainer);
    drop(pool);
    println!("messages {}", messages.load(Ordering::Relaxed));
    Ok(())
}
