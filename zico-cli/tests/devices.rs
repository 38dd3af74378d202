//! The program where there is a CUDA driver (the one in software of `tests/cuda-driver`), and where
//! there is none.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

/// The program, with this driver as `libcuda.so`, or with the machine's own, if there is one.
fn zico(args: &[&str], driver: bool, settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zico"));
    command.args(args).envs(settings.iter().copied()).env_remove("LD_LIBRARY_PATH");
    if driver {
        command.env("LD_LIBRARY_PATH", folder());
    }
    command.output().unwrap()
}

/// A folder with the driver, which cargo has built beside this test.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let driver = std::env::current_exe().unwrap().with_file_name("libzico_cuda_driver.so");
        assert!(driver.exists(), "a dependency of this test");
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("driver");
        fs::create_dir_all(&folder).unwrap();
        let fresh = folder.join(std::process::id().to_string());
        let _ = fs::remove_file(&fresh);
        symlink(driver, &fresh).unwrap();
        fs::rename(fresh, folder.join("libcuda.so")).unwrap();
        folder
    })
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    // Of the sample it is told that its profile does not say what was in use before it, and told
    // once.
    let warnings = String::from_utf8(output.stderr.clone()).unwrap();
    let warned = warnings.contains(": In use before the recording: unknown. But ");
    assert_eq!(warnings.lines().count(), usize::from(warned), "{warnings}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(driver: bool, settings: &[(&str, &str)]) -> Value {
    serde_json::from_str(&text(&zico(&["devices", "--json"], driver, settings))).unwrap()
}

#[test]
fn devices_are_listed() {
    let settings = [("ZICO_DRIVER_DEVICES", "2")];
    let listed = text(&zico(&["devices"], true, &settings));
    for words in
        ["CUDA 12.4", "cuda:0", "cuda:1", "zico test driver", "1 GiB", "9.0", "in units of 2 MiB"]
    {
        assert!(listed.contains(words), "no {words:?} in\n{listed}");
    }
    let found = json(true, &settings);
    assert_eq!((&found["cuda_version"], &found["trouble"]), (&"12.4".into(), &Value::Null));
    let device = &found["devices"][1];
    assert_eq!(
        (&device["device"], &device["memory_bytes"]),
        (&"cuda:1".into(), &(1u64 << 30).into())
    );
    assert_eq!(device["granularity_bytes"], 2 << 20);
}

#[test]
fn why_there_is_none_is_said_and_is_no_failure() {
    for (settings, words) in [
        (("ZICO_DRIVER_DEVICES", "0"), "CUDA_ERROR_NO_DEVICE (100)"),
        (("ZICO_DRIVER_FAULTS", "cuInit:1=304"), "CUDA_ERROR_OPERATING_SYSTEM (304)"),
        (("ZICO_DRIVER_FAULTS", "cuInit:1=4711"), "unknown to this driver (4711)"),
    ] {
        let listed = text(&zico(&["devices"], true, &[settings]));
        assert!(listed.contains("No CUDA device: cuInit: ") && listed.contains(words), "{listed}");
        assert_eq!(json(true, &[settings])["devices"], Value::Array(Vec::new()));
    }
    let without = json(true, &[("ZICO_DRIVER_NO_VMM", "1")]);
    assert_eq!(without["devices"][0]["virtual_memory"], false);
    assert!(text(&zico(&["devices"], true, &[("ZICO_DRIVER_NO_VMM", "1")])).contains("no: zico"));
}

/// Without the driver in software the answer depends on the machine; there is one on any.
#[test]
fn a_machine_with_or_without_a_driver_answers() {
    let found = json(false, &[]);
    let has_devices = !found["devices"].as_array().unwrap().is_empty();
    assert_ne!(has_devices, found["trouble"].is_string(), "{found}");
    if !PathBuf::from("/dev/nvidiactl").exists() {
        assert!(text(&zico(&["devices"], false, &[])).contains("No CUDA device: no CUDA driver"));
    }
}

const SAMPLE: &str = "tests/data/midrun-sample.json.gz";

/// Three small jobs in memory for two.
fn replay(more: &[&str], settings: &[(&str, &str)]) -> Output {
    let args = ["replay", SAMPLE, SAMPLE, SAMPLE, "--budget", "4MiB", "--device", "cuda:0"];
    zico(&[&args, more].concat(), true, settings)
}

