//! The suite for machines with a GPU, on the driver in software: it passes, and it can fail.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A folder with the driver as `libcuda.so`. Cargo builds the driver beside this test.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let driver = std::env::current_exe().unwrap().with_file_name("libzico_cuda_driver.so");
        assert!(driver.exists(), "no {}: a dependency of this test", driver.display());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("driver");
        fs::create_dir_all(&folder).unwrap();
        // Another process of this test may run.
        let link = folder.join(std::process::id().to_string());
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(driver, &link).unwrap();
        fs::rename(link, folder.join("libcuda.so")).unwrap();
        folder
    })
}

/// The exit code and the output of `zico-gpu`.
fn suite(arguments: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_zico-gpu"));
    program.env("LD_LIBRARY_PATH", folder()).env("ZICO_GPU_ITERATIONS", "5");
    program.args(arguments).envs(settings.iter().copied());
    let output = program.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_gpu_suite_passes() {
    let parts = ["costs", "leases", "sharing", "processes", "memory"];
    let (code, text) = suite(&parts, &[]);
    assert_eq!(code, Some(0), "{text}");
    for words in
        ["| 256 MiB |", "cuEventQuery |", "| Isolated |", "64 MiB went to another", "OUT_OF_MEMORY"]
    {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
}

#[test]
fn the_gpu_suite_fails_where_something_is_wrong() {
    for (part, fault, words) in [
        ("conformance", "cuMemUnmap:3+=304", "not so: an address has one mapping"),
        ("sharing", "cuMemMap:3+=304", "cuMemMap: CUDA_ERROR_OPERATING_SYSTEM (304)"),
        ("processes", "cuMemExportToShareableHandle:1=2", "cuMemExportToShareableHandle"),
        ("memory", "cuMemCreate:5=304", "the end of memory is another error"),
    ] {
        let (code, text) = suite(&[part], &[("ZICO_DRIVER_FAULTS", fault)]);
        assert_eq!(code, Some(1), "{part}: {text}");
        assert!(text.contains(&format!("{part}: FAILED")) && text.contains(words), "{text}");
    }
    let (code, text) = suite(&["memory"], &[("ZICO_DRIVER_DEVICES", "0")]);
    assert_eq!((code, text.contains("no CUDA device: cuInit")), (Some(2), true), "{text}");
}
