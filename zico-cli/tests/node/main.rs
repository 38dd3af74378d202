//! A broker as a program, and the commands around it, with real processes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod cuda;
mod hold;
mod metrics;
mod people;
mod replay;
mod run;
mod serve;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use zico_core::{Bytes, Job, Lifetime, Pool, Request};
use zico_node::Client;
use zico_node::host::{HostConfig, HostDevice};

/// How often something is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(1);

/// The program, with nothing of this user's brokers in its environment.
fn zico() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zico"));
    command.stdin(Stdio::null()).env_remove("ZICO_SOCKET");
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Expects exit code 2 and these words in the message.
fn refused(command: &mut Command, words: &[&str]) {
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}{}", stdout(&output));
    assert!(output.stdout.is_empty() && !text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

/// A folder of one test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("zico-cli-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A broker's process.
struct Broker {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    /// What it said when it began to listen.
    line: String,
    socket: PathBuf,
    folder: Folder,
}

impl Broker {
    /// Of the host's memory, with regions of 64 KiB.
    fn host(budget: &str, more: &[&str]) -> Self {
        let mut command = zico();
        command.args(["serve", "--device", "host", "--budget", budget, "--region", "64KiB"]);
        command.args(more);
        Self::start(command)
    }

    /// Starts it at a socket of its own.
    fn start(command: Command) -> Self {
        Self::start_in(Folder::new(), command)
    }

    fn start_in(folder: Folder, mut command: Command) -> Self {
        let socket = folder.path().join("b.sock");
        command.arg("--socket").arg(&socket).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "it did not listen: {:?}", child.wait());
        Self { child, out, line, socket, folder }
    }

    /// Kills it, and starts another one of the host's memory at its socket.
    fn killed_and_started_anew(&mut self, budget: &str) {
        self.end(Signal::KILL);
        let folder = std::mem::replace(&mut self.folder, Folder::new());
        let mut command = zico();
        command.args(["serve", "--device", "host", "--budget", budget, "--region", "64KiB"]);
        *self = Self::start_in(folder, command);
    }

    /// One of the commands that ask it something.
    fn ask(&self, args: &[&str]) -> Command {
        let mut command = zico();
        command.args(args).env("ZICO_SOCKET", &self.socket);
        command
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.ask(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[args, &["--json"]].concat())).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Interrupts it, and returns its exit code and what else it said.
    fn end(&mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    /// A job of this process under its budget.
    fn job(&self, name: &str) -> (HostDevice, Pool<HostDevice>, Job<HostDevice>) {
        let device = HostDevice::new(HostConfig::new()).unwrap();
        let pool = Client::connect(device.clone(), &self.socket).unwrap();
        let job = pool.join(name, device.add_stream()).unwrap();
        (device, pool, job)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An iteration that holds so much for so long.
fn iteration(job: &Job<HostDevice>, bytes: Bytes, time: Duration) {
    job.begin_blocking(None, LOOK).unwrap();
    let block = job.alloc_blocking(Request::new(bytes, Lifetime::Iteration), LOOK).unwrap();
    std::thread::sleep(time);
    job.free(block).unwrap();
    job.end().unwrap();
}
