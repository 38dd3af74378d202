//! A broker's books at one moment, as people and programs read them.

use serde::Serialize;
use zico_core::{
    Activity, Awaited, BrokerError, BudgetStatus, Bytes, JobSnapshot, Snapshot, Waiting,
};
use zico_node::Observer;

/// All that a broker says to who only looks.
#[derive(Clone, Debug)]
pub(super) struct Books {
    pub(super) device: String,
    pub(super) region: Bytes,
    pub(super) pool: Snapshot,
    pub(super) budget: BudgetStatus,
    pub(super) waits: Vec<Waiting>,
}

impl Books {
    /// Asks for it. The parts are of moments shortly after each other.
    pub(super) fn of(broker: &Observer) -> Result<Self, BrokerError> {
        Ok(Self {
            device: broker.device().to_owned(),
            region: broker.region_size(),
            pool: broker.snapshot()?,
            budget: broker.budget()?,
            waits: broker.waits()?,
        })
    }
}

/// What a job does, in a word.
pub(super) const fn word(activity: Activity) -> &'static str {
    match activity {
        Activity::Idle => "idle",
        Activity::Waiting => "waiting",
        Activity::Running => "running",
        Activity::Stalled => "stalled",
        Activity::Suspended => "suspended",
        Activity::Left => "left",
    }
}

/// A sentence: "b waits for 8 MiB: a (idle) holds 2 MiB".
pub(super) fn sentence(waiting: &Waiting) -> String {
    let mut text = match waiting.awaited {
        Awaited::Memory(bytes) => format!("{} waits for {bytes}", waiting.job),
        Awaited::Return(bytes) => format!("{} waits to come back with {bytes}", waiting.job),
        Awaited::Pace(_) => format!("{} is held up by its pace", waiting.job),
        _ => format!("{} waits to start an iteration", waiting.job),
    };
    for (at, blocker) in waiting.blockers.iter().enumerate() {
        let before = if at == 0 { ": " } else { "; " };
        let (job, does, held) = (&blocker.job, word(blocker.activity), blocker.held.total());
        text += &format!("{before}{job} ({does}) holds {held}");
    }
    text
}

/// The books as JSON.
#[derive(Serialize)]
pub(super) struct BooksJson<'a> {
    device: &'a str,
    region_bytes: u64,
    #[serde(flatten)]
    budget: BudgetJson,
    free_bytes: u64,
    leases: u64,
    leases_denied: u64,
    jobs: Vec<JobJson<'a>>,
    waits: Vec<WaitJson<'a>>,
}

/// A budget as JSON.
#[derive(Serialize)]
pub(super) struct BudgetJson {
    budget_bytes: u64,
    held_bytes: u64,
    pending_bytes: u64,
}

#[derive(Serialize)]
struct JobJson<'a> {
    id: String,
    name: &'a str,
    activity: &'static str,
    held_bytes: u64,
    persistent_bytes: u64,
    iteration_bytes: u64,
    draining_bytes: u64,
    peak_bytes: u64,
    claim_bytes: Option<u64>,
    allocated_bytes: u64,
    stranded_bytes: u64,
    iterations: u64,
}

#[derive(Serialize)]
struct WaitJson<'a> {
    id: String,
    name: &'a str,
    /// Nothing for who waits to start.
    memory_bytes: Option<u64>,
    blockers: Vec<BlockerJson<'a>>,
}

#[derive(Serialize)]
struct BlockerJson<'a> {
    id: String,
    name: &'a str,
    activity: &'static str,
    held_bytes: u64,
}

impl From<BudgetStatus> for BudgetJson {
    fn from(status: BudgetStatus) -> Self {
        let BudgetStatus { target, held, pending } = status;
        Self {
            budget_bytes: target.value(),
            held_bytes: held.value(),
            pending_bytes: pending.value(),
        }
    }
}

impl<'a> From<&'a Books> for BooksJson<'a> {
    fn from(books: &'a Books) -> Self {
        let Books { device, region, pool, budget, waits } = books;
        Self {
            device,
            region_bytes: region.value(),
            budget: (*budget).into(),
            free_bytes: pool.free.value(),
            leases: pool.counts.leases,
            leases_denied: pool.counts.denied,
            jobs: pool.jobs.iter().map(JobJson::from).collect(),
            waits: waits.iter().map(WaitJson::from).collect(),
        }
    }
}

