//! Zico's throughput against the optimum of sharing. For some sets of recorded jobs and budgets:
//! the best that any schedule reaches on the model of [`zico_bench::oracle`], what zico's rule
//! reaches on the same model, and what zico reaches in a replay.
//!
//! *best*: exact for two jobs; for three between the bounds given. *first fit*: the time shift on
//! the model, in the order of asking. *lost*: what it loses against the best (for three jobs
//! against the bound from above, and so at most). *ahead*: first fit that looks ahead, on the
//! model. *no run-ahead*: the replay with a host that takes no time and waits for each launch, so
//! that what it leaves out is draining, coarse profiles and regions that have to be moved.
//! *replay*: the usual machine without jitter. *beyond*: what the replay loses against first fit on
//! the model. First iterations are left out: all figures are the difference of two replays of
//! different length. Of each trace the second iteration is repeated.
//!
//! ```text
//! cargo run --release -p zico-bench --bin oracle          # with replays, 2 minutes
//! cargo run --release -p zico-bench --bin oracle rules    # rules on the model, all pairs
//! ```

use std::error::Error;

use zico_bench::oracle::greedy::{self, Rule};
use zico_bench::oracle::lookahead::Lookahead;
use zico_bench::oracle::plan::Plan;
use zico_bench::oracle::recorded::{Model, model, room, steady};
use zico_bench::oracle::{Case, grid, pair};
use zico_bench::table::table;
use zico_core::{Bytes, Ticks};
use zico_mock::replay::{Machine, Needs, Outcome, ReplayConfig, needs, replay, solo};
use zico_mock::{bundled, trace::Trace};

const SETS: [&[&str]; 10] = [
    &["resnet50", "bert-base"],
    &["mobilenet_v2", "resnet110-cifar"],
    &["gpt2-small", "nasnetalarge"],
    &["bert-base", "resnet110-cifar"],
    &["bert-base", "nasnetalarge"],
    &["bert-base", "mobilenet_v2"],
    &["gnmt", "resnet50"],
    &["resnet50", "bert-base", "mobilenet_v2"],
    &["gnmt", "bert-base", "resnet110-cifar"],
    &["resnet50", "mobilenet_v2", "gpt2-small"],
];

const BUDGETS: [f64; 5] = [0.05, 0.1, 0.25, 0.5, 0.75];

/// The replays of which the difference counts, in iterations of each job.
const SHORT: u64 = 4;
const LONG: u64 = 12;

/// States of the grid for three jobs.
const STATES: u32 = 100_000;

/// How far the rule that looks ahead does, in lengths of the longest iteration.
const HORIZON: u64 = 3;

const HEADER: [&str; 9] =
    ["jobs", "f", "best", "first fit", "lost", "ahead", "no run-ahead", "replay", "beyond"];

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("rules") {
        return rules();
    }
    let mut table = table(&HEADER);
    for names in SETS {
        let set = Set::open(names)?;
        for f in BUDGETS {
            table.add_row(set.row(&names.join(" + "), f)?);
        }
    }
    println!("{table}");
    Ok(())
}

/// What rules lose against the best on the model, over all pairs and budgets. Waves are lowered to
/// 256 steps, as many as zico's profiles have.
fn rules() -> Result<(), Box<dyn Error>> {
    let names: Vec<&str> = bundled::names().collect();
    let machine = Machine { jitter: 0.0, ..Machine::default() };
    // First fit, looking ahead, following the best cycle.
    let mut lost: [Vec<f64>; 3] = Default::default();
    for (i, one) in names.iter().enumerate() {
        for other in &names[i + 1..] {
            let traces = [steady(&bundled::open(one)?)?, steady(&bundled::open(other)?)?];
            let needs = needs(&[&traces[0], &traces[1]], None, 2, &machine)?;
            let Model { mut case, kept, .. } = model(&traces, needs.region, &machine)?;
            case.waves.iter_mut().for_each(|wave| *wave = wave.lowered(256));
            for f in BUDGETS {
                case.room = room(&needs, f, kept)?;
                let best = pair::long_run(&case).ok_or("a job does not fit")?.throughput;
                let rules: [&mut dyn Rule; 3] = [
                    &mut greedy::FirstFit,
                    &mut Lookahead::new(&case, HORIZON),
                    &mut Plan::new(&case, 0),
                ];
                for (lost, rule) in lost.iter_mut().zip(rules) {
                    let reached = greedy::throughput(&case, rule).ok_or("a rule stops")?;
                    lost.push((1.0 - reached / best) * 100.0);
                }
            }
        }
    }
    let mut table = table(&["rule", "lost, mean", "most", "cases above 2%", "cases"]);
    for (name, lost) in ["first fit", "looking ahead", "the best cycle"].iter().zip(lost) {
        let mean = lost.iter().sum::<f64>() / lost.len() as f64;
        let most = lost.iter().copied().fold(0.0, f64::max);
        let above = lost.iter().filter(|&&lost| lost > 2.0).count();
        table.add_row([
            (*name).to_owned(),
            format!("{mean:.2}%"),
            format!("{most:.1}%"),
            above.to_string(),
            lost.len().to_string(),
        ]);
    }
    println!("{table}");
    Ok(())
}

