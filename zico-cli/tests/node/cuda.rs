//! `zico serve --device cuda:N`, on the CUDA driver in software.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use zico_core::{Bytes, Lifetime, Request};
use zico_cuda::{CudaDevice, Options, Pattern, Probe};
use zico_node::Client;

use crate::{Broker, Folder, LOOK, refused, until, zico};

/// Says to a process what it is to do as a client.
const PART: &str = "ZICO_TEST_PART";

/// The driver as `libcuda.so`, a log of its calls, and a GPU that no other test has.
struct Machine {
    folder: Folder,
}

impl Machine {
    fn new() -> Self {
        let driver = std::env::current_exe().unwrap().with_file_name("libzico_cuda_driver.so");
        assert!(driver.exists(), "a dependency of this test");
        let folder = Folder::new();
        std::os::unix::fs::symlink(driver, folder.path().join("libcuda.so")).unwrap();
        Self { folder }
    }

    fn log(&self, of: &str) -> PathBuf {
        self.folder.path().join(format!("{of}.log"))
    }

    /// Lets a command use the driver.
    fn on<'c>(&self, command: &'c mut Command, log: &str) -> &'c mut Command {
        let uuid = self.folder.path().file_name().and_then(OsStr::to_str).unwrap();
        let number = uuid.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
        command
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("ZICO_DRIVER_UUID", number.to_string())
            .env("ZICO_DRIVER_LOG", self.log(log))
    }

    fn serve(&self, more: &[&str]) -> Broker {
        let mut command = zico();
        command.args(["serve", "--device", "cuda:0", "--budget", "16MiB"]).args(more);
        self.on(&mut command, "broker");
        Broker::start(command)
    }

    /// A process that does its part as a client.
    fn client(&self, part: &str, socket: &Path) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["cuda::a_client_does_its_part", "--exact", "--nocapture"]);
        command.env(PART, part).env("ZICO_SOCKET", socket);
        self.on(&mut command, "client").spawn().unwrap()
    }
}

/// Run by the other tests, in processes of their own; nothing by itself.
#[test]
fn a_client_does_its_part() {
    let Some(part) = std::env::var_os(PART) else { return };
    let device = CudaDevice::open(0, Options::new().shareable(true)).unwrap();
    let socket = PathBuf::from(std::env::var_os("ZICO_SOCKET").unwrap());
    let pool = Client::connect(device.clone(), &socket).unwrap();
    let stream = device.add_stream().unwrap();
    let job = pool.join("on a gpu", stream).unwrap();
    let probe = Probe::load(&device).unwrap();
    for seed in 1..=3 {
        job.begin_blocking(None, LOOK).unwrap();
        let len = Bytes::mib(10);
        let block = job.alloc_blocking(Request::new(len, Lifetime::Iteration), LOOK).unwrap();
        let pattern = Pattern { addr: block.address(), len, stride: 512, seed };
        probe.fill(stream, pattern).unwrap();
        probe.check(stream, pattern).unwrap();
        if part == "hold" {
            std::thread::sleep(Duration::from_secs(600));
        }
        job.free(block).unwrap();
        job.end().unwrap();
    }
    device.synchronize().unwrap();
    assert_eq!(probe.mismatches().unwrap(), 0);
}

#[test]
fn the_broker_of_a_gpu_makes_no_context_and_maps_nothing() {
    let machine = Machine::new();
    let mut broker = machine.serve(&[]);
    assert!(broker.line.starts_with("zico serves GPU-"), "{}", broker.line);
    assert!(broker.line.ends_with("a budget of 16 MiB in 8 regions of 2 MiB\n"), "{}", broker.line);
    let status = machine.client("work", &broker.socket).wait().unwrap();
    assert!(status.success());
    let books = broker.json(&["status"]);
    assert!(books["held_bytes"].as_u64() >= Some(10 << 20), "{books}");
    assert_eq!(broker.end(rustix::process::Signal::TERM).0, Some(0));
    let calls = |log: &str| fs::read_to_string(machine.log(log)).unwrap();
    let count =
        |calls: &str, name: &str| calls.lines().filter(|line| *line == format!("{name} 0")).count();
    let (own, theirs) = (calls("broker"), calls("client"));
    let regions = count(&own, "cuMemCreate");
    assert!((5..=8).contains(&regions), "{own}");
    let imports = count(&theirs, "cuMemImportFromShareableHandle");
    assert_eq!(count(&own, "cuMemExportToShareableHandle"), imports);
    assert_eq!(count(&own, "cuMemRelease"), regions, "all of it goes back");
    let without_context = [
        "cuInit",
        "cuDeviceGet",
        "cuMemCreate",
        "cuMemExportToShareableHandle",
        "cuMemRelease",
        "cuMemGetAllocationGranularity",
    ];
    for line in own.lines() {
        let name = line.split(' ').next().unwrap();
        let known = without_context.contains(&name)
            || (name.starts_with("cuDevice") && !name.starts_with("cuDevicePrimaryCtx"));
        assert!(known, "the broker calls {line}");
    }
    // The client's does all of that, so the log would have it.
    for name in ["cuDevicePrimaryCtxRetain", "cuMemImportFromShareableHandle", "cuMemMap"] {
        assert!(count(&theirs, name) > 0, "{name} in\n{theirs}");
    }
    // What its kernels count in is its own; all else is the broker's.
    assert_eq!(count(&theirs, "cuMemCreate"), 1);
}

