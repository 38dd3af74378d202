//! The books in Prometheus' text format, version 0.0.4.

use std::fmt::Write;

use zico_core::{Activity, Awaited, Bytes, Counts, Held, JobSnapshot};

use crate::node::books::{Books, word};

/// A metric: its name, its type, what it is.
type Metric = (&'static str, &'static str, &'static str);

const BUDGET: Metric = ("zico_budget_bytes", "gauge", "What all jobs together may hold");
const PENDING: Metric = (
    "zico_budget_pending_bytes",
    "gauge",
    "By how much more than the budget may still be held since it was lowered",
);
const HELD: Metric = ("zico_held_bytes", "gauge", "Physical memory that exists on the device");
const FREE: Metric = ("zico_free_bytes", "gauge", "Of that, what is no job's at the moment");
const REGION: Metric = ("zico_region_bytes", "gauge", "The unit in which memory is handed over");
const JOBS: Metric = ("zico_jobs", "gauge", "Jobs by what they do");
const WAITS: Metric = ("zico_waiting_jobs", "gauge", "Jobs that wait, by what for");
const LEASES: Metric = ("zico_leases_total", "counter", "Leases granted");
const LEASED: Metric = ("zico_leased_regions_total", "counter", "Regions in leases granted");
const DENIED: Metric =
    ("zico_leases_denied_total", "counter", "Leases denied, for now or for good");
const CALLS: Metric = (
    "zico_device_calls_total",
    "counter",
    "Calls of the device: create and destroy are the broker's, map, unmap and fence its jobs'",
);
const JOB_HELD: Metric = ("zico_job_held_bytes", "gauge", "Charged to a job, by what for");
const JOB_PEAK: Metric =
    ("zico_job_peak_bytes", "gauge", "The most that a job has held at one time");
const JOB_CLAIM: Metric = (
    "zico_job_claim_bytes",
    "gauge",
    "The most that a job's iteration is expected to hold from now on; absent while unknown",
);
const JOB_ALLOCATED: Metric =
    ("zico_job_allocated_bytes", "gauge", "In a job's blocks, each rounded up to 512 bytes");
const JOB_STRANDED: Metric =
    ("zico_job_stranded_bytes", "gauge", "Held by a job, and in none of its blocks");
const JOB_ITERATIONS: Metric =
    ("zico_job_iterations_total", "counter", "Iterations that have ended");

const ACTIVITIES: [Activity; 6] = [
    Activity::Idle,
    Activity::Waiting,
    Activity::Running,
    Activity::Stalled,
    Activity::Suspended,
    Activity::Left,
];

/// The books of a moment.
pub(super) fn text(books: &Books) -> String {
    let mut text = Text { text: String::new(), device: escaped(&books.device) };
    text.of_the_pool(books);
    text.of_the_jobs(&books.pool.jobs);
    text.text
}

struct Text {
    text: String,
    device: String,
}

impl Text {
    fn of_the_pool(&mut self, books: &Books) {
        let Books { region, pool, budget, waits, device: _ } = books;
        self.one(BUDGET, budget.target);
        self.one(PENDING, budget.pending);
        self.one(HELD, pool.held);
        self.one(FREE, pool.free);
        self.one(REGION, *region);
        let jobs = ACTIVITIES.map(|does| {
            let count = pool.jobs.iter().filter(|job| job.activity == does).count();
            (vec![("activity", word(does))], count as u64)
        });
        self.each(JOBS, jobs);
        let (mut to_start, mut for_memory, mut for_pace) = (0, 0, 0);
        for waiting in waits {
            *match waiting.awaited {
                Awaited::Memory(_) => &mut for_memory,
                Awaited::Pace(_) => &mut for_pace,
                _ => &mut to_start,
            } += 1;
        }
        let counts = [("start", to_start), ("memory", for_memory), ("pace", for_pace)];
        self.each(WAITS, counts.map(|(what, count)| (vec![("for", what)], count)));
        let Counts { leases, leased, denied, creates, destroys, maps, unmaps, fences, .. } =
            pool.counts;
        for (metric, count) in [(LEASES, leases), (LEASED, leased), (DENIED, denied)] {
            self.each(metric, [(vec![], count)]);
        }
        let calls = [
            ("create", creates),
            ("destroy", destroys),
            ("map", maps),
            ("unmap", unmaps),
            ("fence", fences),
        ];
        self.each(CALLS, calls.map(|(call, count)| (vec![("call", call)], count)));
    }

    fn of_the_jobs(&mut self, jobs: &[JobSnapshot]) {
        // Two jobs may have the same name.
        let names: Vec<(String, String)> =
            jobs.iter().map(|job| (escaped(&job.name), job.id.to_string())).collect();
        let named = || {
            let of = |(name, id)| vec![("job", name), ("id", id)];
            names.iter().map(|(name, id)| (name.as_str(), id.as_str())).map(of).zip(jobs)
        };
        let kinds = |(labels, job): (Vec<(&'static str, _)>, &JobSnapshot)| {
            let Held { persistent, iteration, draining, .. } = job.held;
            let kinds =
                [("persistent", persistent), ("iteration", iteration), ("draining", draining)];
            kinds.map(|(kind, bytes)| ([&labels[..], &[("kind", kind)]].concat(), bytes.value()))
        };
        self.each(JOB_HELD, named().flat_map(kinds));
        let all =
            |value: fn(&JobSnapshot) -> u64| named().map(move |(labels, job)| (labels, value(job)));
        self.each(JOB_PEAK, all(|job| job.held.peak.value()));
        let known = named().filter_map(|(labels, job)| Some((labels, job.claim?.value())));
        self.each(JOB_CLAIM, known);
        self.each(JOB_ALLOCATED, all(|job| job.stats.allocated.current.value()));
        self.each(JOB_STRANDED, all(|job| job.stranded.value()));
        self.each(JOB_ITERATIONS, all(|job| job.iterations));
    }

    fn one(&mut self, metric: Metric, bytes: Bytes) {
        self.each(metric, [(vec![], bytes.value())]);
    }

    /// A metric with its values. Label values are escaped already.
    fn each<'l>(
        &mut self,
        (name, kind, help): Metric,
        values: impl IntoIterator<Item = (Vec<(&'static str, &'l str)>, u64)>,
    ) {
        // A string takes everything.
        let _ = writeln!(self.text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = write!(self.text, "{name}{{device=\"{}\"", self.device);
            for (label, value) in labels {
                let _ = write!(self.text, ",{label}=\"{value}\"");
            }
            let _ = writeln!(self.text, "}} {value}");
        }
    }
}

/// The value of a label, as the format has it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_in_the_text_and_in_the_book() {
        let books = crate::node::books::tests::books();
        let text = text(&books);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/node.md");
        let page = std::fs::read_to_string(page).unwrap();
        let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let names: Vec<&str> = typed.filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names.len(), 17);
        for name in names {
            assert!(text.contains(&format!("\n{name}{{device=\"host\"")), "{name}\n{text}");
            assert!(page.contains(&format!("| `{name}` |")), "the book does not have {name}");
        }
        let named =
            r#"zico_job_held_bytes{device="host",job="a \"b\"\\\n",id="2",kind="iteration"} "#;
        assert!(text.contains(named), "{text}");
        assert!(!text.contains("zico_job_claim_bytes{device=\"host\",job=\"resnet50\""), "unknown");
    }
}
