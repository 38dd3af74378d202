//! `zico run`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use zico_node::host::{HostConfig, HostDevice};
use zico_node::{Client, Observer, Use};

use crate::{Broker, Folder, refused, stderr, stdout, until, zico};

const SHOW: &str = "echo $ZICO_SOCKET,$ZICO_JOB_NAME,$ZICO_PRIORITY";

#[test]
fn a_command_gets_what_a_job_needs_and_its_exit_code_is_the_exit_code() {
    let broker = Broker::host("1MiB", &[]);
    let socket = broker.socket.display();
    let output = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let plain = output(&mut broker.ask(&["run", "--", "sh", "-c", SHOW]));
    assert_eq!(plain, format!("{socket},sh,\n"));
    let named = ["run", "--name", "my job", "--priority", "-3", "--", "sh", "-c", SHOW];
    assert_eq!(output(&mut broker.ask(&named)), format!("{socket},my job,-3\n"));
    let turns = ["run", "--time-slice", "1.5ms", "--", "sh", "-c", "echo $ZICO_TIME_SLICE"];
    assert_eq!(output(&mut broker.ask(&turns)), "1500000ns\n");
    // A socket that is given goes before one that is in the environment, and is told in full.
    let mut relative = zico();
    relative.current_dir(broker.socket.parent().unwrap()).env("ZICO_SOCKET", "/nowhere");
    relative.args(["run", "--socket", "b.sock", "--", "sh", "-c", SHOW]);
    assert_eq!(output(&mut relative), format!("{socket},sh,\n"));
    for code in [0, 1, 2, 7, 255] {
        let exit = format!("exit {code}");
        let status = broker.ask(&["run", "--", "sh", "-c", &exit]).status().unwrap();
        assert_eq!(status.code(), Some(code));
    }
    // The process is the command's own: so is the signal that ends it.
    let killed = broker.ask(&["run", "--", "sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(15));
}

#[test]
fn what_cannot_run_is_refused() {
    let broker = Broker::host("1MiB", &[]);
    refused(&mut broker.ask(&["run", "--", "/no/such/command"]), &["cannot run /no/such/command"]);
    refused(&mut broker.ask(&["run"]), &["<CMD>"]);
    refused(&mut broker.ask(&["run", "--name", "", "--", "true"]), &["cannot be empty"]);
    refused(&mut broker.ask(&["run", "--time-slice", "5", "--", "true"]), &["such as 5us"]);
    let long = "x".repeat(129);
    refused(&mut broker.ask(&["run", "--name", &long, "--", "true"]), &["more than 128"]);
}

/// Runs until its input ends.
const HOLDS: &str = "echo $ZICO_SOCKET,$ZICO_RUN; cat";

#[test]
fn a_broker_that_a_job_has_started_ends_with_the_last_one() {
    let folder = Folder::new();
    let socket = folder.path().join("deeper").join("b.sock");
    let begin = |budget: &str| {
        let mut run = zico();
        run.args(["run", "--device", "host", "--budget", budget, "--socket"]).arg(&socket);
        run.args(["--", "sh", "-c", HOLDS]).stdin(Stdio::piped());
        let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{},1\n", socket.display()), "{:?}", child.wait_with_output());
        child
    };
    let end = |mut child: Child| {
        drop(child.stdin.take());
        // Nothing of the broker's keeps the pipes open.
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        stderr(&output)
    };
    let (first, second) = (begin("1MiB"), begin("2MiB"));
    let started = end(first);
    assert!(started.contains("until the last job ends") && started.contains("1 MiB"), "{started}");
    // The other one has joined it, and it is still there.
    assert!(Observer::connect(&socket).is_ok());
    let joined = end(second);
    assert!(joined.contains("has a budget of 1 MiB") && joined.contains("2 MiB"), "{joined}");
    until("that the broker has gone", || !socket.exists());
    // However soon one comes after the last one, there is a broker for it.
    for wait in (160..260).step_by(10) {
        let child = begin("3MiB");
        assert!(Observer::connect(&socket).is_ok());
        end(child);
        std::thread::sleep(Duration::from_millis(wait));
    }
}

#[test]
fn of_jobs_that_start_at_once_one_starts_the_broker() {
    let folder = Folder::new();
    let socket = folder.path().join("b.sock");
    let begin = |_| {
        let mut run = zico();
        run.args(["run", "--device", "host", "--budget", "1MiB", "--socket"]).arg(&socket);
        run.args(["--", "sh", "-c", HOLDS]).stdin(Stdio::piped());
        run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..8).map(begin).collect();
    for child in &mut children {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    }
    // All of them run now, so there was one broker for all.
    let outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    let outputs: Vec<_> = outputs.collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    let started = outputs.iter().filter(|output| stderr(output).contains("until the last job"));
    assert_eq!(started.count(), 1, "{outputs:?}");
}

#[test]
fn a_job_without_a_lock_keeps_the_broker_as_well() {
    let folder = Folder::new();
    let socket = folder.path().join("b.sock");
    let mut serve = zico();
    serve.args(["serve", "--background", "--while-used", "--device", "host", "--budget", "1MiB"]);
    let using = Use::of(&socket).unwrap();
    let served = serve.arg("--socket").arg(&socket).output().unwrap();
    assert!(served.status.success(), "{}", stderr(&served));
    let device = HostDevice::new(HostConfig::new()).unwrap();
    let pool = Client::connect(device.clone(), &socket).unwrap();
    let job = pool.join("job", device.add_stream()).unwrap();
    drop(using);
    std::thread::sleep(Duration::from_millis(600));
    assert!(Observer::connect(&socket).is_ok());
    drop((job, pool));
    until("that the broker has gone", || !socket.exists());
}

#[test]
fn a_broker_that_cannot_be_started_is_told() {
    let folder = Folder::new();
    let socket = folder.path().join("b.sock");
    let mut run = zico();
    run.args(["run", "--device", "host", "--budget", "1", "--socket"]).arg(&socket);
    refused(run.args(["--", "echo", "ran"]), &["none can be started", "region"]);
    refused(zico().args(["run", "--budget", "1MiB", "--", "true"]), &["--device"]);
}
