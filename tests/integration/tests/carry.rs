//! Jobs that carry a block over from one iteration to the next, as a training loop does that
//! replaces its loss: held while a job waits for its next iteration, and freed only once that has
//! begun.
//!
//! Others cannot get such memory by waiting. The promises hold all the same from the least budget
//! on: no violation, no endless wait (I4, I5), no failure.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use zico_core::Bytes;
use zico_mock::bundled;
use zico_mock::replay::{Machine, Needs, PolicyKind, ReplayConfig, needs, replay};
use zico_mock::trace::Trace;

/// The first, those that are learned, and one that a plan places.
const ITERATIONS: u64 = 4;

const BUDGETS: [f64; 4] = [0.0, 0.1, 0.5, 1.0];

const POLICIES: [PolicyKind; 3] = [PolicyKind::Zico, PolicyKind::Exclusive, PolicyKind::TickTock];

struct Together {
    traces: Vec<Trace>,
    needs: Needs,
}

impl Together {
    /// Of bundled jobs, each with a block of `carry` bytes more, if there are any.
    fn of(names: &[&str], carry: Option<Bytes>) -> Self {
        let open = |name: &&str| {
            let trace = bundled::open(name).unwrap();
            carry.map_or_else(|| trace.clone(), |bytes| trace.carrying(bytes).unwrap())
        };
        let traces: Vec<Trace> = names.iter().map(open).collect();
        let (jobs, machine): (Vec<&Trace>, _) = (traces.iter().collect(), Machine::default());
        // A quick job does more beside a slow one than it is asked for, and then plans other
        // iterations.
        let needs = needs(&jobs, None, 3 * ITERATIONS, &machine).unwrap();
        Self { traces, needs }
    }

    /// The failures of one replay.
    fn wrong(&self, f: f64, policy: PolicyKind) -> Option<String> {
        let config = ReplayConfig {
            region: Some(self.needs.region),
            policy,
            iterations: ITERATIONS,
            ..ReplayConfig::new(self.needs.budget_at(f))
        };
        let outcome = match replay(&self.traces.iter().collect::<Vec<_>>(), &config, &mut |_| {}) {
            Ok(outcome) => outcome,
            Err(error) => return Some(error.to_string()),
        };
        if let Some(violation) = outcome.violations.first() {
            return Some(violation.to_string());
        }
        if outcome.violation_count > 0 || outcome.peak_held > outcome.budget {
            return Some(format!("{} held", outcome.peak_held));
        }
        let undone = outcome.jobs.iter().find(|job| job.iterations < ITERATIONS);
        let failed = outcome.jobs.iter().find(|job| job.failure.is_some()).or(undone);
        failed.map(|job| format!("{} did {}: {:?}", job.name, job.iterations, job.failure))
    }

    /// All budgets under all policies; what went wrong, with its place.
    fn all_wrong(&self) -> Vec<String> {
        let names: Vec<&str> = self.traces.iter().map(Trace::name).collect();
        let mut wrong = Vec::new();
        for f in BUDGETS {
            for policy in POLICIES {
                let here = |what| format!("{names:?} at f = {f} under {policy:?}: {what}");
                wrong.extend(self.wrong(f, policy).map(here));
            }
        }
        wrong
    }
}

fn all_complete(sets: &[&[&str]], carry: Option<Bytes>) {
    let wrong: Vec<String> =
        sets.iter().flat_map(|names| Together::of(names, carry).all_wrong()).collect();
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_job_that_carries_its_loss_beside_itself() {
    all_complete(&[&["carry", "carry"], &["carry", "carry", "carry"]], None);
}

#[test]
fn a_job_that_carries_its_loss_beside_others() {
    all_complete(
        &[&["carry", "dlrm"], &["mobilenet_v2", "carry"], &["carry", "gnmt", "carry"]],
        None,
    );
}

/// Each recorded job once, with next to nothing that is carried: it takes a region all the same.
#[test]
fn recorded_jobs_that_carry_little() {
    all_complete(
        &[
            &["bert-base", "dlrm"],
            &["gnmt", "gpt2-small"],
            &["mobilenet_v2", "resnet50"],
            &["nasnetalarge", "resnet110-cifar"],
            &["gcn", "unet"],
            &["whisper-tiny", "dlrm"],
        ],
        Some(Bytes::new(512)),
    );
}

/// Each once more, in other pairs.
#[test]
fn recorded_jobs_that_carry_much() {
    all_complete(
        &[
            &["dlrm", "gnmt"],
            &["gpt2-small", "mobilenet_v2"],
            &["resnet50", "nasnetalarge"],
            &["resnet110-cifar", "bert-base"],
            &["unet", "whisper-tiny"],
            &["bert-base", "gcn"],
        ],
        Some(Bytes::mib(8)),
    );
}

/// One job alone can always go on, whatever it carries.
#[test]
fn a_job_alone_carries_what_it_likes() {
    all_complete(&[&["carry"]], None);
    for carry in [Bytes::new(512), Bytes::mib(8)] {
        all_complete(&[&["dlrm"], &["resnet50"]], Some(carry));
    }
}
