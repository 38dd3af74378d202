//! Names and descriptions with terminal control sequences.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::{file, json, stderr, stdout, zico};

/// Clears the screen, sets the title, breaks the line, turns the text around, colours it by one
/// character.
const NAME: &str = "evil\u{1b}[2J\u{1b}]0;title\u{7}\nname\u{202e}dne\u{2066}\u{9b}31m\r\tend";

fn is_harmless(c: char) -> bool {
    c == '\n' || !(c.is_control() || "\u{202e}\u{2066}\u{200f}\u{2028}".contains(c))
}

/// What a command prints, which nothing in a name may get at. Rows of one table are equally long.
fn printed(args: &[&str], code: i32) -> String {
    let output = zico(args);
    let text = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(text.chars().all(is_harmless), "{args:?}: {text:?}");
    assert!(text.contains("evil\\u001b[2J\\u001b]0;title\\u0007\\nname\\u202edne"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let is_row = |line: &str| line.starts_with('|');
    for rows in lines.windows(2).filter(|rows| is_row(rows[0]) && is_row(rows[1])) {
        assert_eq!(rows[0].chars().count(), rows[1].chars().count(), "{args:?}: {text}");
    }
    text
}

fn trace(name: &str) -> PathBuf {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let sample = "tests/data/midrun-sample.json.gz";
    let path = out.to_str().unwrap();
    let text =
        printed(&["convert", sample, path, "--force", "--name", NAME, "--provenance", NAME], 0);
    // What has been made, and what was in use before the recording.
    assert_eq!(text.lines().count(), 2, "{text}");
    out
}

#[test]
fn a_name_does_nothing_to_the_terminal() {
    let trace = trace("hostile.ztrace");
    let trace = trace.to_str().unwrap();
    printed(&["inspect", trace, "dlrm"], 0);
    printed(&["replay", trace, trace, "-n", "2", "--budget", "f=1"], 0);
    printed(&["compare", trace, trace, "-n", "2", "--budget", "f=1", "-p", "zico,static"], 0);
    printed(&["plan", trace], 0);
    printed(&["replay", trace, "dlrm", "--budget", "4MiB"], 2);
}

#[test]
fn a_files_own_name_does_nothing_either() {
    let path = file("evil\u{1b}[2J\u{1b}]0;title\u{7}\\nname\u{202e}dne", b"{}");
    printed(&["inspect", path.to_str().unwrap()], 2);
}

/// To scripts and in reports it is what it was.
#[test]
fn json_and_reports_keep_names() {
    let trace = trace("kept.ztrace");
    let report = trace.with_extension("html");
    let _ = fs::remove_file(&report);
    let (trace, html) = (trace.to_str().unwrap(), report.to_str().unwrap());
    let inspected = json(&["inspect", trace, "--json"]);
    assert_eq!(inspected["traces"][0]["name"], NAME);
    let provenance = format!("{NAME}; in use before the recording: unknown");
    assert_eq!(inspected["traces"][0]["provenance"], provenance);
    let args = ["replay", trace, "-n", "2", "--budget", "f=1", "--report", html, "--json"];
    let output = zico(&args);
    let text = stdout(&output);
    assert!(text.chars().all(is_harmless), "{text:?}");
    let replayed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(replayed["jobs"][0]["name"], NAME);
    assert!(fs::read_to_string(&report).unwrap().contains("evil\u{1b}[2J"));
}
