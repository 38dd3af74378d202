//! `zico status`, `zico budget` and `zico top` on a broker whose jobs run.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use zico_core::{Begin, Bytes, Job, Lifetime, Request};
use zico_node::host::HostDevice;

use crate::{Broker, LOOK, iteration, refused, stderr, stdout, until, zico};

#[test]
fn status_says_what_jobs_hold_and_who_waits_for_whom() {
    let broker = Broker::host("4MiB", &[]);
    assert!(broker.text(&["status"]).ends_with("0 B of the device are held.\nNo jobs.\n"));
    let (_a_device, _a_pool, a) = broker.job("a");
    let (_b_device, _b_pool, b) = broker.job("b");
    let kept = a.alloc_blocking(Request::new(Bytes::mib(1), Lifetime::Persistent), LOOK).unwrap();
    // What an iteration takes is not known yet: it runs alone.
    a.begin_blocking(None, LOOK).unwrap();
    let block = a.alloc_blocking(Request::new(Bytes::mib(2), Lifetime::Iteration), LOOK).unwrap();
    assert!(matches!(b.begin(None), Ok(Begin::Wait(_))));
    let books = broker.json(&["status"]);
    let of = |key: &str| books[key].as_u64().unwrap();
    assert_eq!((of("budget_bytes"), of("pending_bytes"), of("region_bytes")), (4 << 20, 0, 65_536));
    assert_eq!(books["device"], "host");
    assert!(of("held_bytes") >= 3 << 20 && of("held_bytes") <= 4 << 20, "{books}");
    let job = &books["jobs"][0];
    assert_eq!((&job["name"], &job["activity"]), (&"a".into(), &"running".into()));
    assert_eq!(job["persistent_bytes"], 1 << 20);
    assert!(job["held_bytes"].as_u64() >= Some(3 << 20), "{books}");
    let waits = &books["waits"][0];
    assert_eq!((&waits["name"], &waits["blockers"][0]["name"]), (&"b".into(), &"a".into()));
    assert!(waits["memory_bytes"].is_null());
    let text = broker.text(&["status"]);
    for words in [
        "The budget is 4 MiB; ",
        "| a ",
        "| running |",
        "b waits to start an iteration: a (running) holds",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    let picture = broker.text(&["top", "--once"]);
    for words in
        ["host at ", " of 4 MiB held \u{2588}", "2 jobs, 1 running, 1 waiting", "b waits to start"]
    {
        assert!(picture.contains(words), "no {words:?} in\n{picture}");
    }
    a.free(block).unwrap();
    a.end().unwrap();
    b.withdraw();
    a.free(kept).unwrap();
}

#[test]
fn a_budget_is_changed_while_jobs_run_and_comes_into_force_as_they_give_back() {
    let broker = Broker::host("4MiB", &[]);
    assert_eq!(broker.text(&["budget"]), "The budget is 4 MiB; 0 B of the device are held.\n");
    let (_device, pool, job) = broker.job("a");
    job.begin_blocking(None, LOOK).unwrap();
    let block = job.alloc_blocking(Request::new(Bytes::mib(3), Lifetime::Iteration), LOOK).unwrap();
    let lowered = broker.json(&["budget", "1MiB"]);
    assert_eq!(lowered["budget_bytes"], 1 << 20);
    assert!(lowered["pending_bytes"].as_u64() >= Some(2 << 20), "{lowered}");
    let text = broker.text(&["budget"]);
    assert!(
        text.starts_with("The budget is 1 MiB; 3") && text.contains("Pending: up to "),
        "{text}"
    );
    refused(
        &mut broker.ask(&["budget", "1GiB", "--socket", "/nowhere"]),
        &["no broker serves at /nowhere"],
    );
    refused(&mut broker.ask(&["budget", "32KiB"]), &["the budget stays as it was"]);
    refused(&mut broker.ask(&["budget", "1PiB"]), &["the budget stays as it was"]);
    refused(&mut broker.ask(&["budget", "lots"]), &["no number"]);
    job.free(block).unwrap();
    job.end().unwrap();
    until("that it is in force", || {
        pool.poll().unwrap();
        let status = broker.json(&["budget"]);
        status["pending_bytes"] == 0 && status["held_bytes"].as_u64() <= Some(1 << 20)
    });
    assert_eq!(broker.json(&["budget", "2MiB"])["budget_bytes"], 2 << 20);
    iteration(&job, Bytes::kib(1500), Duration::ZERO);
}

/// Two jobs that take turns, as one who watches sees them; without a terminal one picture is
/// printed.
#[test]
fn top_shows_rates_and_waves() {
    let broker = Broker::host("4MiB", &[]);
    let (_a_device, _a_pool, a) = broker.job("resnet50");
    let (_b_device, _b_pool, b) = broker.job("bert-base");
    let ended = AtomicBool::new(false);
    let work = |job: &Job<HostDevice>| {
        while !ended.load(Ordering::Relaxed) {
            iteration(job, Bytes::mib(3), Duration::from_millis(20));
        }
    };
    let picture = thread::scope(|scope| {
        scope.spawn(|| work(&a));
        scope.spawn(|| work(&b));
        let picture = broker.ask(&["top", "--interval", "20ms"]).output();
        ended.store(true, Ordering::Relaxed);
        stdout(&picture.unwrap())
    });
    let rows: Vec<Vec<&str>> = picture
        .lines()
        .filter(|line| line.starts_with("resnet50 ") || line.starts_with("bert-base "))
        .filter(|line| !line.contains(" waits "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 2, "{picture}");
    for row in rows {
        // Name, what it does, "3 MiB", its peak, its rate, its wave.
        let rate: f64 = row[6].parse().unwrap();
        assert!((0.5..60.0).contains(&rate), "{picture}");
        assert_eq!((row[4], row[5]), ("3", "MiB"), "{picture}");
        assert!(row[7].contains('\u{2588}'), "{picture}");
    }
    assert!(picture.lines().all(|line| line.chars().count() <= 80), "{picture}");
}

#[test]
fn top_on_a_terminal_draws_and_quits() {
    let broker = Broker::host("4MiB", &[]);
    let (_device, _pool, _job) = broker.job("on-a-terminal");
    // `script` gives it a terminal; q ends it.
    let shell = format!(
        "stty rows 24 cols 80; {} top --interval 50ms; echo code $?",
        env!("CARGO_BIN_EXE_zico")
    );
    let has_script = Command::new("script").arg("--version").output().is_ok();
    if !has_script {
        return;
    }
    let keys = thread::spawn(|| thread::sleep(Duration::from_millis(1500)));
    let mut child = Command::new("script")
        .args(["-qec", &shell, "/dev/null"])
        .env("ZICO_SOCKET", &broker.socket)
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    keys.join().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"q").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("on-a-terminal") && text.contains("code 0"), "{text:?}");
    // The other screen, and back.
    assert!(text.contains("\u{1b}[?1049h") && text.contains("\u{1b}[?1049l"), "{text:?}");
}

#[test]
fn without_a_broker_it_is_said_how_to_start_one() {
    for args in [&["status"][..], &["budget"], &["top", "--once"], &["run", "--", "true"]] {
        let mut command = zico();
        command.args(args).env("ZICO_SOCKET", "/nowhere/b.sock");
        refused(&mut command, &["no broker serves at /nowhere/b.sock", "`zico serve` starts one"]);
    }
    let help = zico().args(["serve", "--help"]).output().unwrap();
    let text = String::from_utf8(help.stdout.clone()).unwrap();
    for words in ["--grace", "2s on a GPU", "no context", "XDG_RUNTIME_DIR", "--allow-user"] {
        assert!(text.contains(words), "no {words:?} in {text}{}", stderr(&help));
    }
}