impl<'a> From<&'a JobSnapshot> for JobJson<'a> {
    fn from(job: &'a JobSnapshot) -> Self {
        let held = job.held;
        Self {
            id: job.id.to_string(),
            name: &job.name,
            activity: word(job.activity),
            held_bytes: held.total().value(),
            persistent_bytes: held.persistent.value(),
            iteration_bytes: held.iteration.value(),
            draining_bytes: held.draining.value(),
            peak_bytes: held.peak.value(),
            claim_bytes: job.claim.map(Bytes::value),
            allocated_bytes: job.stats.allocated.current.value(),
            stranded_bytes: job.stranded.value(),
            iterations: job.iterations,
        }
    }
}

impl<'a> From<&'a Waiting> for WaitJson<'a> {
    fn from(waiting: &'a Waiting) -> Self {
        let blockers = waiting.blockers.iter().map(|blocker| BlockerJson {
            id: blocker.id.to_string(),
            name: &blocker.job,
            activity: word(blocker.activity),
            held_bytes: blocker.held.total().value(),
        });
        Self {
            id: waiting.id.to_string(),
            name: &waiting.job,
            memory_bytes: match waiting.awaited {
                Awaited::Memory(bytes) => Some(bytes.value()),
                _ => None,
            },
            blockers: blockers.collect(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};
    use zico_core::Waiting;

    use super::*;

    /// What is charged to a job: half of it leased for the iteration, a quarter for each other
    /// purpose.
    fn held(bytes: u64) -> Value {
        json!({
            "persistent": bytes / 4, "iteration": bytes / 2,
            "draining": bytes / 4, "peak": 2 * bytes, "peak_leased": bytes,
        })
    }

    /// A job as it travels.
    pub(in crate::node) fn job(id: u64, name: &str, activity: &str, mib: u64) -> Value {
        let bytes = mib << 20;
        let counter = json!({ "current": bytes, "peak": bytes, "allocated": bytes, "freed": 0 });
        json!({
            "id": id, "name": name, "activity": activity,
            "held": held(bytes),
            "stats": {
                "requested": counter, "allocated": counter, "active": counter, "reserved": counter,
            },
            "stranded": 0, "largest_free": 0, "iterations": 10 * id, "progress": 0,
            "planning": { "plans": 0, "height": 0, "lower_bound": 0, "placed": 0, "departed": 0 },
            "claim": (id > 1).then_some(bytes),
        })
    }

    /// Books of such jobs, under a budget of a GiB.
    pub(in crate::node) fn books_of(jobs: &[Value]) -> Books {
        let held: u64 = jobs.iter().filter_map(|job| job["held"]["iteration"].as_u64()).sum();
        let pool = json!({
            "budget": 1u64 << 30, "held": 2 * held + (1 << 20), "free": 1 << 20,
            "counts": {
                "leases": 1, "leased": 2, "denied": 3, "creates": 4, "destroys": 5, "maps": 6,
                "unmaps": 7, "fences": 8,
            },
            "jobs": jobs,
        });
        let budget = BudgetStatus { target: Bytes::gib(1), ..BudgetStatus::default() };
        Books {
            device: "host".to_owned(),
            region: Bytes::mib(1),
            pool: serde_json::from_value(pool).unwrap(),
            budget,
            waits: Vec::new(),
        }
    }

    pub(in crate::node) fn waiting() -> Waiting {
        let waiting = json!({
            "id": 2, "job": "bert", "awaited": { "Memory": 8 << 20 },
            "blockers": [{
                "id": 1, "job": "resnet50", "activity": "Running", "held": held(1 << 20),
            }],
        });
        serde_json::from_value(waiting).unwrap()
    }

    pub(in crate::node) fn books() -> Books {
        books_of(&[job(1, "resnet50", "Running", 100), job(2, "a \"b\"\\\n", "Waiting", 50)])
    }

    #[test]
    fn who_waits_is_said_in_a_sentence() {
        assert_eq!(sentence(&waiting()), "bert waits for 8 MiB: resnet50 (running) holds 1 MiB");
    }
}
