//! `zico replay`

use std::io::Write;
use std::time::Instant;

use zico_mock::replay::{
    Means, Needs, Plans, PolicyKind, ReplayConfig, one_at_a_time, relieve, replay,
};
use zico_mock::trace::Trace;

use super::budget::{check, needs_for};
use super::priorities;
use crate::args::{DeviceName, Replay};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::live;
use crate::load::{load_all, load_operations};
use crate::output::Output;
use crate::progress::progress;
use crate::report;
use crate::summary::{ReliefOfReplay, ReplaySummary};
use crate::terminal::stdout;

/// Replays the jobs and prints the results.
pub(crate) fn run(args: &Replay) -> Result<Exit, Failure> {
    if args.run.report.is_some() && args.device != DeviceName::Mock {
        return Err(Failure::ReportOfDevice);
    }
    let file = Output::of(args.run.report.as_deref(), args.run.force, &args.traces)?;
    let means = args.relieve.means();
    if means.is_some() && args.device != DeviceName::Mock {
        return Err(Failure::ReliefOfDevice);
    }
    let loaded = match means {
        Some(_) => load_operations(&args.traces, &args.run.recording)?,
        None => load_all(&args.traces, args.run.carry, &args.run.recording)?,
    };
    let traces: Vec<&Trace> = loaded.iter().collect();
    let priorities = priorities::priorities(&traces, &args.run)?;
    priorities::check(&[args.policy], &priorities, &traces)?;
    if args.policy.needs_priorities() && (args.device != DeviceName::Mock || args.processes) {
        return Err(Failure::PacingOfDevice);
    }
    let slice = args.policy.slice(args.run.time_slice);
    if slice.is_some() && (args.device != DeviceName::Mock || args.processes) {
        return Err(Failure::TurnsOfDevice);
    }
    let machine = args.run.machine.machine(means.is_some());
    let needs = needs_for(&traces, &[args.budget], &args.run, &machine)?;
    let budget = args.budget.of(&needs);
    let policy = PolicyKind::from(args.policy);
    // Where each job has its share for good, plans that leave more for others are of no use.
    let relieved = means.filter(|_| !policy.needs_every_peak());
    // What is beyond an elastic cap is on the host: any budget will do.
    if relieved.is_none() && !args.policy.is_elastic() {
        check(policy, budget, &needs, (&traces, slice))?;
    }
    let mut config = ReplayConfig {
        budget,
        region: Some(needs.region),
        policy,
        jobs: priorities::with(&priorities, needs.terms(policy, budget)),
        detect: false,
        learned: args.run.learn_lifetimes,
        ends_with_next: args.run.end_with_next,
        processes: args.processes,
        restarts: Vec::new(),
        plans: !args.run.no_plans,
        hand_over: args.run.hand_over.into(),
        fewest_calls: args.run.fewest_calls,
        iterations: args.run.iterations,
        relief: Vec::new(),
        priorities,
        slice,
        pacing: args.policy.pacing(),
        elastic: args.policy.is_elastic(),
        usage: Vec::new(),
        length: None,
        machine,
    };
    let relief = match relieved {
        Some(means) => Some(relief(&traces, &needs, &mut config, &means)?),
        None => None,
    };
    let bar = progress("together", args.run.iterations * traces.len() as u64);
    if args.device != DeviceName::Mock || args.processes {
        let outcome = live::replay(args.device, &traces, &config, &|| bar.inc(1))?;
        bar.finish_and_clear();
        return live::show(&outcome, args.run.json);
    }
    let before = Instant::now();
    let mut outcome = replay(&traces, &config, &mut |done| bar.set_position(done))?;
    outcome.policy = args.policy.name();
    let speed = outcome.steps as f64 / before.elapsed().as_secs_f64();
    bar.finish_and_clear();

    let summary = ReplaySummary::new(&outcome, &needs, &config, relief);
    if let Some(file) = file {
        file.write(&report::replay(&summary, &outcome)?)?;
    }
    let mut out = stdout();
    if args.run.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        summary.print(&mut out, &outcome, speed)?;
        if let Some(path) = &args.run.report {
            writeln!(out, "Report: {}", path.display())?;
        }
    }
    Ok(if summary.is_fine() { Exit::Fine } else { Exit::Bad })
}

/// Plans for the jobs, and what there is to say of them.
fn relief(
    traces: &[&Trace],
    needs: &Needs,
    config: &mut ReplayConfig,
    means: &Means,
) -> Result<ReliefOfReplay, Failure> {
    let bar = progress("planning", 0);
    let alone = one_at_a_time(traces, needs, config, means)?;
    let Plans { jobs, share, in_turns } = relieve(traces, needs, config, means)?;
    bar.finish_and_clear();
    config.relief = jobs;
    Ok(ReliefOfReplay {
        strategy: means.strategy.name(),
        link_out_bytes_per_second: means.link.out,
        link_back_bytes_per_second: means.link.back,
        share,
        in_turns,
        one_at_a_time_throughput: alone,
    })
}
