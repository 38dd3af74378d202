//! Jobs whose programs end, seed after seed: `zico_tests::schedules` says what is checked.
//!
//! ```text
//! cargo run --release -p zico-tests --bin schedules -- --seeds 1000000 --jobs 2..8
//! cargo run --release -p zico-tests --bin schedules -- --seed 17
//! ```
//!
//! `--from N` is the first seed, `--threads N` how many run at a time, `--all` goes on after a
//! failure and counts them by kind, `--only KIND` looks for one kind only, `--plain` leaves out
//! seeds whose jobs carry blocks from one iteration to the next or do not mark them. `--seed N`
//! prints the jobs' programs and each call of one run; with `--shrink` of the smallest part of it
//! that fails in the same way. The same options `--jobs` have to be given as when the seed failed.
//! Exit code 1 if a run fails, 2 if an option is unknown.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use zico_tests::schedules::{self, Failure, Kind, Setup};
use zico_tests::seeds;

/// What is asked for.
struct Options {
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    jobs: RangeInclusive<usize>,
    threads: u64,
    all: bool,
    shrink: bool,
    only: Option<String>,
    plain: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seeds: 10_000,
        from: 0,
        seed: None,
        jobs: 2..=8,
        threads: thread::available_parallelism().map_or(1, |threads| threads.get() as u64),
        all: false,
        shrink: false,
        only: None,
        plain: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("no number: {text}"));
        match word.as_str() {
            "--seeds" => options.seeds = number(value()?)?,
            "--from" => options.from = number(value()?)?,
            "--seed" => options.seed = Some(number(value()?)?),
            "--threads" => options.threads = number(value()?)?.max(1),
            "--jobs" => options.jobs = jobs(&value()?)?,
            "--only" => options.only = Some(value()?),
            "--plain" => options.plain = true,
            "--all" => options.all = true,
            "--shrink" => options.shrink = true,
            _ => return Err(format!("unknown option: {word}")),
        }
    }
    Ok(options)
}

/// `2..8` or `3`.
fn jobs(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.trim_start_matches('=').parse::<usize>().ok();
    let (first, last) = number(first).zip(number(last)).ok_or(format!("no range: {text}"))?;
    let fits = 1 <= first && first <= last && last <= 64;
    fits.then_some(first..=last).ok_or(format!("1 to 64 jobs, not {text}"))
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "{error}\noptions: --seeds N --from N --jobs A..B --threads N --all --only KIND --plain; --seed N --shrink"
            );
            return ExitCode::from(2);
        }
    };
    // A panic of the pool is a finding like others, and is reported as one.
    std::panic::set_hook(Box::new(|_| {}));
    let passed = match options.seed {
        Some(seed) => one(seed, &options),
        None => many(&options),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One run in full. Whether it passed.
fn one(seed: u64, options: &Options) -> bool {
    let mut setup = Setup::draw(seed, options.jobs.clone());
    if options.shrink
        && let Err(Failure { kind, .. }) = schedules::run_setup(&setup, None)
    {
        setup = schedules::shrink(&setup, kind);
    }
    println!("{setup}");
    let mut trace = Vec::new();
    let done = schedules::run_setup(&setup, Some(&mut trace));
    trace.iter().for_each(|line| println!("{line}"));
    match done {
        Ok(outcome) => println!("passed: {outcome:?}"),
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
    kinds: BTreeMap<Kind, (u64, u64, String)>,
    first: u64,
}

/// Seed after seed. Whether all passed.
fn many(options: &Options) -> bool {
    let [run, told, excused, interrupted, steps, short] = [const { AtomicU64::new(0) }; 6];
    let found = Mutex::new(Found::default());
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    let work = |seed| {
        let setup = Setup::draw(seed, options.jobs.clone());
        if options.plain && !setup.is_plain() {
            return false;
        }
        run.fetch_add(1, Ordering::Relaxed);
        match schedules::run_setup(&setup, None) {
            Ok(outcome) => {
                told.fetch_add(outcome.told.into(), Ordering::Relaxed);
                excused.fetch_add(outcome.excused.into(), Ordering::Relaxed);
                interrupted.fetch_add(outcome.interrupted, Ordering::Relaxed);
                steps.fetch_add(outcome.steps, Ordering::Relaxed);
                short.fetch_add(u64::from(outcome.told > 0), Ordering::Relaxed);
                false
            }
            Err(failure) => {
                let kind = format!("{:?}", failure.kind);
                if options.only.as_ref().is_some_and(|only| *only != kind) {
                    return false;
                }
                let mut found = lock();
                let entry = found.kinds.entry(failure.kind);
                let entry = entry.or_insert_with(|| (0, seed, failure.to_string()));
                entry.0 += 1;
                if seed < entry.1 {
                    (entry.1, entry.2) = (seed, failure.to_string());
                }
                found.first += 1;
                !options.all
            }
        }
    };
    let state = || format!(", {} failed", lock().first);
    seeds::each((options.from, options.seeds), options.threads, work, state);
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "\r{} runs in {:.1} s: {} steps; {} runs where somebody was told that memory was short \
         ({} jobs); {} jobs that grew were told beside others; {} calls waited on the host; {} runs \
         failed",
        run.into_inner(),
        began.elapsed().as_secs_f64(),
        steps.into_inner(),
        short.into_inner(),
        told.into_inner(),
        excused.into_inner(),
        interrupted.into_inner(),
        found.first,
    );
    for (kind, (count, seed, text)) in &found.kinds {
        println!("\n{kind:?}: {count} runs; seed {seed}\n{text}");
        println!(
            "again: --jobs {}..{} --seed {seed} [--shrink]",
            options.jobs.start(),
            options.jobs.end()
        );
    }
    found.first == 0
}