/// Jobs, what they need, and how long an iteration of each takes alone on each machine.
struct Set {
    traces: Vec<Trace>,
    needs: Needs,
    case: Case,
    kept: u32,
    machines: [(Machine, Vec<f64>); 2],
}

impl Set {
    fn open(names: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut traces = Vec::new();
        for name in names {
            traces.push(steady(&bundled::open(name)?)?);
        }
        let jobs: Vec<&Trace> = traces.iter().collect();
        let usual = Machine { jitter: 0.0, ..Machine::default() };
        let synchronous = Machine { run_ahead: 1, dispatch: Ticks::ZERO, ..usual.clone() };
        let needs = needs(&jobs, None, SHORT, &usual)?;
        let Model { case, kept, .. } = model(&traces, needs.region, &usual)?;
        let alone = |machine: Machine| -> Result<(Machine, Vec<f64>), Box<dyn Error>> {
            let lengths: Result<_, _> =
                traces.iter().map(|trace| length_alone(trace, needs.region, &machine)).collect();
            Ok((machine, lengths?))
        };
        let machines = [alone(synchronous)?, alone(usual)?];
        Ok(Self { traces, needs, case, kept, machines })
    }

    fn row(&self, names: &str, f: f64) -> Result<Vec<String>, Box<dyn Error>> {
        let budget = self.needs.budget_at(f);
        let case = Case { room: room(&self.needs, f, self.kept)?, ..self.case.clone() };
        let (best, above) = best(&case).ok_or("a job does not fit")?;
        let rule =
            greedy::throughput(&case, &mut greedy::FirstFit).ok_or("first fit comes to a stop")?;
        let ahead = greedy::throughput(&case, &mut Lookahead::new(&case, HORIZON))
            .ok_or("looking ahead comes to a stop")?;
        let (synchronous, usual) =
            (self.measured(budget, &self.machines[0])?, self.measured(budget, &self.machines[1])?);
        Ok(vec![
            names.to_owned(),
            f.to_string(),
            best,
            format!("{rule:.3}"),
            format!("{:.1}%", (1.0 - rule / above) * 100.0),
            format!("{ahead:.3}"),
            format!("{synchronous:.3}"),
            format!("{usual:.3}"),
            format!("{:.1}%", (1.0 - usual / rule) * 100.0),
        ])
    }

    /// The throughput of a replay between its first iterations and its end.
    fn measured(
        &self,
        budget: Bytes,
        (machine, alone): &(Machine, Vec<f64>),
    ) -> Result<f64, Box<dyn Error>> {
        let jobs: Vec<&Trace> = self.traces.iter().collect();
        let run = |iterations| -> Result<Outcome, Box<dyn Error>> {
            let config = ReplayConfig {
                region: Some(self.needs.region),
                iterations,
                machine: machine.clone(),
                ..ReplayConfig::new(budget)
            };
            let outcome = replay(&jobs, &config, &mut |_| {})?;
            match outcome.jobs.iter().find_map(|job| job.failure.clone()) {
                Some(failure) => Err(failure.into()),
                None => Ok(outcome),
            }
        };
        let (short, long) = (run(SHORT)?, run(LONG)?);
        let both = long.jobs.iter().zip(&short.jobs).zip(alone);
        let work: f64 = both
            .map(|((long, short), alone)| (long.iterations_done - short.iterations_done) * alone)
            .sum();
        Ok(work / (long.window.seconds() - short.window.seconds()))
    }
}

/// The optimum, for people and as a bound from above.
fn best(case: &Case) -> Option<(String, f64)> {
    if case.waves.len() == 2 {
        let best = pair::long_run(case)?;
        let bound = if best.exact { "" } else { "<= " };
        return Some((format!("{bound}{:.3}", best.throughput), best.throughput));
    }
    let bounds = grid::bounds(case, STATES)?;
    Some((format!("{:.3} to {:.3}", bounds.below, bounds.above), bounds.above))
}

/// What an iteration takes alone, in seconds, first ones left out.
fn length_alone(trace: &Trace, region: Bytes, machine: &Machine) -> Result<f64, Box<dyn Error>> {
    let time = |iterations: u64| -> Result<f64, Box<dyn Error>> {
        Ok(iterations as f64 / solo(trace, region, iterations, machine)?.rate)
    };
    Ok((time(LONG)? - time(SHORT)?) / (LONG - SHORT) as f64)
}
