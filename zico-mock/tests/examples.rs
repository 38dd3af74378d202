//! Runs the examples that the book shows. Cargo builds them before the tests of the package.

use std::process::Command;

fn run(example: &str) {
    // Tests are in target/*/deps, examples in target/*/examples.
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("examples").join(example);
    assert!(program.exists(), "no {}: `cargo build --examples` makes it", program.display());
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
