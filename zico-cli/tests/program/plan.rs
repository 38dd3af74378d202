//! `zico plan`

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use zico_plan::{Block, check};

use crate::{file, refused, stderr, stdout, zico};

/// What it prints for scripts, with this exit code.
fn json(args: &[&str], code: i32) -> Value {
    let output = zico(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "nothing but JSON where nobody is looking");
    serde_json::from_str(&stdout(&output)).unwrap()
}

const TIGHT: &str = "id,size,lower,upper\na,3,0,2\nb,1,0,3\nc,2,1,4\nd,3,2,6\ne,3,4,6\n";

#[test]
fn a_trace_is_planned_at_its_bound() {
    let plan = json(&["plan", "dlrm", "--json"], 0);
    assert_eq!(plan["height"], plan["lower_bound"]);
    assert_eq!((&plan["proven"], &plan["feasible"]), (&true.into(), &true.into()));
    assert!(plan["seconds"].is_number() && plan["persistent_bytes"].as_u64().unwrap() > 0);
    let heights: Vec<u64> =
        plan["baselines"].as_array().unwrap().iter().filter_map(|b| b["height"].as_u64()).collect();
    let least = plan["height"].as_u64().unwrap();
    assert!(heights.len() == 3 && heights.iter().all(|&height| height > least), "{heights:?}");
    assert_eq!(plan["offsets"].as_array().unwrap().len(), 445);
}

#[test]
fn a_list_of_blocks_is_planned() {
    let path = file("tight.csv", TIGHT.as_bytes());
    let plan = json(&["plan", path.to_str().unwrap(), "--json"], 0);
    let offsets: Vec<u64> =
        plan["offsets"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    let block = |(lower, upper, size)| Block::new(lower, upper, size);
    let blocks = [(0, 2, 3), (0, 3, 1), (1, 4, 2), (2, 6, 3), (4, 6, 3)].map(block);
    assert_eq!(check(&blocks, &offsets), Ok(6));
    assert_eq!((&plan["name"], &plan["ids"][4]), (&"tight.csv".into(), &"e".into()));
    assert!(plan["capacity"].is_null() && plan["persistent_bytes"].is_null());
}

#[test]
fn a_capacity_that_is_too_small_is_said_to_be() {
    let path = file("capacity.csv", TIGHT.as_bytes());
    let path = path.to_str().unwrap();
    let plan = json(&["plan", path, "--capacity", "5", "--json"], 1);
    assert_eq!(plan["feasible"], false);
    let output = zico(&["plan", path, "--capacity", "5"]);
    let text = stdout(&output);
    assert!(text.contains("no plan fits in 5"), "{text}");
    // The first plan is made in any case.
    let plan = json(&["plan", path, "--capacity", "1KiB", "--work", "0", "--json"], 0);
    assert!(plan["work"].as_u64().unwrap() <= 40 * 5 * 3);
}

#[test]
fn people_get_a_table_and_a_picture() {
    let report = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plan.html");
    let path = report.to_str().unwrap();
    let output = zico(&["plan", "gnmt", "--region-size", "2MiB", "--report", path, "--force"]);
    let text = stdout(&output);
    for words in ["gnmt, 817 blocks", "| lower bound", "| SmartPool best fit", "Regions in use"] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let html = fs::read_to_string(report).unwrap();
    assert_eq!(html.matches("<rect class=\"c").count(), 817);
    assert!(html.contains("lower bound 773.68 MiB") && !html.contains("{{"));
}

#[test]
fn what_cannot_be_planned_is_refused_with_the_reason() {
    refused(&["plan", "no-such"], &["no file no-such", "resnet50"]);
    let bad = file("bad.csv", b"id,lower,upper,size\n1,0,5,10\n2,0,five,10\n");
    refused(&["plan", bad.to_str().unwrap()], &["bad.csv, line 3: the upper \"five\""]);
    let other = file("other.csv", b"name,begin\n");
    refused(&["plan", other.to_str().unwrap()], &["other.csv, line 1: there is no column \"id\""]);
    let large = file("large.csv", b"id,lower,upper,size\n1,0,5,18446744073709551615\n");
    refused(&["plan", large.to_str().unwrap()], &["cannot plan large.csv", "more than 2^64"]);
    refused(&["plan", "dlrm", "--capacity", "none"], &["no number"]);
}

/// Steps are counted, so that the machine does not matter.
#[test]
fn many_blocks_of_random_lifetimes_take_no_more_than_the_work() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("many.csv");
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut rows = String::from("id,lower,upper,size\n");
    let all = 100_000_u64;
    for id in 0..all {
        let lower = random(all);
        let (upper, size) = (lower + 1 + random(all), 512 * (1 + random(199)));
        rows.push_str(&format!("{id},{lower},{upper},{size}\n"));
    }
    fs::write(&path, rows).unwrap();
    for work in [0, 10_000_000] {
        let plan =
            json(&["plan", path.to_str().unwrap(), "--work", &work.to_string(), "--json"], 0);
        let steps = plan["work"].as_u64().unwrap();
        assert!(steps <= work + (40 + 128) * all * 17, "{steps} of {work}");
        assert!(plan["baselines"].as_array().unwrap().is_empty(), "they take the square");
    }
    let output = zico(&["plan", path.to_str().unwrap(), "--work", "0", "--capacity", "1MiB"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("no plan fits in 1048576") && text.contains("not compared"), "{text}");
}
