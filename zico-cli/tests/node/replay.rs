//! `zico replay` on host memory, in one process and in several.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{refused, stderr, stdout, until, zico};

const JOBS: [&str; 7] = ["replay", "carry", "carry", "carry", "--budget", "f=0.4", "--json"];

fn replayed(options: &[&str]) -> Value {
    let output = zico().args(JOBS).args(options).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn recorded_jobs_share_host_memory_in_one_process_and_in_three() {
    let ways = [&["--device", "host"][..], &["--processes"], &["--processes", "--end-with-next"]];
    for options in ways {
        let outcome = replayed(&[&["-n", "10"], options].concat());
        let budget = outcome["budget_bytes"].as_u64().unwrap();
        // More than one of them takes, and no more than the budget, by the kernel's count where
        // they are processes.
        let held = outcome["peak_held_bytes"].as_u64().unwrap();
        assert!(held > 60 << 20 && held <= budget, "{outcome}");
        assert_eq!(outcome["mismatches"], 0, "{outcome}");
        assert!(outcome["patterns_checked"].as_u64().unwrap() >= 3 * 10 * 12, "{outcome}");
        let jobs = outcome["jobs"].as_array().unwrap();
        let names: Vec<&Value> = jobs.iter().map(|job| &job["name"]).collect();
        assert_eq!(names, ["carry", "carry #2", "carry #3"]);
        for job in jobs {
            assert!(
                job["failure"].is_null() && job["iterations"].as_u64() >= Some(10),
                "{outcome}"
            );
            assert_eq!(job["messages"].is_number(), options[0] == "--processes", "{outcome}");
        }
    }
}

/// A process of one of the jobs is killed: the others do their iterations, and the replay says what
/// has happened.
#[test]
fn a_job_that_is_killed_is_said_to_be() {
    let mut replay = zico()
        .args(JOBS)
        .args(["-n", "40", "--processes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", replay.id());
        let all = std::fs::read_to_string(path).unwrap_or_default();
        all.split_whitespace().map(|pid| pid.parse::<i32>().unwrap()).collect::<Vec<_>>()
    };
    until("three processes", || children().len() == 3);
    kill_process(Pid::from_raw(children()[1]).unwrap(), Signal::KILL).unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(replay.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(replay.wait().unwrap().code(), Some(1), "{said}");
    let outcome: Value = serde_json::from_str(&said).unwrap();
    let killed = outcome["jobs"][1]["failure"].as_str().unwrap();
    assert!(killed.contains("its process has ended: signal: 9"), "{outcome}");
    for other in [0, 2] {
        let job = &outcome["jobs"][other];
        assert!(job["failure"].is_null() && job["iterations"].as_u64() >= Some(40), "{outcome}");
    }
    assert_eq!(outcome["mismatches"], 0);
}

#[test]
fn what_cannot_be_shared_by_processes_is_refused() {
    let replay = |options: &[&str]| {
        let mut command = zico();
        command.args(["replay", "carry", "--budget", "1GiB"]).args(options);
        command
    };
    let mock = ["--processes", "--device", "mock"];
    refused(&mut replay(&mock), &["--device host"]);
    refused(&mut replay(&["--processes", "--policy", "unmanaged"]), &["unmanaged"]);
    refused(&mut replay(&["--processes", "--report", "x.html"]), &["--report"]);
}
