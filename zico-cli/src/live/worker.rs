//! One job of a replay in a process of its own.

use std::io::{BufRead, Write, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use zico_core::JobConfig;
use zico_cuda::{Options, Share};
use zico_mock::replay::{Machine, ReplayConfig};
use zico_mock::trace::Trace;
use zico_node::Client;

use super::job::Player;
use super::outcome::JobOutcome;
use super::stage::{CudaStage, HostStage, Stage};
use super::{Failed, Run};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::stdout;

/// What it is to do: the first line of its standard input. With the second it begins, and when
/// there is no more the other jobs have done their iterations.
#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) trace: PathBuf,
    pub(super) socket: PathBuf,
    /// None for host memory.
    pub(super) cuda: Option<u32>,
    pub(super) name: String,
    pub(super) terms: JobConfig,
    pub(super) iterations: u64,
    pub(super) learned: bool,
    pub(super) ends_with_next: bool,
    pub(super) time_scale: f64,
    pub(super) run_ahead: u64,
    pub(super) first_seed: u32,
}

/// What it prints: one line each.
#[derive(Serialize, Deserialize)]
pub(super) enum Said {
    Joined,
    Iteration,
    Done { job: JobOutcome, checked: u64, mismatches: u64 },
}

/// Its own iterations are to be done, and those of the others.
static UNFINISHED: AtomicUsize = AtomicUsize::new(2);

fn say(said: &Said) -> Result<(), Failed> {
    let mut out = stdout();
    writeln!(out, "{}", serde_json::to_string(said)?)?;
    Ok(out.flush()?)
}

/// Plays one job as it is told on standard input.
pub(crate) fn run() -> Result<Exit, Failure> {
    let line = next_line()?;
    let task: Task = serde_json::from_str(&line).map_err(|_| Failure::NoTask)?;
    match task.cuda {
        Some(ordinal) => {
            let stage = CudaStage::open(ordinal, Options::new().shareable(true))?;
            play(stage, &task)
        }
        None => HostStage::open().map_err(Failed::from).and_then(|stage| play(stage, &task)),
    }
    .map_err(Failure::OnDevice)?;
    Ok(Exit::Fine)
}

fn next_line() -> Result<String, Failure> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    Ok(line)
}

fn play<S: Stage>(stage: S, task: &Task) -> Result<(), Failed>
where
    S::Device: Share + Clone + 'static,
{
    let trace = open(&task.trace)?;
    let messages = Arc::new(AtomicU64::new(0));
    let count = messages.clone();
    let probe = move |number, _: &_| count.store(number, Ordering::Relaxed);
    let pool = Client::connect_probed(stage.device().clone(), &task.socket, probe)?;
    let config = ReplayConfig {
        iterations: task.iterations,
        learned: task.learned,
        ends_with_next: task.ends_with_next,
        machine: Machine {
            time_scale: task.time_scale,
            run_ahead: task.run_ahead,
            ..Machine::default()
        },
        ..ReplayConfig::new(pool.budget())
    };
    // Whoever listens has gone with the others: it goes on to its end all the same.
    let progress = || drop(say(&Said::Iteration));
    let run = Run::new(stage, &config, &UNFINISHED, task.first_seed, &progress);
    let player = Player::join(&run, &pool, task.name.clone(), task.terms.clone(), &trace)?;
    say(&Said::Joined)?;
    next_line()?;
    let before = messages.load(Ordering::Relaxed);
    // It ends with the process: a job that can do no more waits for nobody.
    std::thread::spawn(|| {
        while next_line().is_ok_and(|line| !line.is_empty()) {}
        UNFINISHED.fetch_sub(1, Ordering::AcqRel);
    });
    let mut job = player.play();
    job.messages = Some(messages.load(Ordering::Relaxed) - before);
    let mismatches = run.stage.mismatches()?;
    let checked = run.checked.load(Ordering::Relaxed);
    say(&Said::Done { job, checked, mismatches })
}

fn open(path: &Path) -> Result<Trace, Failed> {
    Ok(Trace::read(std::fs::File::open(path)?)?)
}
