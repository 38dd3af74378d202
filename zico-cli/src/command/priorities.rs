//! What `--priority` comes to.

use zico_core::JobConfig;
use zico_mock::replay::{Priority, names};
use zico_mock::trace::Trace;

use crate::args::{PolicyName, RunArgs};
use crate::failure::Failure;

/// The priorities of the jobs, in their order; none if all are alike.
pub(super) fn priorities(traces: &[&Trace], run: &RunArgs) -> Result<Vec<Priority>, Failure> {
    let names = names(traces);
    let mut priorities = Vec::new();
    for (name, priority) in &run.priority {
        let Some(job) = names.iter().position(|one| one == name) else {
            return Err(Failure::NoSuchJob { name: name.clone(), jobs: names.join(", ") });
        };
        priorities.resize(names.len(), Priority::default());
        priorities[job] = *priority;
    }
    Ok(priorities)
}

/// Whether these policies can be had of these jobs.
pub(super) fn check(
    policies: &[PolicyName],
    priorities: &[Priority],
    traces: &[&Trace],
) -> Result<(), Failure> {
    let needed = policies.iter().any(|policy| policy.needs_priorities());
    if needed && !priorities.contains(&Priority::Opportunistic) {
        return Err(Failure::NobodyToPace(names(traces).pop().unwrap_or_default()));
    }
    Ok(())
}

/// The terms of the jobs, with their priorities.
pub(super) fn with(priorities: &[Priority], mut terms: Vec<JobConfig>) -> Vec<JobConfig> {
    if priorities.is_empty() {
        return terms;
    }
    terms.resize(priorities.len(), JobConfig::default());
    let rank = |priority: &Priority| i32::from(*priority == Priority::Production);
    let ranked = terms.into_iter().zip(priorities);
    ranked.map(|(terms, priority)| terms.priority(rank(priority))).collect()
}
