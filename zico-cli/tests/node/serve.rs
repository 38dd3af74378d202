//! `zico serve`: where it listens, how it ends, what it refuses.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::process::Signal;
use zico_core::{Bytes, Lifetime, Request};

use crate::{Broker, Folder, LOOK, iteration, refused, stderr, stdout, zico};

#[test]
fn it_says_in_one_line_what_it_serves_and_ends_when_interrupted() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut broker = Broker::host("4MiB", &[]);
        let expected = format!(
            "zico serves host at {}: a budget of 4 MiB in 64 regions of 64 KiB\n",
            broker.socket.display()
        );
        assert_eq!(broker.line, expected);
        assert_eq!(fs::metadata(&broker.socket).unwrap().mode() & 0o777, 0o600);
        assert_eq!(broker.end(signal), (Some(0), String::new()));
        assert!(!broker.socket.exists());
    }
}

/// A budget of so many regions that this process may not have a descriptor for each.
#[test]
fn regions_are_larger_where_there_are_few_descriptors() {
    let few = |more: &str| {
        let mut command = std::process::Command::new("sh");
        let serve = format!("serve --device host --budget 8GiB {more} \"$@\"");
        command.args(["-c", &format!("ulimit -n 3000; exec \"$0\" {serve}")]);
        command.arg(zico().get_program());
        command
    };
    let mut broker = Broker::start(few(""));
    let told = "a budget of 8 GiB in 512 regions of 16 MiB\n";
    assert!(broker.line.ends_with(told), "{}", broker.line);
    assert_eq!(broker.end(Signal::TERM).0, Some(0));
    let folder = Folder::new();
    let mut command = few("--region 2MiB");
    command.arg("--socket").arg(folder.path().join("b.sock"));
    refused(&mut command, &["4096 regions of 2 MiB", "may have 3000", "--region"]);
}

/// Interrupted while a job runs: the job keeps what it holds.
#[test]
fn jobs_go_on_with_what_they_hold_when_it_ends() {
    let mut command = zico();
    command.args(["serve", "--device", "host", "--budget", "4MiB", "--region", "64KiB"]);
    command.stderr(std::process::Stdio::piped());
    let mut broker = Broker::start(command);
    let (device, _pool, job) = broker.job("a");
    let block =
        job.alloc_blocking(Request::new(Bytes::mib(1), Lifetime::Persistent), LOOK).unwrap();
    device.fill(block.address(), Bytes::mib(1), 7).unwrap();
    let mut said = broker.child.stderr.take().unwrap();
    assert_eq!(broker.end(Signal::TERM).0, Some(0));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut said, &mut text).unwrap();
    assert_eq!(text, "zico: stopped; 1 job goes on with what is held\n");
    assert!(device.verify(block.address(), Bytes::mib(1), 7).unwrap());
}

/// The usual place, found by the other commands without being told.
#[test]
fn the_usual_socket_is_in_a_folder_of_this_user_alone() {
    let folder = Folder::new();
    let home = folder.path();
    let with_home = |args: &[&str]| {
        let mut command = zico();
        command.args(args).env("XDG_RUNTIME_DIR", home);
        command
    };
    let serve = ["serve", "--device", "host", "--budget", "1MiB"];
    refused(&mut with_home(&["status"]), &["no broker of this user", "zico serve", "ZICO_SOCKET"]);
    let mut child = with_home(&serve).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let socket = home.join("zico/host.sock");
    assert!(line.contains(&format!(" at {}: ", socket.display())), "{line}");
    assert_eq!(fs::metadata(home.join("zico")).unwrap().mode() & 0o777, 0o700);
    let status = with_home(&["status"]).output().unwrap();
    assert!(stdout(&status).contains("No jobs."), "{}", stderr(&status));
    refused(&mut with_home(&serve), &["another broker serves at", "host.sock", "--socket"]);
    // Killed, it leaves its socket; the next one serves there.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(socket.exists());
    refused(&mut with_home(&["status"]), &["no broker serves at", "host.sock"]);
    // A folder that somebody else could write to is refused by both sides.
    fs::set_permissions(home.join("zico"), fs::Permissions::from_mode(0o777)).unwrap();
    refused(&mut with_home(&["status"]), &["can be written to by other users"]);
    refused(&mut with_home(&serve), &["can be written to by other users"]);
}

