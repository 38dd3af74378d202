//! A storm of threads: `zico_tests::storm` says what is checked.
//!
//! ```text
//! cargo run --release -p zico-tests --bin storm -- --jobs 3 --threads 8 --seconds 60 --seed 1
//! ```
//!
//! `--carry 0` has no block live when an iteration ends, `--mute 0` lets all streams take events.
//! `--rounds N` does it again with the next seeds, `--patience N` is for how many seconds no call
//! may return. Exit code 1 if something goes wrong, 2 if an option is unknown.

use std::process::ExitCode;
use std::time::Duration;

use zico_tests::storm::Storm;

fn main() -> ExitCode {
    let mut storm = Storm {
        jobs: 3,
        threads: 8,
        time: Duration::from_secs(10),
        seed: 1,
        carry: true,
        mute: true,
        patience: Duration::from_secs(10),
    };
    let mut rounds = 1;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse::<u64>().ok());
        let count = value.and_then(|value| usize::try_from(value).ok()).filter(|&count| count > 0);
        match (word.as_str(), value, count) {
            ("--jobs", _, Some(count)) => storm.jobs = count,
            ("--threads", _, Some(count)) => storm.threads = count,
            ("--seconds", Some(value), _) => storm.time = Duration::from_secs(value),
            ("--patience", Some(value), _) => storm.patience = Duration::from_secs(value),
            ("--mute", Some(value), _) => storm.mute = value > 0,
            ("--carry", Some(value), _) => storm.carry = value > 0,
            ("--seed", Some(value), _) => storm.seed = value,
            ("--rounds", Some(value), _) => rounds = value,
            _ => {
                eprintln!(
                    "{word}: unknown, or without a number\noptions: --jobs N --threads N --seconds N --seed N --carry 0|1 --mute 0|1 --rounds N --patience N"
                );
                return ExitCode::from(2);
            }
        }
    }
    for _ in 0..rounds {
        match storm.run() {
            Ok(report) => println!("seed {}: {report:?}", storm.seed),
            Err(text) => {
                println!(
                    "seed {}, {} jobs of {} threads: {text}",
                    storm.seed, storm.jobs, storm.threads
                );
                return ExitCode::FAILURE;
            }
        }
        storm.seed = storm.seed.wrapping_add(1);
    }
    ExitCode::SUCCESS
}
