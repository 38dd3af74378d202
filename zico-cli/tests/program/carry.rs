//! Jobs that carry a block over from one iteration to the next.

use crate::{json, refused, stderr, stdout, zico};

/// What 8 MiB take in regions of 2 MiB: one more where they do not begin with one.
const CARRIED: [u64; 2] = [8 << 20, 10 << 20];

/// Alone a job can always do so. It is then held between iterations, which its name tells.
#[test]
fn a_block_more_is_carried_and_counted() {
    let alone = |more: &[&str]| {
        json(&[&["replay", "resnet50", "-n", "3", "--budget", "f=1", "--json"], more].concat())
    };
    let (plain, carrying) = (alone(&[]), alone(&["--carry", "8MiB"]));
    let of = |outcome: &serde_json::Value, key: &str| outcome["jobs"][0][key].as_u64().unwrap();
    assert_eq!(carrying["jobs"][0]["name"], "resnet50 + 8 MiB");
    assert_eq!(of(&plain, "kept_bytes"), of(&plain, "persistent_bytes"));
    assert_eq!(of(&carrying, "persistent_bytes"), of(&plain, "persistent_bytes"));
    assert!(CARRIED.contains(&(of(&carrying, "kept_bytes") - of(&plain, "kept_bytes"))));
    assert!(of(&carrying, "solo_peak_bytes") > of(&plain, "solo_peak_bytes"));
}

/// Of its own accord: a loss of 8 MiB beside 5 MiB that persist.
#[test]
fn a_job_that_carries_its_loss_is_known_to_keep_it() {
    let found = json(&["inspect", "carry", "carry", "--region-size", "2MiB", "--json"]);
    let of = |key: &str| found["jobs"][0][key].as_u64().unwrap() >> 20;
    assert_eq!((of("persistent_bytes"), of("kept_bytes")), (6, 14));
    let least = found["least_budget_bytes"].as_u64().map(|bytes| bytes >> 20);
    assert_eq!(least, Some(of("solo_peak_bytes") + 14));
    let text = stdout(&zico(&["inspect", "carry", "--region-size", "2MiB"]));
    assert!(
        text.lines().any(|line| line.starts_with("| carry") && line.contains("14 MiB")),
        "{text}"
    );
}

/// The least budget has room for what the others carry.
#[test]
fn inspect_counts_what_is_carried() {
    let of = |more: &[&str]| {
        let args = ["inspect", "dlrm", "mobilenet_v2", "--region-size", "2MiB", "--json"];
        json(&[&args[..], more].concat())
    };
    let (plain, carrying) = (of(&[]), of(&["--carry", "8MiB"]));
    for job in 0..2 {
        let bytes = |of: &serde_json::Value, key: &str| of["jobs"][job][key].as_u64().unwrap();
        let carried = bytes(&carrying, "kept_bytes") - bytes(&plain, "kept_bytes");
        assert!(CARRIED.contains(&carried), "{carried}");
        assert_eq!(bytes(&plain, "kept_bytes"), bytes(&plain, "persistent_bytes"));
    }
    let jobs = carrying["jobs"].as_array().unwrap();
    let bytes = |job: usize, key: &str| jobs[job][key].as_u64().unwrap();
    let beside =
        |job: usize, other: usize| bytes(job, "solo_peak_bytes") + bytes(other, "kept_bytes");
    let least = beside(0, 1).max(beside(1, 0));
    assert_eq!(carrying["least_budget_bytes"].as_u64(), Some(least));
    let text = stdout(&zico(&["inspect", "dlrm", "--carry", "8MiB"]));
    assert!(text.contains("8 MiB more carried over each iteration"), "{text}");
}

#[test]
fn compare_takes_it_too() {
    let args = ["compare", "dlrm", "-n", "2", "--budget", "f=1", "-p", "zico", "--carry", "512"];
    let output = zico(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("dlrm + 512 B"), "{}", stdout(&output));
}

#[test]
fn what_cannot_be_carried_is_refused() {
    refused(&["replay", "dlrm", "--budget", "f=1", "--carry", "0"], &["more than nothing"]);
    refused(&["replay", "dlrm", "--budget", "f=1", "--carry", "some"], &["no number"]);
    refused(&["inspect", "--carry", "8MiB"], &["TRACE"]);
    let help = stdout(&zico(&["replay", "--help"]));
    for words in ["--carry <SIZE>", "frees it in the next one"] {
        assert!(help.contains(words), "no {words:?} in {help}");
    }
}