#[test]
fn jobs_share_a_device_and_every_pattern_holds() {
    for hand_over in ["fenced", "isolated"] {
        let more = ["-n", "5", "--json", "--hand-over", hand_over];
        let outcome: Value = serde_json::from_str(&text(&replay(&more, &[]))).unwrap();
        let number = |key: &str| outcome[key].as_u64().unwrap();
        assert_eq!((number("mismatches"), &outcome["device"]), (0, &"zico test driver".into()));
        assert!(number("peak_held_bytes") <= number("budget_bytes"));
        // 25 allocations an iteration, three jobs, five iterations.
        assert!(number("patterns_checked") >= 25 * 3 * 5);
        let jobs = outcome["jobs"].as_array().unwrap();
        let peaks: u64 = jobs.iter().map(|job| job["peak_bytes"].as_u64().unwrap()).sum();
        assert!(peaks > number("budget_bytes"), "nothing was shared: {outcome}");
        assert!(jobs.iter().all(|job| job["iterations"].as_u64().unwrap() >= 5), "{outcome}");
        let calls = outcome["calls"].as_array().unwrap();
        let mapped = calls.iter().find(|call| call["function"] == "cuMemMap").unwrap();
        assert_eq!(mapped["calls"], outcome["maps"]);
    }
    let tables = text(&replay(&["-n", "2"], &[]));
    for words in ["| midrun-sample #3 |", "| cuMemSetAccess ", "that were wrong  0"] {
        assert!(tables.contains(words), "no {words:?} in\n{tables}");
    }
}

/// A loss of 8 MiB that outlives its iteration is held between two, beside what persists.
#[test]
fn what_a_job_carries_over_it_keeps() {
    let args = ["replay", "carry", "-n", "3", "--budget", "f=1", "--device", "cuda:0", "--json"];
    let outcome: Value = serde_json::from_str(&text(&zico(&args, true, &[]))).unwrap();
    let of = |key: &str| outcome["jobs"][0][key].as_u64().unwrap() >> 20;
    assert_eq!((of("persistent_bytes"), of("kept_bytes")), (6, 14), "{outcome}");
}

#[test]
fn what_goes_wrong_on_a_device_is_told() {
    // The driver swallows the first kernels, some of which were to write patterns.
    let swallowed: Vec<String> = (1..=20).map(|nth| format!("cuLaunchKernel:{nth}=0")).collect();
    let settings = [("ZICO_DRIVER_FAULTS", swallowed.join(","))];
    let output =
        replay(&["-n", "2", "--json"], &settings.each_ref().map(|(k, v)| (*k, v.as_str())));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{outcome}");
    assert!(outcome["mismatches"].as_u64().unwrap() > 0, "{outcome}");
    // A job whose memory cannot be mapped stops alone. The first mapping is the kernels' count.
    let output = replay(&["-n", "2", "--json"], &[("ZICO_DRIVER_FAULTS", "cuMemMap:2=304")]);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{outcome}");
    let failures =
        outcome["jobs"].as_array().unwrap().iter().filter(|job| job["failure"].is_string());
    assert_eq!(failures.count(), 1, "{outcome}");
}

#[test]
fn a_device_that_cannot_be_used_is_refused_with_the_reason() {
    let refused = |output: Output, words: &str| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words) && !text.contains("panicked"), "no {words:?} in {text}");
    };
    let on =
        |device: &str| zico(&["replay", SAMPLE, "--budget", "8MiB", "--device", device], true, &[]);
    refused(on("cuda:7"), "no CUDA device 7: the driver has 1");
    refused(on("cuda:x"), "a device is mock, host or cuda:N");
    refused(on("gpu"), "a device is mock, host or cuda:N");
    refused(replay(&["--report", "r.html"], &[]), "--report draws");
    refused(replay(&[], &[("ZICO_DRIVER_MEMORY", "2097152")]), "more than the device's 2 MiB");
    refused(replay(&[], &[("ZICO_DRIVER_NO_VMM", "1")]), "no virtual memory management");
    if !PathBuf::from("/dev/nvidiactl").exists() {
        let args = ["replay", SAMPLE, "--budget", "8MiB", "--device", "cuda:0"];
        refused(zico(&args, false, &[]), "no CUDA driver");
    }
}
