//! How much of what sharing could give does zico get? For some sets of recorded jobs and budgets: the
//! best that any schedule reaches on the model of [`zico_bench::oracle`], what zico's rule reaches on
//! the same model, and what zico reaches in a replay.
//!
//! *best*: exact for two jobs; for three between the bounds given. *first fit*: zico's rule on the
//! model. *lost*: what it loses against the best (for three jobs against the bound from above, and so at
//! most). *no run-ahead*: the replay with a host that takes no time and waits for each launch, so that
//! what it leaves out is draining, coarse profiles and regions that have to be moved. *replay*: the usual
//! machine without jitter. *beyond*: what the replay loses against first fit on the model. First
//! iterations are left out: all figures are the difference of two replays of different length. Of each
//! trace the second iteration is repeated.
//!
//! ```text
//! cargo run --release -p zico-bench --bin oracle
//! ```

use std::error::Error;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use zico_bench::oracle::recorded::{recorded, steady};
use zico_bench::oracle::{Case, greedy, grid, pair};
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

const HEADER: [&str; 8] =
    ["jobs", "f", "best", "first fit", "lost", "no run-ahead", "replay", "beyond"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(HEADER);
    for names in SETS {
        let set = Set::open(names)?;
        for f in BUDGETS {
            let row = set.row(&names.join(" + "), f)?;
            eprintln!("{}", row.join(" | "));
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
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
        let (mut waves, mut kept) = (Vec::new(), 0);
        for trace in &traces {
            let job = recorded(trace, needs.region, &usual)?;
            waves.push(job.wave);
            kept += job.kept;
        }
        let utilisation = f64::from(usual.utilisation.permille()) / 1000.0;
        let case = Case { waves, room: 0, utilisation };
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
        let regions = u32::try_from(budget.value() / self.needs.region.value())?;
        let case = Case { room: regions.saturating_sub(self.kept), ..self.case.clone() };
        let (best, above) = best(&case).ok_or("a job does not fit")?;
        let rule =
            greedy::throughput(&case, &mut greedy::FirstFit).ok_or("first fit comes to a stop")?;
        let (synchronous, usual) =
            (self.measured(budget, &self.machines[0])?, self.measured(budget, &self.machines[1])?);
        Ok(vec![
            names.to_owned(),
            f.to_string(),
            best,
            format!("{rule:.3}"),
            format!("{:.1}%", (1.0 - rule / above) * 100.0),
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
