//! What it costs when jobs do not do what they did before: the table "Drift" of `docs/results.md`.
//!
//! ```text
//! cargo run --release -p zico-mock --example drift
//! ```

use zico_core::JobConfig;
use zico_mock::replay::{Machine, Needs, Outcome, ReplayConfig, needs, replay, varied};
use zico_mock::{bundled, trace::Trace};

const ITERATIONS: u64 = 40;

/// More than any of the jobs here does while another one does its iterations.
const MOST: usize = 400;

const SETS: [[&str; 2]; 3] =
    [["resnet50", "bert-base"], ["mobilenet_v2", "resnet110-cifar"], ["gnmt", "bert-base"]];

/// What is done to the jobs.
#[derive(Clone, Copy, PartialEq)]
enum Drift {
    None,
    /// Every launch's duration is off by up to 50%.
    Durations,
    /// Each iteration of both jobs takes a share of between 60% and 100% of memory and time: few
    /// different ones, as where lengths are rounded.
    FewLengths,
    /// The same, any share.
    AnyLength,
    /// From its 20th iteration on the first job takes 30% more beside what it keeps.
    Growth,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "| jobs | drift | f | throughput | start delay | stalled | refused | violations | no plans |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for names in SETS {
        let recorded: Vec<Trace> =
            names.iter().map(|name| bundled::open(name)).collect::<Result<_, _>>()?;
        let all =
            [Drift::None, Drift::Durations, Drift::FewLengths, Drift::AnyLength, Drift::Growth];
        for drift in all {
            let traces: Vec<Trace> = recorded
                .iter()
                .enumerate()
                .map(|(i, trace)| drifting(trace, drift, i))
                .collect::<Result<_, _>>()?;
            let machine = Machine {
                jitter: if drift == Drift::Durations { 0.5 } else { 0.05 },
                ..Machine::default()
            };
            let jobs: Vec<&Trace> = traces.iter().collect();
            // Of the jobs as they come to be: a budget in which they fit one at a time to the end.
            let needs = needs(&jobs, None, ITERATIONS, &machine)?;
            for f in [0.5, 0.25, 0.1] {
                row(&jobs, drift, &needs, f, &machine)?;
            }
        }
    }
    Ok(())
}

fn row(
    jobs: &[&Trace],
    drift: Drift,
    needs: &Needs,
    f: f64,
    machine: &Machine,
) -> Result<(), Box<dyn std::error::Error>> {
    let config = ReplayConfig {
        region: Some(needs.region),
        iterations: ITERATIONS,
        machine: machine.clone(),
        jobs: vec![JobConfig::default(); jobs.len()],
        ..ReplayConfig::new(needs.budget_at(f))
    };
    let outcome = replay(jobs, &config, &mut |_| {})?;
    let unplanned = replay(jobs, &ReplayConfig { plans: false, ..config }, &mut |_| {})?;
    let names: Vec<&str> = jobs.iter().map(|job| job.name()).collect();
    let refused = outcome.jobs.iter().filter(|job| job.failure.is_some()).count();
    println!(
        "| {} | {} | {f} | {:.3} | {:.1}% | {:.1}% | {refused} | {} | {:.3} |",
        names.join(" + "),
        drift.name(),
        throughput(&outcome, needs),
        share(&outcome, |job| job.start_delay.seconds()),
        share(&outcome, |job| job.stalled.seconds()),
        outcome.violation_count + unplanned.violation_count,
        throughput(&unplanned, needs),
    );
    Ok(())
}

impl Drift {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none (durations +-5%)",
            Self::Durations => "durations +-50%",
            Self::FewLengths => "5 lengths",
            Self::AnyLength => "any length",
            Self::Growth => "first job +30% from iteration 20",
        }
    }
}

/// The trace, with what it drifts by.
fn drifting(
    trace: &Trace,
    drift: Drift,
    place: usize,
) -> Result<Trace, Box<dyn std::error::Error>> {
    let mut random = fastrand::Rng::with_seed(7 + place as u64);
    let factor = |iteration: usize| match drift {
        Drift::None | Drift::Durations => 1.0,
        Drift::FewLengths => 0.6 + 0.1 * random.u8(0..5) as f64,
        Drift::AnyLength => 0.6 + 0.4 * random.f64(),
        Drift::Growth if place == 0 && iteration >= 20 => 1.3,
        Drift::Growth => 1.0,
    };
    if matches!(drift, Drift::None | Drift::Durations) {
        return Ok(trace.clone());
    }
    Ok(varied(trace, &(0..MOST).map(factor).collect::<Vec<_>>())?)
}

/// Percent of the time, mean over jobs.
fn share(outcome: &Outcome, of: impl Fn(&zico_mock::replay::JobOutcome) -> f64) -> f64 {
    let time = outcome.window.seconds() * outcome.jobs.len() as f64;
    outcome.jobs.iter().map(of).sum::<f64>() / time * 100.0
}

/// The sum over jobs of the rate over the rate alone.
fn throughput(outcome: &Outcome, needs: &Needs) -> f64 {
    let jobs = outcome.jobs.iter().zip(&needs.solos);
    jobs.map(|(job, solo)| outcome.rate(job) / solo.rate).sum()
}
