//! `zico relief`

use serde_json::Value;

use crate::{file, refused, stderr, stdout, zico};

/// A chain of eight and its way back, which reads each again; 100 bytes and a microsecond each.
fn chain(name: &str) -> String {
    let node = |at: usize| format!(r#"{{"id": {at}, "cost_cpu": 1, "cost_ram": 100}}"#);
    let nodes: Vec<String> = (0..16).map(node).collect();
    let edge = |(from, to)| format!(r#"{{"source": {from}, "target": {to}}}"#);
    let forth = (0..15).map(|at| (at, at + 1));
    let back = (9..16).map(|at| (15 - at, at));
    let edges: Vec<String> = forth.chain(back).map(edge).collect();
    let (nodes, edges) = (nodes.join(","), edges.join(","));
    let text = format!(r#"{{"directed": true, "nodes": [{nodes}], "links": [{edges}]}}"#);
    file(name, text.as_bytes()).to_str().unwrap().to_owned()
}

fn json(args: &[&str], code: i32) -> Value {
    let output = zico(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "nothing but JSON where nobody is looking");
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn strategies_side_by_side() {
    let path = chain("chain.json");
    let found =
        json(&["relief", &path, "--budget", "p=0.6,1000", "--work", "1000000", "--json"], 0);
    assert_eq!((&found["name"], &found["operations"]), (&"chain".into(), &16.into()));
    // Seven that the way back reads, and what the middle one reads and writes.
    assert_eq!((&found["storages"], &found["peak_bytes"]), (&16.into(), &900.into()));
    assert_eq!(found["seconds"], 16e-6);
    let rows = found["rows"].as_array().unwrap();
    let row = |strategy: &str, budget: u64| {
        let same = |row: &&Value| row["strategy"] == strategy && row["budget_bytes"] == budget;
        rows.iter().find(same).unwrap()
    };
    let (ours, all) = (row("recompute", 540), row("zico", 540));
    assert_eq!((&ours["feasible"], &ours["checked"]), (&true.into(), &true.into()));
    assert!(ours["peak_bytes"].as_u64().unwrap() <= 540 && ours["moved_bytes"] == 0);
    let seconds = |row: &Value, name: &str| row[name].as_f64().unwrap();
    assert!(seconds(ours, "seconds") > 16e-6 && seconds(ours, "recomputed_seconds") > 0.0);
    assert!(seconds(ours, "lower_bound_seconds") <= seconds(ours, "seconds"));
    assert!(seconds(all, "seconds") <= seconds(ours, "seconds"));
    // Nothing of it can be encoded, so that one plan is both, and made once.
    let with = |strategy: &str| {
        let mut row = row(strategy, 540).clone();
        row["strategy"] = "zico".into();
        row
    };
    assert_eq!(with("zico-lossy"), *all);
    let none = row("liveness", 540);
    assert!(none["feasible"] == false && none["seconds"].is_null() && none["checked"] == false);
    assert!(row("liveness", 1000)["seconds"] == 16e-6 && ours["plan_seconds"].is_number());
}

#[test]
fn what_does_not_fit_is_said_to() {
    let path = chain("short.json");
    let found = json(&["relief", &path, "--budget", "200", "--json", "--strategy", "zico"], 1);
    assert!(found["rows"][0]["lower_bound_seconds"].is_null(), "no plan fits: {found}");
    let least = found["working_set_bytes"].as_u64().unwrap();
    assert!(least > 200);
    let output = zico(&["relief", &path, "--budget", "200", "--strategy", "zico,dtr"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output).matches("does not fit").count(), 2);
    let said = format!("No plan fits in less than {least} B (");
    assert!(stdout(&output).contains(&said), "{}", stdout(&output));
    // It is the least indeed.
    let all = ["relief", &path, "--strategy", "zico", "--budget"];
    let output = zico(&[&all[..], &[&least.to_string()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(!stdout(&output).contains("No plan fits"));
}

#[test]
fn what_persists_goes_to_the_host_where_it_does_not_fit() {
    let path = "gcn";
    let found = json(&["relief", path, "--budget", "p=0.45", "--json", "--strategy", "zico"], 0);
    let bytes = |key: &str| found[key].as_u64().unwrap();
    let budget = found["rows"][0]["budget_bytes"].as_u64().unwrap();
    assert!(bytes("working_set_bytes") < bytes("resident_set_bytes"), "{found}");
    assert!(budget < bytes("peak_bytes") && found["rows"][0]["checked"] == true);
    let below = (bytes("resident_set_bytes") - 1).to_string();
    let args = ["relief", path, "--budget", &below, "--strategy", "zico,capuchin"];
    let output = zico(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(stdout(&output).matches("does not fit").count(), 1);
    let said = format!("Below {} B (", bytes("resident_set_bytes"));
    assert!(stdout(&output).contains(&said), "{}", stdout(&output));
    let output = zico(&[&args[..], &["--resident"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(stdout(&output).matches("does not fit").count(), 2);
}

#[test]
fn units_of_time() {
    let path = chain("units.json");
    let args = ["relief", &path, "--budget", "p=1", "--json", "--strategy", "liveness"];
    let found = json(&[&args[..], &["--time-unit", "ms"]].concat(), 0);
    assert_eq!(found["rows"][0]["seconds"], 16e-3);
}

#[test]
fn bad_input_is_refused() {
    let path = chain("bad.json");
    let text = file("text.json", b"operations");
    refused(&["relief", text.to_str().unwrap(), "--budget", "p=0.5"], &["neither", "text.json"]);
    refused(
        &["relief", "nowhere.json", "--budget", "p=0.5"],
        &["nowhere.json", "no such file", "bundled are bert-base, gcn"],
    );
    refused(&["relief", &path, "--budget", "p=-1"], &["no number"]);
    refused(&["relief", &path, "--budget", "much"], &["p=0.5"]);
    refused(&["relief", &path, "--budget", "1", "--link", "string"], &["pcie4"]);
    refused(&["relief", &path, "--budget", "1", "--strategy", "magic"], &["autoswap"]);
}

#[test]
fn a_report_with_every_strategy_and_what_left() {
    let path = chain("drawn.json");
    let report = file("drawn.html", b"");
    let report = report.to_str().unwrap();
    let args = ["relief", &path, "--budget", "p=0.6,p=0.8", "--work", "1000", "--report", report];
    refused(&args, &["drawn"]);
    let output = zico(&[&args[..], &["--force"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let html = std::fs::read_to_string(report).unwrap();
    for words in ["Time against budget", "capuchin", "Memory over time under", "run again", "540 B"]
    {
        assert!(html.contains(words), "no {words:?}");
    }
    assert!(
        !html.contains("NaN") && !html.contains("{{") && !html.contains("http"),
        "self-contained"
    );
    refused(&["relief", &path, "--budget", "p=0.6", "--report", &path, "--force"], &["drawn.json"]);
}

#[test]
fn a_bundled_recording_by_its_name() {
    let args = ["relief", "resnet50", "--budget", "p=0.5", "--strategy", "zico", "--work", "0"];
    let found = json(&[&args[..], &["--json"]].concat(), 0);
    assert_eq!(found["name"], "resnet50");
    let row = &found["rows"][0];
    assert_eq!((&row["feasible"], &row["checked"]), (&true.into(), &true.into()));
    assert!(found["operations"].as_u64().unwrap() > 500, "{found}");
    refused(&["relief", "no-such-recording", "--budget", "1GiB"], &["no-such-recording"]);
}
