//! The program's commands, output and exit codes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod carry;
mod compare;
mod hostile;
mod outputs;
mod plan;
mod relief;
mod relieve;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn zico(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zico")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = zico(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "nothing but JSON where nobody is looking");
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Expects exit code 2, these words in the message, and no panic.
fn refused(args: &[&str], words: &[&str]) {
    let output = zico(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "{args:?} does not say {word:?}: {text}");
    }
}

/// A file of this test alone, in a folder that cargo keeps for tests.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

const PAIR: [&str; 3] = ["replay", "resnet50", "mobilenet_v2"];

fn replay<'a>(more: &[&'a str]) -> Vec<&'a str> {
    PAIR.into_iter().chain(["-n", "4"]).chain(more.iter().copied()).collect()
}

#[test]
fn a_replay_in_json_has_what_scripts_need() {
    let outcome = json(&replay(&["--budget", "f=0.25", "--json"]));
    let number = |key: &str| outcome[key].as_f64().unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(outcome["policy"], "zico");
    assert!(number("peak_held_bytes") <= number("budget_bytes"));
    assert!(number("budget_bytes") < number("sum_of_solo_peaks_bytes"));
    assert!(number("least_budget_bytes") <= number("budget_bytes"));
    assert!(number("peak_live_bytes") > 0.0 && number("makespan_seconds") > 0.0);
    assert_eq!((number("violations"), number("region_bytes")), (0.0, 2_097_152.0));
    assert_eq!(outcome["jobs"].as_array().unwrap().len(), 2);
    for job in outcome["jobs"].as_array().unwrap() {
        assert!(job["iterations"].as_u64().unwrap() >= 4);
        for key in [
            "persistent_bytes",
            "solo_peak_bytes",
            "iterations_per_second",
            "solo_iterations_per_second",
            "start_delay_seconds",
            "stall_seconds",
        ] {
            assert!(job[key].is_number(), "no {key}");
        }
        assert!(job["name"].is_string() && job["failure"].is_null());
    }
}