#[test]
fn a_gpu_has_one_broker() {
    let machine = Machine::new();
    let broker = machine.serve(&[]);
    let folder = Folder::new();
    let mut second = zico();
    second.args(["serve", "--device", "cuda:0", "--budget", "16MiB", "--socket"]);
    second.arg(folder.path().join("other.sock"));
    let pid = format!("process {}", broker.child.id());
    refused(machine.on(&mut second, "second"), &["GPU-", "has a broker already", &pid]);
    assert!(!folder.path().join("other.sock").exists());
    // Killed, it has the GPU no more.
    drop(broker);
    drop(machine.serve(&[]));
}

/// What a client held that was killed is nobody's until the grace is over as well.
#[test]
fn what_a_killed_job_held_waits_for_the_grace() {
    let machine = Machine::new();
    let grace = Duration::from_millis(1500);
    let broker = machine.serve(&["--grace", "1500ms"]);
    let mut client = machine.client("hold", &broker.socket);
    let held = || broker.json(&["status"])["jobs"][0]["held_bytes"].as_u64();
    until("that it holds memory", || held() >= Some(10 << 20));
    client.kill().unwrap();
    client.wait().unwrap();
    let killed = Instant::now();
    until("that its job leaves", || broker.json(&["status"])["jobs"][0]["activity"] != "running");
    assert!(killed.elapsed() > grace || held() >= Some(10 << 20));
    until("that it is gone", || broker.json(&["status"])["jobs"].as_array().unwrap().is_empty());
    assert!(killed.elapsed() >= grace.mul_f64(0.95), "{:?}", killed.elapsed());
    // All of it is there for the next one.
    assert!(machine.client("work", &broker.socket).wait().unwrap().success());
}

#[test]
fn what_a_gpu_cannot_is_refused() {
    let machine = Machine::new();
    let serve = |device: &str, more: &[&str]| {
        let folder = machine.folder.path();
        let mut command = zico();
        command.args(["serve", "--budget", "16MiB", "--device", device]).args(more);
        machine.on(&mut command, "refused").env("XDG_RUNTIME_DIR", folder);
        command
    };
    refused(&mut serve("cuda:7", &[]), &["no CUDA device 7"]);
    refused(&mut serve("cuda:0", &["--capacity", "1GiB"]), &["--capacity is for the host"]);
    refused(&mut serve("cuda:0", &["--region", "64KiB"]), &["64 KiB", "2 MiB"]);
    refused(serve("cuda:0", &[]).env("ZICO_DRIVER_NO_VMM", "1"), &["no virtual memory management"]);
    refused(serve("cuda:0", &[]).env("ZICO_DRIVER_MEMORY", "4194304"), &["4 MiB"]);
}

/// Recorded jobs as processes that share a GPU's memory.
#[test]
fn a_replay_in_processes_shares_a_gpu() {
    let machine = Machine::new();
    let mut replay = zico();
    replay.args(["replay", "carry", "carry", "--budget", "f=0.5", "--json"]);
    replay.args(["-n", "5", "--processes", "--device", "cuda:0"]);
    let output = machine.on(&mut replay, "replay").output().unwrap();
    assert!(output.status.success(), "{}", crate::stderr(&output));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&outcome["mismatches"], &outcome["jobs"][0]["failure"]),
        (&0.into(), &None::<u8>.into())
    );
    assert!(outcome["jobs"][1]["messages"].as_u64().unwrap() > 100, "{outcome}");
    assert!(outcome["patterns_checked"].as_u64().unwrap() >= 2 * 5 * 12, "{outcome}");
}
