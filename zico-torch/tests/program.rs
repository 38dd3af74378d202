//! A program in C on the library: compiled by `cc`, run as it is, under valgrind where that is
//! installed, and with the compiler's address sanitizer where it has one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, where a panic is the report"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder that has the library, which cargo has built beside this test.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(folder.join("libzico_torch.so").exists(), "no library in {}", folder.display());
    folder
}

/// Compiles the program. None if the compiler does not know one of the options.
fn compile(name: &str, options: &[&str]) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg("-I").arg(root.join("include")).arg(root.join("tests/c/program.c"));
    compiler.arg("-o").arg(&program).arg("-L").arg(library());
    compiler.args(["-lzico_torch", "-lpthread"]).args(options);
    let output = compiler.output().expect("a C compiler");
    if options.is_empty() {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the program does not compile:\n{text}");
    }
    output.status.success().then_some(program)
}

fn run(command: &mut Command) -> Output {
    command.env("LD_LIBRARY_PATH", library()).output().unwrap()
}

fn is_fine(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
    assert!(out.contains("all as expected"), "{out}");
}

#[test]
fn a_program_in_c_does_as_it_expects() {
    let program = compile("program", &[]).unwrap();
    is_fine(&run(&mut Command::new(program)));
}

#[test]
fn the_header_is_one_for_cpp_too() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++"]);
    let output = compiler.arg(root.join("include/zico.h")).output().expect("a C++ compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Valgrind sees what the library does in Rust as well: a read of memory that is gone, a leak.
#[test]
fn valgrind_finds_nothing() {
    let Ok(version) = Command::new("valgrind").arg("--version").output() else {
        println!("skipped: valgrind is not installed");
        return;
    };
    assert!(version.status.success());
    let program = compile("program-valgrind", &[]).unwrap();
    let mut valgrind = Command::new("valgrind");
    // What statics still point to is no leak: the handles' tables live as long as the process.
    // Branches on what was never written are reported of safe Rust too, where an optimiser looks at
    // the contents of an option before it looks whether there is one.
    valgrind.args(["--error-exitcode=9", "--undef-value-errors=no"]);
    valgrind.args(["--leak-check=full", "--errors-for-leak-kinds=definite"]);
    // Some of valgrind's versions do not know the calls by which a broker tells processes apart.
    is_fine(&run(valgrind.arg(program).arg("--without-broker")));
}

#[test]
fn the_address_sanitizer_finds_nothing() {
    let Some(program) = compile("program-asan", &["-fsanitize=address,undefined"]) else {
        println!("skipped: the compiler has no address sanitizer");
        return;
    };
    is_fine(&run(&mut Command::new(program)));
}

/// With the driver in software in place of the machine's.
#[test]
fn the_program_runs_on_a_cuda_device() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("program-cuda");
    std::fs::create_dir_all(&folder).unwrap();
    let driver = folder.join("libcuda.so");
    let _ = std::fs::remove_file(&driver);
    std::os::unix::fs::symlink(library().join("libzico_cuda_driver.so"), &driver).unwrap();
    let program = compile("program-cuda-driver", &[]).unwrap();
    let paths = std::env::join_paths([folder, library()]).unwrap();
    let output = Command::new(program).env("LD_LIBRARY_PATH", paths).output().unwrap();
    is_fine(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("cuda: a device"));
}
