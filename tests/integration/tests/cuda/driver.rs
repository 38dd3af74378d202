//! Runs tests with the driver in software in place of the machine's CUDA driver.
//!
//! The dynamic linker reads its path when a process starts. So a test runs itself again as a child
//! process, in which a folder with the driver, as `libcuda.so`, is on the path.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Says to a process that it is the child, of which test.
const CHILD: &str = "ZICO_TEST_CHILD";

/// Runs `body` in a child process with the driver, set up by `settings`. Returns what the driver
/// logged; nothing in the child, where the test is over then.
pub(crate) fn on_driver(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Option<Log> {
    in_child(test, Some(&folder()), settings, body)
}

/// As [`on_driver`], with another folder on the path, or none.
pub(crate) fn in_child(
    test: &str,
    library_path: Option<&Path>,
    settings: &[(&str, &str)],
    body: impl FnOnce(),
) -> Option<Log> {
    if std::env::var_os(CHILD).as_deref() == Some(OsStr::new(test)) {
        body();
        return None;
    }
    let log = scratch().join(format!("calls-{}.log", unique()));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    child.env(CHILD, test).env("ZICO_DRIVER_LOG", &log);
    child.env_remove("LD_LIBRARY_PATH").envs(library_path.map(|path| ("LD_LIBRARY_PATH", path)));
    child.envs(settings.iter().copied());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} {settings:?}: {}\n{text}", output.status);
    assert!(text.contains("running 1 test"), "there is no test {test:?}\n{text}");
    let lines = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(&log);
    Some(Log { lines: lines.lines().map(str::to_owned).collect() })
}

/// A name that no other thread or process has.
fn unique() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A folder of these tests.
pub(crate) fn scratch() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cuda");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Puts a library into a folder of its own as `libcuda.so`, for any number of processes at once.
pub(crate) fn folder_with(name: &str, library: &Path) -> PathBuf {
    let folder = scratch().join(name);
    fs::create_dir_all(&folder).unwrap();
    let fresh = folder.join(unique());
    let _ = fs::remove_file(&fresh);
    std::os::unix::fs::symlink(library, &fresh).unwrap();
    fs::rename(&fresh, folder.join("libcuda.so")).unwrap();
    folder
}

/// The folder with the driver, which cargo has built beside this test.
fn folder() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let driver = tests.with_file_name("libzico_cuda_driver.so");
    assert!(driver.exists(), "no {}: a dependency of this test", driver.display());
    folder_with("driver", &driver)
}

/// The calls that a driver has seen, in order, with their codes.
pub(crate) struct Log {
    lines: Vec<String>,
}

impl Log {
    /// The calls by name.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &str> {
        let calls = self.lines.iter().filter_map(|line| line.split_once(' '));
        calls.map(|(name, _)| name).filter(|name| name.starts_with("cu"))
    }

    /// How often a function was called with success.
    pub(crate) fn count(&self, name: &str) -> usize {
        let call = format!("{name} 0");
        self.lines.iter().filter(|line| **line == call).count()
    }

    /// Every context has ended, and nothing was left of it.
    pub(crate) fn all_came_back(&self) {
        let ends: Vec<&String> = self.lines.iter().filter(|line| line.starts_with("end")).collect();
        assert!(!ends.is_empty(), "no context has ended");
        for end in ends {
            assert_eq!(
                end, "end ranges=0 allocations=0 mappings=0 streams=0 events=0 modules=0 pinned=0",
                "something was not given back"
            );
        }
        let retained = self.count("cuDevicePrimaryCtxRetain");
        assert_eq!(self.count("cuDevicePrimaryCtxRelease_v2"), retained);
    }
}