#[test]
fn of_several_brokers_one_has_to_be_chosen() {
    let folder = Folder::new();
    let place = folder.path().join("zico");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
    let (one, other) = (Broker::host("1MiB", &[]), Broker::host("2MiB", &[]));
    let status = || {
        let mut command = zico();
        command.arg("status").env("XDG_RUNTIME_DIR", folder.path());
        command
    };
    // One that was killed, and one that serves: no choice.
    std::os::unix::fs::symlink("/nowhere", place.join("gone.sock")).unwrap();
    std::os::unix::fs::symlink(&one.socket, place.join("one.sock")).unwrap();
    assert!(stdout(&status().output().unwrap()).contains("The budget is 1 MiB"));
    std::os::unix::fs::symlink(&other.socket, place.join("other.sock")).unwrap();
    refused(&mut status(), &["several brokers", "one.sock, ", "other.sock"]);
    let chosen = status().arg("--socket").arg(&other.socket).output().unwrap();
    assert!(stdout(&chosen).contains("The budget is 2 MiB"), "{}", stderr(&chosen));
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let folder = Folder::new();
    let serve = |more: &[&str]| {
        let mut command = zico();
        command.arg("serve").args(more).env("XDG_RUNTIME_DIR", folder.path());
        command
    };
    let host = |more: &[&str]| serve(&[&["--device", "host", "--budget", "8MiB"], more].concat());
    refused(&mut serve(&["--device", "host"]), &["--budget"]);
    refused(&mut serve(&["--device", "mock", "--budget", "1G"]), &["host or cuda:N"]);
    refused(&mut host(&["--policy", "unmanaged"]), &["unmanaged is for replays"]);
    refused(&mut host(&["--policy", "salus-srtf"]), &["is for replays"]);
    refused(&mut host(&["--capacity", "4MiB"]), &["8 MiB", "4 MiB"]);
    refused(&mut host(&["--region", "4KiB"]), &["4 KiB", "64 KiB"]);
    refused(&mut host(&["--allow-user", "1000"]), &["--socket", "other users can enter"]);
    refused(&mut host(&["--metrics", "everywhere"]), &["neither a port nor an address"]);
    refused(&mut host(&["--metrics", "192.0.2.1:9"]), &["cannot serve metrics at 192.0.2.1:9"]);
    refused(&mut host(&["--grace", "soon"]), &["duration"]);
    let long = format!("/tmp/{}", "x".repeat(120));
    refused(&mut host(&["--socket", &long]), &["socket path"]);
    if !std::path::Path::new("/dev/nvidiactl").exists() {
        refused(&mut serve(&["--device", "cuda:0", "--budget", "8MiB"]), &["no CUDA driver"]);
    }
}

/// As systemd starts it: what is ordered after it finds the socket.
#[test]
fn a_service_manager_hears_when_it_listens() {
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let mut command = zico();
    command.args(["serve", "--device", "host", "--budget", "1MiB"]).env("NOTIFY_SOCKET", &path);
    let broker = Broker::start(command);
    let mut said = [0; 64];
    let len = manager.recv(&mut said).unwrap();
    assert_eq!(String::from_utf8_lossy(&said[..len]).trim_end(), "READY=1");
    assert!(broker.socket.exists());
}

/// Users who are let in get a socket that they can connect to.
#[test]
fn the_socket_is_open_to_those_who_are_let_in() {
    let broker = Broker::host("1MiB", &["--allow-user", "12345,12346", "--policy", "exclusive"]);
    assert_eq!(fs::metadata(&broker.socket).unwrap().mode() & 0o777, 0o666);
    let (_device, _pool, job) = broker.job("a");
    iteration(&job, Bytes::kib(512), std::time::Duration::ZERO);
}
