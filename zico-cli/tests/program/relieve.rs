//! `zico replay --relief`: jobs below the least budget.

use crate::{json, refused, stdout, zico};

const JOBS: [&str; 6] = ["replay", "gcn", "gcn", "--budget", "f=-0.5", "-n"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&JOBS[..], &["6"], more].concat()
}

/// What is recorded with operations is another recording: its needs differ from those of its
/// namesake.
#[test]
fn jobs_run_below_the_least_budget() {
    let found = json(&with(&["--relief", "--link", "12", "--json"]));
    let bytes = |key: &str| found[key].as_u64().unwrap();
    assert!(bytes("budget_bytes") < bytes("least_budget_bytes"));
    assert!(bytes("peak_held_bytes") <= bytes("budget_bytes"));
    assert!(found["f"].as_f64().unwrap() < -0.49);
    assert_eq!((&found["violations"], &found["time_scale"]), (&0.into(), &1.0.into()));
    let relief = &found["relief"];
    assert_eq!(relief["strategy"], "zico");
    assert_eq!(relief["link_out_bytes_per_second"], 12_000_000_000_u64);
    let share = relief["share"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&share));
    assert!(relief["one_at_a_time_throughput"].as_f64().unwrap() > 0.5);
    for job in found["jobs"].as_array().unwrap() {
        let plan = &job["plan"];
        let of = |key: &str| plan[key].as_u64().unwrap();
        assert!(of("peak_bytes") <= of("planned_bytes"));
        assert!(of("planned_bytes") < job["solo_peak_bytes"].as_u64().unwrap());
        assert!(plan["seconds"].as_f64().unwrap() > 0.0 && job["failure"].is_null());
        // All iterations move the same, and the last one may not have come to its end.
        let moved = job["moved_bytes"].as_u64().unwrap();
        assert!(moved >= of("moved_bytes") * job["iterations"].as_u64().unwrap());
    }
    let text = stdout(&zico(&with(&["--relief"])));
    assert!(text.contains("planned for") && text.contains("one job at a time"), "{text}");
}

#[test]
fn who_plans_is_a_choice() {
    let found = json(&with(&["--relief", "--strategy", "liveness", "--json"]));
    assert_eq!(found["relief"]["strategy"], "liveness");
    assert!(found["jobs"].as_array().unwrap().iter().all(|job| job["moved_bytes"] == 0));
}

#[test]
fn what_cannot_be_relieved_is_refused() {
    let too_small = ["too small for these jobs", "gcn: ", "zico replay --relief"];
    refused(&with(&[]), &too_small);
    // Where each job keeps its own share, no plan helps.
    refused(&with(&["--relief", "--policy", "static"]), &["sum of the peaks"]);
    refused(&with(&["--link", "12"]), &["--relief"]);
    refused(&with(&["--relief", "--device", "host"]), &["simulated device"]);
    refused(&with(&["--relief", "--carry", "8MiB"]), &["--carry"]);
    refused(&with(&["--relief", "--strategy", "none"]), &["autoswap", "zico"]);
    let least = ["replay", "gcn", "gcn", "--budget", "100MiB", "--relief"];
    refused(&least, &["gcn: ", "has no plan for", "no plan at all is below"]);
    let plain = ["replay", "dlrm", "--budget", "f=1", "--relief"];
    refused(&plain, &["dlrm", "read and write", "resnet50"]);
}
