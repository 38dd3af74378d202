//! How well recorded jobs share one budget: the tables of `docs/results.md`.
//!
//! ```text
//! cargo run --release -p zico-mock --example sharing          # four sets in detail, 2 minutes
//! cargo run --release -p zico-mock --example sharing pairs    # all pairs, 2 minutes
//! cargo run --release -p zico-mock --example sharing policies [trace ...]
//! cargo run --release -p zico-mock --example sharing hand-over
//! ```

use std::time::Instant;

use zico_core::{Bytes, HandOver};
use zico_mock::replay::{
    JobOutcome, Machine, Needs, Outcome, PolicyKind, ReplayConfig, needs, replay,
};
use zico_mock::{bundled, trace::Trace};

const ITERATIONS: u64 = 50;

const SETS: [&[&str]; 4] = [
    &["resnet50", "bert-base"],
    &["mobilenet_v2", "resnet110-cifar"],
    &["gpt2-small", "nasnetalarge"],
    &["resnet50", "bert-base", "mobilenet_v2", "gpt2-small"],
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("pairs") => return pairs(),
        Some("hand-over") => return hand_overs(),
        Some("policies") => return policies(&std::env::args().skip(2).collect::<Vec<_>>()),
        _ => {}
    }
    for names in SETS {
        let traces: Vec<Trace> =
            names.iter().map(|name| bundled::open(name)).collect::<Result<_, _>>()?;
        let jobs: Vec<&Trace> = traces.iter().collect();
        let needs = needs(&jobs, None, ITERATIONS, &Machine::default())?;
        println!("\n### {}\n", names.join(" + "));
        let (l, s) = (gib(needs.least), gib(needs.sum));
        println!("L = {l:.2} GiB, S = {s:.2} GiB, regions of {}.\n", needs.region);
        println!(
            "| f | budget GiB | peak held GiB | throughput zico | exclusive | start delay | stalled | \
             violations | device memory calls / iteration | M steps / s |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for f in [1.0, 0.5, 0.25, 0.1] {
            row(&jobs, &needs, f)?;
        }
    }
    Ok(())
}

/// Throughput of every pair at budgets from plenty to the least, beside taking turns at the least.
fn pairs() -> Result<(), Box<dyn std::error::Error>> {
    let traces: Vec<Trace> = bundled::names().map(bundled::open).collect::<Result<_, _>>()?;
    println!("| pair | f = 1 | 0.5 | 0.25 | 0.1 | 0.05 | 0 | exclusive at 0 |");
    println!("|---|---|---|---|---|---|---|---|");
    for (i, one) in traces.iter().enumerate() {
        for other in &traces[i + 1..] {
            let jobs = [one, other];
            let needs = needs(&jobs, None, 10, &Machine::default())?;
            let run = |f: f64, policy| -> Result<f64, Box<dyn std::error::Error>> {
                let config = ReplayConfig {
                    region: Some(needs.region),
                    iterations: 10,
                    policy,
                    ..ReplayConfig::new(needs.budget_at(f))
                };
                let outcome = replay(&jobs, &config, &mut |_| {})?;
                match outcome.jobs.iter().find_map(|job| job.failure.clone()) {
                    Some(failure) => Err(failure.into()),
                    None if outcome.violation_count > 0 => {
                        Err(outcome.violations[0].to_string().into())
                    }
                    None => Ok(throughput(&outcome, &needs)),
                }
            };
            print!("| {} + {} |", one.name(), other.name());
            for f in [1.0, 0.5, 0.25, 0.1, 0.05, 0.0] {
                print!(" {:.2} |", run(f, PolicyKind::Zico)?);
            }
            println!(" {:.2} |", run(0.0, PolicyKind::Exclusive)?);
        }
    }
    Ok(())
}

/// Throughput under each policy at budgets from plenty to hardly enough: of the first three sets, or
/// of the traces given.
fn policies(given: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let sets: Vec<&[&str]> = if given.is_empty() { SETS[..3].to_vec() } else { vec![&given] };
    for names in sets {
        let traces: Vec<Trace> =
            names.iter().map(|name| bundled::open(name)).collect::<Result<_, _>>()?;
        let jobs: Vec<&Trace> = traces.iter().collect();
        let needs = needs(&jobs, None, ITERATIONS, &Machine::default())?;
        println!("\n### {}\n", names.join(" + "));
        println!("| policy | f = 1 | 0.5 | 0.25 | 0.1 | 0.05 |\n|---|---|---|---|---|---|");
        for policy in PolicyKind::ALL {
            print!("| {} |", policy.policy().name());
            for f in [1.0, 0.5, 0.25, 0.1, 0.05] {
                print!(" {} |", under(policy, &jobs, &needs, f)?);
            }
            println!();
        }
    }
    Ok(())
}

