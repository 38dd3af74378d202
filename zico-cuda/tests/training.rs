//! Runs the example that trains two networks: on the driver in software, which does its kernels on
//! the host, and with whatever driver this machine has.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The example, which cargo builds before the tests of the package, unless only one is asked for.
fn example() -> Command {
    let program = beside("../examples/cudarc_training");
    assert!(program.exists(), "no {}: `cargo build --examples` makes it", program.display());
    Command::new(program)
}

/// A path from the folder of this test.
fn beside(path: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(path)
}

fn text(output: &Output) -> String {
    let Output { status, stdout, stderr } = output;
    let text = format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
    assert!(status.success(), "{status}\n{text}");
    text
}

#[test]
fn two_networks_learn_in_one_budget() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver");
    fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libcuda.so");
    let _ = fs::remove_file(&library);
    std::os::unix::fs::symlink(beside("libzico_cuda_driver.so"), &library).unwrap();
    let log = folder.join("calls.log");
    let _ = fs::remove_file(&log);

    let mut program = example();
    program.env("LD_LIBRARY_PATH", &folder).env("ZICO_DRIVER_LOG", &log);
    let text = text(&program.output().unwrap());
    for job in ["wide: loss", "narrow: loss"] {
        assert!(text.contains(job), "{text}");
    }
    let log = fs::read_to_string(&log).unwrap();
    let nothing = "end ranges=0 allocations=0 mappings=0 streams=0 events=0 modules=0 pinned=0";
    assert!(log.lines().any(|line| line == nothing), "something was not given back\n{text}");
}

#[test]
fn without_a_driver_it_says_so() {
    let mut program = example();
    program.env("LD_LIBRARY_PATH", env!("CARGO_TARGET_TMPDIR"));
    let text = text(&program.output().unwrap());
    assert!(text.contains("nothing to train on here") || text.contains("wide: loss"), "{text}");
}