#[test]
fn the_seed_decides_and_nothing_else() {
    let run = |seed| stdout(&zico(&replay(&["--budget", "f=0.5", "--json", "--seed", seed])));
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn people_get_tables() {
    let output = zico(&replay(&["--budget", "3.5GiB", "--policy", "exclusive"]));
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for words in
        ["Policy exclusive, budget 3.50 GiB", "| resnet50", "| mobilenet_v2", "violations  0"]
    {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    assert!(
        text.lines().filter(|line| line.starts_with('|')).all(|line| line.chars().count() <= 90)
    );
}

#[test]
fn the_same_job_twice_has_two_names() {
    let outcome = json(&["replay", "dlrm", "dlrm", "-n", "2", "--budget", "f=0.5", "--json"]);
    let names: Vec<&str> =
        outcome["jobs"].as_array().unwrap().iter().filter_map(|job| job["name"].as_str()).collect();
    assert_eq!(names, ["dlrm", "dlrm #2"]);
}

#[test]
fn a_budget_that_cannot_work_is_refused_with_the_reason() {
    refused(
        &replay(&["--budget", "1GiB"]),
        &["too small", "resnet50: ", "mobilenet_v2: ", "at its peak", "kept between iterations"],
    );
    refused(&replay(&["--budget", "f=0.5", "--policy", "unmanaged"]), &["sum of the peaks"]);
    refused(
        &replay(&["--budget", "f=1.1", "--policy", "unmanaged", "--device", "cuda:0"]),
        &["simulated device"],
    );
    for (budget, words) in [
        ("much", "no number"),
        ("0", "more than nothing"),
        ("-1GiB", "negative"),
        ("3 parsecs", "unknown unit"),
        ("f=x", "no number"),
        ("99999999TiB", "more than any device has"),
    ] {
        let argument = format!("--budget={budget}");
        refused(&replay(&[&argument]), &[words]);
        refused(&replay(&["--budget", budget]), &[words]);
    }
    for program in ["compare", "relief"] {
        refused(&[program, "resnet50", "--budget", "-5"], &["negative", "8GiB"]);
    }
    refused(&["serve", "--device", "host", "--budget", "-5"], &["negative", "8GiB"]);
    refused(&replay(&["--budget", "f=0.5", "--region-size", "3MiB"]), &["no power of two"]);
    refused(
        &replay(&["--budget", "10TiB", "--region-size", "2MiB"]),
        &["5242880 regions", "use larger regions"],
    );
    refused(&replay(&["--budget", "f=0.5", "--utilisation", "2"]), &["from 0.001 to 1"]);
    refused(&["replay", "dlrm", "--budget", "f=1", "-n", "0"], &["0 is not in"]);
}

#[test]
fn a_file_that_is_no_trace_is_refused_with_the_reason() {
    let whole = fs::read("tests/data/midrun-sample.json.gz").unwrap();
    let empty = file("empty.json", b"");
    let cut = file("cut.json.gz", &whole[..whole.len() / 2]);
    let foreign = file("foreign.json", br#"{"jobs": [1, 2, 3]}"#);
    let words = file("words.txt", b"these are words");
    let bare = file("bare.json", br#"{"traceEvents": [{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1.5, "args": {"Bytes": 512, "Addr": 1, "Device Type": 0}}]}"#);
    for (path, word) in [
        (&empty, "empty"),
        (&cut, "cut.json.gz"),
        (&foreign, "traceEvents"),
        (&words, "neither"),
        (&bare, "iteration"),
    ] {
        let path = path.to_str().unwrap();
        refused(&["replay", path, "--budget", "1GiB"], &[path, word]);
        refused(&["inspect", path], &[path, word]);
    }
    let known = ["nobody", "resnet50", "bert-base", "carry"];
    refused(&["replay", "nobody", "--budget", "1GiB"], &known);
    refused(&["inspect", "no/such/file"], &["no/such/file"]);
}

#[test]
fn the_report_is_one_file_that_names_everything() {
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("escaped.ztrace");
    let report = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    let (trace, report) = (trace.to_str().unwrap(), report.to_str().unwrap());
    let sample = "tests/data/midrun-sample.json.gz";
    let made = zico(&["convert", sample, trace, "--force", "--name", "<script>alert(1)</script>"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let run = ["replay", "resnet50", trace, "-n", "3", "--budget", "f=0.5"];
    let args = [&run[..], &["--report", report, "--force"]].concat();
    assert_eq!(zico(&args).status.code(), Some(0));
    let html = fs::read_to_string(report).unwrap();
    for words in ["<!doctype html>", "resnet50", "&lt;script&gt;", "budget 1.", "<svg", "</html>"] {
        assert!(html.contains(words), "no {words:?}");
    }
    for words in ["<script", "http://", "https://", "NaN", "{{"] {
        assert!(!html.contains(words), "{words:?} in the report");
    }
    refused(
        &["replay", "dlrm", "-n", "1", "--budget", "f=1", "--report", "no/such/folder/r.html"],
        &["cannot write no/such/folder/r.html"],
    );
}

#[test]
fn inspect_shows_what_was_recorded() {
    let all = json(&["inspect", "resnet50", "bert-base", "--json"]);
    let resnet = &all["traces"][0];
    assert_eq!(resnet["peak_bytes"], 1_625_166_736);
    assert_eq!(resnet["iterations"][1]["persistent_bytes"], 204_669_160);
    assert_eq!(resnet["iterations"][1]["allocations"], 1861);
    assert_eq!(resnet["iterations"][1]["peak_phase"], "backward");
    let (least, sum) =
        (all["least_budget_bytes"].as_u64(), all["sum_of_solo_peaks_bytes"].as_u64());
    assert_eq!(all["budgets"][0]["bytes"].as_u64(), least);
    assert_eq!(all["budgets"][5]["bytes"].as_u64(), sum);
    let text = stdout(&zico(&["inspect", "resnet50", "bert-base"]));
    for words in ["1.51 GiB", "195.19 MiB", "backward", "L = ", "f=0.25", "█"] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let list = stdout(&zico(&["inspect"]));
    assert_eq!(list.matches("GiB").count(), 11 + 3 + 2 * 2, "{list}");
    let row = list.lines().find(|line| line.starts_with("| carry ")).unwrap();
    assert!(row.contains("13 MiB") && row.contains("81 MiB"), "{row}");
}

/// A recording that begins in the middle of the training, from a GPU.
#[test]
fn what_was_in_use_before_a_recording_is_shown_kept_and_replayed() {
    let excerpt = "tests/data/v100-excerpt.json.gz";
    let before = 4_096_614_400_u64;
    let inspected = json(&["inspect", excerpt, "--json"]);
    let trace = &inspected["traces"][0];
    assert_eq!(trace["recording"]["device"], "CUDA device 1");
    assert_eq!(trace["recording"]["before_bytes"], before);
    assert_eq!(trace["iterations"][0]["persistent_bytes"], before);
    assert_eq!(trace["peak_bytes"], 6_629_508_096_u64);
    let text = stdout(&zico(&["inspect", excerpt]));
    assert!(text.contains("In use before the recording: 3.82 GiB, by Total Allocated; "), "{text}");
    assert!(json(&["inspect", "dlrm", "--json"])["traces"][0].get("recording").is_none());
    let replayed = json(&["replay", excerpt, "-n", "2", "--budget", "8GiB", "--json"]);
    assert_eq!(replayed["jobs"][0]["failure"], serde_json::Value::Null);
    assert!(replayed["jobs"][0]["kept_bytes"].as_u64() >= Some(before), "{replayed}");
    let planned = json(&["plan", excerpt, "--json"]);
    assert_eq!(planned["persistent_bytes"], before);
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("before.ztrace");
    let out = out.to_str().unwrap();
    let made = zico(&["convert", excerpt, out, "--force", "--kept-before", "1GiB"]);
    assert!(
        stdout(&made).contains("In use before the recording: 1 GiB, as given by --kept-before")
    );
    let kept = &json(&["inspect", out, "--json"])["traces"][0]["iterations"][0]["start_bytes"];
    assert_eq!(kept, 1_u64 << 30);
    // What a recording does not say is said without being asked for; what it does is not.
    let sample = "tests/data/midrun-sample.json.gz";
    let run = ["replay", excerpt, sample, sample, "-n", "1", "--budget", "f=1"];
    let warnings = stderr(&zico(&run));
    assert_eq!(warnings.lines().count(), 1, "{warnings}");
    assert!(
        warnings.starts_with(&format!("zico: {sample}: In use before the recording: unknown. But"))
    );
    // Options that can have no meaning are refused, and nothing is written.
    let new = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("not-written.ztrace");
    let new = new.to_str().unwrap();
    let recordings = ["PyTorch profiles and snapshots"];
    refused(&["convert", out, new, "--kept-before", "1GiB"], &recordings);
    assert!(!PathBuf::from(new).exists());
    refused(&["inspect", "--device-index", "1"], &recordings);
    refused(&["inspect", "dlrm", "--device-index", "1"], &recordings);
    refused(&["replay", "dlrm", "--budget", "f=1", "--kept-before", "1GiB"], &recordings);
    refused(&["plan", "dlrm", "--kept-before", "1GiB"], &recordings);
    refused(
        &["inspect", excerpt, sample, "--kept-before", "1GiB"],
        &["one by one", excerpt, sample],
    );
    refused(
        &["inspect", excerpt, "--device-index", "0"],
        &["accelerator 0, only of CUDA device 1"],
    );
    refused(&["inspect", excerpt, "--device-index", "one"], &["--device-index"]);
    refused(&["inspect", excerpt, "--kept-before", "much"], &["is no number with a unit"]);
}

#[test]
fn convert_keeps_what_is_there() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("converted.ztrace");
    let _ = fs::remove_file(&out);
    let out = out.to_str().unwrap();
    let sample = "tests/data/midrun-sample.json.gz";
    let made = zico(&["convert", sample, out, "--provenance", "a test"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert!(stdout(&made).contains("3 iterations"));
    refused(&["convert", sample, out], &["is there already", "--force"]);
    refused(&["convert", sample, out, "--bandwidth", "0"], &["no bandwidth", "0.001 to 100000"]);
    let before = fs::read(out).unwrap();
    let broken = file("broken.json", b"{");
    refused(&["convert", broken.to_str().unwrap(), out, "--force"], &["broken.json"]);
    assert_eq!(fs::read(out).unwrap(), before, "a failure loses nothing");
    let of = |file: &str| json(&["inspect", file, "--json"])["traces"][0]["iterations"].clone();
    assert_eq!(of(out), of(sample));
    assert!(stdout(&zico(&["inspect", out])).contains("a test"));
}

#[test]
fn help_teaches() {
    let text = stdout(&zico(&["--help"]));
    for words in ["replay", "compare", "inspect", "convert", "Examples:", "Exit codes:"] {
        assert!(text.contains(words), "no {words:?}");
    }
    let text = stdout(&zico(&["replay", "--help"]));
    for words in ["--budget", "S the sum", "exclusive", "--report", "assumption", "[default: 20]"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zico"))
        .args(["inspect", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn convert_takes_memory_snapshots() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("snapshot.ztrace");
    let out = out.to_str().unwrap();
    let made = zico(&["convert", "tests/data/snapshot-4.pickle", out, "--force"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let expected = "snapshot-4: 3 iterations, 10 blocks (2 of them from before the first iteration), 18 launches";
    assert!(stdout(&made).starts_with(expected), "{}", stdout(&made));
    assert!(stdout(&zico(&["inspect", out])).contains("iterations as annotated"));
    let evil = file("evil.pickle", b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R.");
    refused(
        &["inspect", evil.to_str().unwrap()],
        &["evil.pickle", "byte 2: GLOBAL is not carried out"],
    );
}
