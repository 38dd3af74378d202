//! `zico run`.

use std::process::Command;

use crate::{Broker, refused, stderr, stdout, zico};

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
    let long = "x".repeat(129);
    refused(&mut broker.ask(&["run", "--name", &long, "--", "true"]), &["more than 128"]);
}
