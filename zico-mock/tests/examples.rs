//! Runs the examples of the book. Cargo builds them before the tests of the package, unless only
//! some of these are asked for.
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::fs::metadata;
use std::path::Path;
use std::process::Command;

fn run(example: &str) {
    // Tests are in target/*/deps, examples in target/*/examples.
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("examples").join(example);
    let changed = |path: &Path| metadata(path).and_then(|data| data.modified());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let source = if source.is_dir() { source.join("main.rs") } else { source.with_extension("rs") };
    let fresh = changed(&program).is_ok_and(|built| built >= changed(&source).unwrap());
    assert!(fresh, "no {} of today: `cargo build --examples` makes it", program.display());
    let output = Command::new(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {}\n{text}{trouble}", output.status);
    assert!(text.starts_with("budget "), "{example} shows no snapshot of its pool\n{text}");
}

#[test]
fn embed_minimal() {
    run("embed_minimal");
}

#[test]
fn two_jobs_threads() {
    run("two_jobs_threads");
}

#[test]
fn two_jobs_async() {
    run("two_jobs_async");
}

#[test]
fn bring_your_own_device() {
    run("bring_your_own_device");
}
