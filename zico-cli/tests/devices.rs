//! The program where there is a CUDA driver (the one in software of `tests/cuda-driver`), and where
//! there is none.
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
    assert!(output.stderr.is_empty(), "{output:?}");
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
