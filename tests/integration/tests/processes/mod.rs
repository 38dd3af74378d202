//! Real processes under a real broker, on host memory that is really mapped into several of them:
//! they train, are killed at each step, stopped, and what they had comes back.
//!
//! A job's process fills each block with a pattern and checks it when it frees it, so that a byte
//! with two owners fails the job that had it. The memory that the broker holds is counted by the
//! kernel.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod brokers;
mod deaths;
mod sharing;
mod users;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use zico_core::{Activity, JobSnapshot, Snapshot};
use zico_node::Observer;

const NODE: &str = env!("CARGO_BIN_EXE_node");
const REGION: u64 = 64 << 10;
/// What a job of `node train` takes at its peak: 12 blocks of 24 to 288 KiB, and what it keeps.
const PEAK: u64 = 32;
const KEPT: u64 = 3;

/// A broker in a process of its own. Killed when it is dropped.
struct Broker {
    folder: PathBuf,
    process: Child,
    budget: u64,
}

impl Broker {
    fn new(name: &str, budget: u64) -> Self {
        Self::for_users(name, budget, &[])
    }

    fn for_users(name: &str, budget: u64, users: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("zico-{}-{name}", std::process::id()));
        let process = serve_users(&folder.join("socket"), budget, users);
        Self { folder, process, budget }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn train(&self, name: &str, iterations: u32, options: &[&str]) -> Trainer {
        self.train_by(Command::new(NODE), name, iterations, options)
    }

    fn train_by(
        &self,
        mut node: Command,
        name: &str,
        iterations: u32,
        options: &[&str],
    ) -> Trainer {
        let seed = fastrand::u32(..).to_string();
        let mut child = node
            .args(["train", self.socket().to_str().unwrap(), name, &iterations.to_string(), &seed])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Trainer { child, out }
    }

    fn books(&self) -> Snapshot {
        Observer::connect(&self.socket()).unwrap().snapshot().unwrap()
    }

    /// The bytes of regions that the kernel says the broker holds.
    fn held_by_the_kernel(&self) -> u64 {
        zico_node::host::held_by_the_kernel(self.process.id()).value()
    }

    /// The memory of its own and the descriptors that the broker has, when all connections have
    /// gone.
    fn own(&self) -> (u64, usize) {
        // Those of connections go a little later.
        std::thread::sleep(Duration::from_millis(300));
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        // Not what it shares: the regions are files, which are mapped nowhere.
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        (kib << 10, descriptors.count())
    }

    /// Waits until a job has nothing any more and is forgotten. How long that took.
    fn until_gone(&self, job: &str) -> Duration {
        let began = Instant::now();
        loop {
            let books = self.books();
            if books.jobs.iter().all(|other| &*other.name != job) {
                return began.elapsed();
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{books}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Waits until all jobs are gone, and everything is back.
    fn until_all_is_back(&self) {
        let names: Vec<String> = self.books().jobs.iter().map(|job| job.name.to_string()).collect();
        for name in names {
            self.until_gone(&name);
        }
        let books = self.books();
        assert_eq!((books.jobs.len(), books.free), (0, books.held), "{books}");
    }
}

/// A count that falls when connections have ended, which is a little later: once it is at most
/// `enough`, or has not fallen for so long.
fn settled(count: impl Fn() -> usize, enough: usize, patience: Duration) -> usize {
    let (mut least, mut since) = (count(), Instant::now());
    while least > enough && since.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(1));
        let now = count();
        if now < least {
            (least, since) = (now, Instant::now());
        }
    }
    least
}

fn serve(socket: &Path, budget: u64) -> Child {
    serve_users(socket, budget, &[])
}

fn serve_users(socket: &Path, budget: u64, users: &[&str]) -> Child {
    let mut process = Command::new(NODE)
        .args(["serve", socket.to_str().unwrap(), &budget.to_string()])
        .args(users)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "serves\n");
    process
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A job in a process of its own. Killed when it is dropped.
struct Trainer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Trainer {
    /// Waits for a line that begins so. The rest of it; none if the process has ended before.
    fn until(&mut self, start: &str) -> Option<String> {
        let mut line = String::new();
        while self.out.read_line(&mut line).unwrap() > 0 {
            if let Some(rest) = line.strip_prefix(start) {
                return Some(rest.trim().to_owned());
            }
            line.clear();
        }
        None
    }

    /// Waits for its end, which has to be good. How many messages it has sent.
    fn finish(mut self) -> u64 {
        let messages = self.until("messages ");
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut said).unwrap();
        assert!(status.success(), "{status}: {said}");
        messages.unwrap().parse().unwrap()
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
