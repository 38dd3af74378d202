//! Trainings that nobody has looked at, seed after seed: `zico_tests::trainings` says what is drawn
//! and what is checked.
//!
//! ```text
//! cargo run --release -p zico-tests --bin trainings -- --seeds 100000
//! cargo run --release -p zico-tests --bin trainings -- --seed 17
//! ```
//!
//! `--from N` is the first seed, `--threads N` how many run at a time, `--all` goes on after a
//! failure. `--seed N` prints what is drawn and what comes of it. `--behind` looks, where a job is
//! out of memory, whether all jobs get through one at a time, and lists the seeds where they do.
//! `--undisturbed`: no broker dies, no job ends before it is done, and no iteration is interrupted.
//! `--interruptible`: all may be.
//! Exit code 1 if a run fails, 2 if an option is unknown.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use zico_tests::seeds;
use zico_tests::trainings::{Case, Kind};

/// What is asked for.
struct Options {
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    threads: u64,
    all: bool,
    behind: bool,
    undisturbed: bool,
    interruptible: bool,
}

impl Options {
    fn draw(&self, seed: u64) -> Case {
        let case = Case::draw(seed);
        let case = if self.undisturbed { case.undisturbed() } else { case };
        if self.interruptible { case.with_interruptible(true) } else { case }
    }
}

fn options() -> Result<Options, String> {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let mut options = Options {
        seeds: 2000,
        from: 0,
        seed: None,
        threads,
        all: false,
        behind: false,
        undisturbed: false,
        interruptible: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or(format!("{word} wants a value"))?;
            value.parse::<u64>().map_err(|_| format!("no number: {value}"))
        };
        match word.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--seed" => options.seed = Some(number()?),
            "--threads" => options.threads = number()?.max(1),
            "--all" => options.all = true,
            "--behind" => options.behind = true,
            "--undisturbed" => options.undisturbed = true,
            "--interruptible" => options.interruptible = true,
            _ => return Err(format!("unknown option: {word}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "{error}\noptions: --seeds N --from N --threads N --all --behind --undisturbed \
                 --interruptible; --seed N"
            );
            return ExitCode::from(2);
        }
    };
    // A panic of the pool is a finding like others, and is reported as one.
    std::panic::set_hook(Box::new(|_| {}));
    let passed = match options.seed {
        Some(seed) => one(&options.draw(seed)),
        None => many(&options),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One case in full. Whether it passed.
fn one(case: &Case) -> bool {
    println!("{case}");
    match case.run() {
        Ok(report) if report.out_of_memory.is_empty() => println!("passed: {report:?}"),
        Ok(report) => {
            let enough = if case.is_enough_for_one() { "enough" } else { "too little" };
            println!("passed: {report:?}\nfor one at a time there is {enough}");
        }
        Err(failure) => {
            println!("failed: {failure}");
            return false;
        }
    }
    true
}

/// What has been found.
#[derive(Default)]
struct Found {
    /// By kind: what each seed says.
    failures: BTreeMap<Kind, BTreeMap<u64, String>>,
    behind: Vec<u64>,
}

/// Seed after seed. Whether all passed.
fn many(options: &Options) -> bool {
    let [steps, planned, short] = [const { AtomicU64::new(0) }; 3];
    let found = Mutex::new(Found::default());
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    let work = |seed| {
        let case = options.draw(seed);
        let report = match case.run() {
            Ok(report) => report,
            Err(failure) => {
                lock().failures.entry(failure.kind).or_default().insert(seed, failure.text);
                return !options.all;
            }
        };
        steps.fetch_add(report.steps, Ordering::Relaxed);
        planned.fetch_add(report.planned, Ordering::Relaxed);
        if !report.out_of_memory.is_empty() {
            short.fetch_add(1, Ordering::Relaxed);
            if options.behind && case.is_enough_for_one() {
                lock().behind.push(seed);
            }
        }
        false
    };
    let taken = seeds::each((options.from, options.seeds), options.threads, work, String::new);
    let Found { failures, mut behind } = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "\r{} seeds in {:.1} s: {} steps, {} blocks as planned; in {} runs a job was out of memory",
        taken,
        began.elapsed().as_secs_f64(),
        steps.into_inner(),
        planned.into_inner(),
        short.into_inner(),
    );
    if options.behind {
        behind.sort_unstable();
        println!("in {} of them all get through one at a time: {behind:?}", behind.len());
    }
    for (kind, of) in &failures {
        let seeds: Vec<u64> = of.keys().copied().collect();
        println!("\n{kind:?}: {seeds:?}");
        if let Some((seed, text)) = of.first_key_value() {
            println!("{text}");
            println!("again: cargo run --release -p zico-tests --bin trainings -- --seed {seed}");
        }
    }
    failures.is_empty()
}
