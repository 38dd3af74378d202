//! `zico compare`

use std::io::Write;
use std::sync::mpsc::Receiver;

use clap::ValueEnum;
use indicatif::ProgressBar;
use zico_core::Bytes;
use zico_mock::replay::{Machine, Needs, PolicyKind, Priority, ReplayConfig, ReplayError, trial};
use zico_mock::trace::Trace;

use super::budget::{check, needs_for};
use super::priorities;
use crate::args::{Compare, PolicyName};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::load_all;
use crate::output::Output;
use crate::progress::progress;
use crate::report;
use crate::summary::{Comparison, Tried, UnderBudget, UnderPolicy};
use crate::terminal::stdout;
use crate::timed::timed;

/// Replays the jobs under each policy and budget and compares the results.
pub(crate) fn run(args: &Compare) -> Result<Exit, Failure> {
    let file = Output::of(args.run.report.as_deref(), args.run.force, &args.traces)?;
    let loaded = load_all(&args.traces, args.run.carry, &args.run.recording)?;
    let traces: Vec<&Trace> = loaded.iter().collect();
    let machine = args.run.machine.machine(false);
    let needs = needs_for(&traces, &args.budget, &args.run, &machine)?;
    let budgets: Vec<Bytes> = args.budget.iter().map(|budget| budget.of(&needs)).collect();
    // Checked for a policy that shares, or that needs less if one is asked for. A policy that needs
    // more says so in its row.
    let slices = args.policy.iter().map(|policy| policy.slice(args.run.time_slice));
    let slice = slices.flatten().next().or(args.run.time_slice);
    for &budget in &budgets {
        check(PolicyKind::Zico, budget, &needs, (&traces, slice))?;
    }
    let priorities = priorities::priorities(&traces, &args.run)?;
    // Those that hold some back are of no use where all jobs are alike; and with given slices, or
    // none, Gandiva's is Spatial's.
    let is_of_use = |policy: &PolicyName| {
        *policy != PolicyName::Gandiva && (!policy.needs_priorities() || !priorities.is_empty())
    };
    let every: Vec<PolicyName> =
        PolicyName::value_variants().iter().copied().filter(is_of_use).collect();
    let policies = if args.policy.is_empty() { &every } else { &args.policy };
    priorities::check(policies, &priorities, &traces)?;
    let each = args.run.iterations * traces.len() as u64;
    let bar = progress("together", each * (budgets.len() * policies.len()) as u64);
    let tests = Tests { traces: &traces, args, needs: &needs, machine, priorities, bar: &bar };
    let mut trials = Vec::new();
    for budget in budgets {
        let under: Result<Vec<Tried>, _> =
            policies.iter().map(|&policy| tests.under(policy, budget)).collect();
        trials.push((budget, under?));
    }
    bar.finish_and_clear();
    let comparison = tests.comparison(&trials);
    if let Some(file) = file {
        file.write(&report::comparison(&comparison, &trials)?)?;
    }
    let mut out = stdout();
    if args.run.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&comparison)?)?;
    } else {
        comparison.print(&mut out)?;
        if let Some(path) = &args.run.report {
            writeln!(out, "Report: {}", path.display())?;
        }
    }
    Ok(if comparison.is_fine() { Exit::Fine } else { Exit::Bad })
}

/// The inputs common to all replays.
struct Tests<'a> {
    traces: &'a [&'a Trace],
    args: &'a Compare,
    needs: &'a Needs,
    machine: Machine,
    priorities: Vec<Priority>,
    bar: &'a ProgressBar,
}

impl Tests<'_> {
    /// Replays run one after the other, so that the timing of decisions is not disturbed.
    fn under(&self, name: PolicyName, budget: Bytes) -> Result<Tried, ReplayError> {
        let (kind, pacing) = (PolicyKind::from(name), name.pacing());
        let config = ReplayConfig {
            processes: false,
            restarts: Vec::new(),
            budget,
            region: Some(self.needs.region),
            policy: kind,
            hand_over: self.args.run.hand_over.into(),
            fewest_calls: self.args.run.fewest_calls,
            detect: false,
            learned: self.args.run.learn_lifetimes,
            ends_with_next: self.args.run.end_with_next,
            plans: !self.args.run.no_plans,
            iterations: self.args.run.iterations,
            jobs: priorities::with(&self.priorities, self.needs.terms(kind, budget)),
            relief: Vec::new(),
            priorities: self.priorities.clone(),
            slice: name.slice(self.args.run.time_slice),
            pacing,
            elastic: name.is_elastic(),
            usage: Vec::new(),
            length: None,
            machine: self.machine.clone(),
        };
        let (policy, costs) = kind.policy(config.iterations).map(timed).unzip();
        let before = self.bar.position();
        let mut tell = |done| self.bar.set_position(before + done);
        let trial = trial(self.traces, &config, policy, &mut tell)?;
        self.bar.set_position(before + config.iterations * self.traces.len() as u64);
        let costs = costs.iter().flat_map(Receiver::try_iter).collect();
        Ok(Tried { policy: name.name(), trial, costs })
    }

    fn comparison(&self, trials: &[(Bytes, Vec<Tried>)]) -> Comparison {
        let under = |(budget, tried): &(Bytes, Vec<Tried>)| {
            let policies = tried.iter().map(|tried| UnderPolicy::new(tried, self.needs));
            UnderBudget::new(*budget, self.needs, policies.collect())
        };
        let budgets = trials.iter().map(under).collect();
        Comparison::new(self.traces, self.needs, &self.args.run, &self.machine, budgets)
    }
}
