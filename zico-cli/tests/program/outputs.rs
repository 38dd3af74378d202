//! Output files: what is written, and what is never overwritten.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{file, refused, stderr, zico};

const SAMPLE: &str = "tests/data/midrun-sample.json.gz";

/// Each command that writes a file, with what it reads and where it writes.
fn commands<'a>(input: &'a str, output: &'a str) -> [Vec<&'a str>; 4] {
    [
        vec!["replay", input, "-n", "1", "--budget", "f=1", "--report", output],
        vec!["compare", input, "-n", "1", "--budget", "f=1", "-p", "zico", "--report", output],
        vec!["plan", input, "--work", "0", "--report", output],
        vec!["convert", input, output],
    ]
}

fn forced<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(["--force"]).collect()
}

#[test]
fn a_file_that_is_there_is_kept_unless_by_force() {
    let out = file("kept-output", b"mine");
    let path = out.to_str().unwrap();
    for args in commands(SAMPLE, path) {
        fs::write(&out, "mine").unwrap();
        refused(&args, &[&format!("{path} is there already; --force writes over it")]);
        assert_eq!(fs::read(&out).unwrap(), b"mine", "{args:?}");
        let done = zico(&forced(&args));
        assert_eq!(done.status.code(), Some(0), "{args:?}: {}", stderr(&done));
        assert_ne!(fs::read(&out).unwrap(), b"mine", "{args:?}");
        // The same command, done again, as from the README.
        fs::remove_file(&out).unwrap();
        assert_eq!(zico(&args).status.code(), Some(0), "{args:?}");
        refused(&args, &["is there already"]);
        assert_eq!(zico(&forced(&args)).status.code(), Some(0), "{args:?}");
    }
}

/// It is said before anything is done: these jobs would fail.
#[test]
fn what_may_not_be_written_is_said_first() {
    let out = file("early-output", b"mine");
    let path = out.to_str().unwrap();
    for args in commands("nobody", path) {
        refused(&args, &["is there already"]);
    }
}

#[test]
fn what_is_read_is_not_written_over_even_by_force() {
    let recording = fs::read(SAMPLE).unwrap();
    let input = file("read-and-written.json.gz", &recording);
    for output in ways_to(&input) {
        let (from, to) = (input.to_str().unwrap(), output.to_str().unwrap());
        for args in commands(from, to) {
            refused(&forced(&args), &[&format!("{to} is what this reads: write to another file")]);
            refused(&args, &[to]);
            assert_eq!(fs::read(&input).unwrap(), recording, "{args:?}");
        }
    }
}

/// One of several that are read, too.
#[test]
fn every_trace_counts_as_read() {
    let input = file("second.json.gz", &fs::read(SAMPLE).unwrap());
    let path = input.to_str().unwrap();
    for command in ["replay", "compare"] {
        let args = [command, "dlrm", path, "--budget", "f=1", "--report", path, "--force"];
        refused(&args, &["is what this reads"]);
    }
}

#[test]
fn force_needs_something_to_force() {
    refused(&["replay", "dlrm", "--budget", "f=1", "--force"], &["--report"]);
}

/// Names of one file: its own, a way round, and links where there are such.
fn ways_to(path: &Path) -> Vec<PathBuf> {
    let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
    let round = folder.join("..").join(folder.file_name().unwrap()).join(name);
    let mut ways = vec![path.to_owned(), round];
    if cfg!(unix) {
        let (soft, hard) = (path.with_extension("soft"), path.with_extension("hard"));
        let _ = [&soft, &hard].map(fs::remove_file);
        fs::hard_link(path, &hard).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(path, &soft).unwrap();
        ways.extend([soft, hard]);
    }
    ways
}
