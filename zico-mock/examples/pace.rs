//! A production job beside an opportunistic one that is paced: the tables of `docs/pace.md`.
//!
//! ```text
//! cargo run --release -p zico-mock --example pace
//! ```

use zico_core::{JobConfig, Ticks};
use zico_mock::Utilisation;
use zico_mock::replay::{
    Machine, Outcome, Pacing, Phase, PolicyKind, Priority, ReplayConfig, Usage, needs, replay,
};
use zico_mock::{bundled, trace::Trace};

/// Production first.
const PAIRS: [[&str; 2]; 2] = [["resnet50", "mobilenet_v2"], ["bert-base", "gpt2-small"]];

const LENGTH: Ticks = Ticks::millis(300_000);

/// Recorded times of a CPU are so much longer than those of the device: a slow one, with launches
/// of some hundred microseconds.
const TIME_SCALE: f64 = 0.2;

/// A production job and an opportunistic one, for so long.
#[derive(Clone, Default)]
struct Scenario {
    name: &'static str,
    /// Of the device, which a launch keeps busy, in permille.
    utilisation: u16,
    /// The budget, between what they need at least and the sum of their peaks.
    f: f64,
    production: Usage,
    opportunistic: Usage,
}

fn scenarios() -> Vec<Scenario> {
    let at = |seconds: u64| Ticks::millis(1000 * seconds);
    let from = |seconds: u64, rest: Ticks| Phase { from: at(seconds), rest };
    let of = |name: &'static str, utilisation: u16| Scenario {
        name,
        utilisation,
        f: 1.0,
        ..Scenario::default()
    };
    let phases = |phases: &[Phase]| Usage { phases: phases.to_vec(), ..Usage::default() };
    let pause = Ticks::millis(500);
    vec![
        of("low contention: a launch takes half of the device", 500),
        of("some: 60% of it", 600),
        of("high: all of it", 1000),
        Scenario {
            production: phases(&[from(0, pause)]),
            ..of("high, and production waits 500 ms for data after each iteration", 1000)
        },
        Scenario {
            opportunistic: Usage { arrives: at(100), ..Usage::default() },
            ..of("dynamic arrival: high, the opportunistic job comes after 100 s", 1000)
        },
        Scenario {
            production: phases(&[from(100, Ticks::MAX), from(200, Ticks::ZERO)]),
            ..of("dynamic usage: high, production is idle from 100 s to 200 s", 1000)
        },
        Scenario {
            production: phases(&[from(150, pause)]),
            ..of("dynamic usage: high, from 150 s on production waits 500 ms each time", 1000)
        },
        Scenario { f: 0.25, ..of("some, and a quarter of the memory between L and S", 600) },
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for names in PAIRS {
        let traces: Vec<Trace> =
            names.iter().map(|name| bundled::open(name)).collect::<Result<_, _>>()?;
        let jobs: Vec<&Trace> = traces.iter().collect();
        println!("\n{}, and {} opportunistic\n", names[0], names[1]);
        println!("| scenario | unpaced | TGS | AntMan | ours |");
        println!("|---|---|---|---|---|");
        for scenario in scenarios() {
            row(&jobs, &scenario)?;
        }
    }
    Ok(())
}

/// What each job has of what it makes alone, with each controller.
fn row(jobs: &[&Trace], scenario: &Scenario) -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine {
        time_scale: TIME_SCALE,
        utilisation: Utilisation::new(scenario.utilisation).unwrap_or(Utilisation::FULL),
        ..Machine::default()
    };
    let needs = needs(jobs, None, 5, &machine)?;
    let usage = [scenario.production.clone(), scenario.opportunistic.clone()];
    let config = ReplayConfig {
        region: Some(needs.region),
        length: Some(LENGTH),
        machine,
        ..ReplayConfig::new(needs.budget_at(scenario.f))
    };
    let made = |outcome: &Outcome, job: usize| outcome.jobs[job].iterations_done;
    let alone = |job: usize| -> Result<f64, Box<dyn std::error::Error>> {
        let config = ReplayConfig { usage: vec![usage[job].clone()], ..config.clone() };
        Ok(made(&replay(&[jobs[job]], &config, &mut |_| {})?, 0))
    };
    let alone = [alone(0)?, alone(1)?];
    print!("| {} |", scenario.name);
    let (tgs, ours) = (Some(Pacing::Tgs), Some(Pacing::Estimating));
    for (pacing, elastic) in [(None, false), (tgs, false), (None, true), (ours, false)] {
        let together = ReplayConfig {
            priorities: vec![Priority::Production, Priority::Opportunistic],
            jobs: vec![JobConfig::default().priority(1), JobConfig::default()],
            pacing,
            elastic,
            policy: if elastic { PolicyKind::Unmanaged } else { PolicyKind::Zico },
            usage: usage.to_vec(),
            ..config.clone()
        };
        let outcome = replay(jobs, &together, &mut |_| {})?;
        assert_eq!(outcome.violation_count, 0, "{:?}", outcome.violations);
        let share = |job: usize| 100.0 * made(&outcome, job) / alone[job];
        print!(" {:.1}% + {:.1}% |", share(0), share(1));
    }
    println!();
    Ok(())
}