/// The throughput and, in brackets, the percentage of the time stalled; a dash where a job fails.
fn under(
    policy: PolicyKind,
    jobs: &[&Trace],
    needs: &Needs,
    f: f64,
) -> Result<String, Box<dyn std::error::Error>> {
    let budget = needs.budget_at(f);
    let config = ReplayConfig {
        region: Some(needs.region),
        iterations: ITERATIONS,
        policy,
        jobs: needs.terms(policy, budget),
        ..ReplayConfig::new(budget)
    };
    let outcome = replay(jobs, &config, &mut |_| {})?;
    if let Some(violation) = outcome.violations.first() {
        return Err(violation.to_string().into());
    }
    if outcome.jobs.iter().any(|job| job.failure.is_some()) {
        return Ok("-".to_owned());
    }
    let stalled = share(&outcome, |job| job.stalled.seconds());
    Ok(format!("{:.3} ({stalled:.0})", throughput(&outcome, needs)))
}

/// What each form of hand-over costs, at f = 0.25.
fn hand_overs() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "| jobs | hand-over | throughput | start delay | stalled | device memory calls / iteration | \
         waits between streams / iteration |"
    );
    println!("|---|---|---|---|---|---|---|");
    for names in SETS {
        let traces: Vec<Trace> =
            names.iter().map(|name| bundled::open(name)).collect::<Result<_, _>>()?;
        let jobs: Vec<&Trace> = traces.iter().collect();
        let needs = needs(&jobs, None, ITERATIONS, &Machine::default())?;
        for hand_over in [HandOver::Fenced, HandOver::Ordered, HandOver::Isolated] {
            let config = ReplayConfig {
                region: Some(needs.region),
                iterations: ITERATIONS,
                hand_over,
                ..ReplayConfig::new(needs.budget_at(0.25))
            };
            let outcome = replay(&jobs, &config, &mut |_| {})?;
            let iterations = done(&outcome);
            println!(
                "| {} | {hand_over:?} | {:.3} | {:.1}% | {:.1}% | {:.0} | {:.0} |",
                names.join(" + "),
                throughput(&outcome, &needs),
                share(&outcome, |job| job.start_delay.seconds()),
                share(&outcome, |job| job.stalled.seconds()),
                outcome.memory_calls as f64 / iterations,
                outcome.order_calls as f64 / iterations,
            );
        }
    }
    Ok(())
}

/// Percent of the time, mean over jobs.
fn share(outcome: &Outcome, of: impl Fn(&JobOutcome) -> f64) -> f64 {
    let time = outcome.window.seconds() * outcome.jobs.len() as f64;
    outcome.jobs.iter().map(of).sum::<f64>() / time * 100.0
}

fn row(jobs: &[&Trace], needs: &Needs, f: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = ReplayConfig {
        region: Some(needs.region),
        iterations: ITERATIONS,
        ..ReplayConfig::new(needs.budget_at(f))
    };
    let before = Instant::now();
    let zico = replay(jobs, &config, &mut |_| {})?;
    let speed = zico.steps as f64 / before.elapsed().as_secs_f64() / 1e6;
    config.policy = PolicyKind::Exclusive;
    let exclusive = replay(jobs, &config, &mut |_| {})?;
    // The same jobs for half as long: what the second half did, learning is left out.
    config.policy = PolicyKind::Zico;
    config.iterations = ITERATIONS / 2;
    let half = replay(jobs, &config, &mut |_| {})?;
    let calls = (zico.memory_calls - half.memory_calls) as f64 / (done(&zico) - done(&half));
    println!(
        "| {f} | {:.2} | {:.2} | {:.3} | {:.3} | {:.1}% | {:.1}% | {} | {calls:.0} | {speed:.2} |",
        gib(zico.budget),
        gib(zico.peak_held),
        throughput(&zico, needs),
        throughput(&exclusive, needs),
        share(&zico, |job| job.start_delay.seconds()),
        share(&zico, |job| job.stalled.seconds()),
        zico.violation_count + exclusive.violation_count,
    );
    let failed = zico.jobs.iter().chain(&exclusive.jobs).find(|job| job.failure.is_some());
    match failed.and_then(|job| job.failure.clone()) {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

fn gib(bytes: Bytes) -> f64 {
    bytes.value() as f64 / (1u64 << 30) as f64
}

fn done(outcome: &Outcome) -> f64 {
    outcome.jobs.iter().map(|job| job.iterations_done).sum()
}

/// The sum over jobs of the rate over the rate alone.
fn throughput(outcome: &Outcome, needs: &Needs) -> f64 {
    let jobs = outcome.jobs.iter().zip(&needs.solos);
    jobs.map(|(job, solo)| outcome.rate(job) / solo.rate).sum()
}
