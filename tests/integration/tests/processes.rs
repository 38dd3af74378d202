//! Real processes under a real broker, on host memory that is really mapped into several of them:
//! they train, are killed at each step, stopped, and what they had comes back.
//!
//! A job's process fills each block with a pattern and checks it when it frees it, so that a byte
//! with two owners fails the job that had it. The memory that the broker holds is counted by the
//! kernel.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use zico_core::Snapshot;
use zico_node::Observer;

const NODE: &str = env!("CARGO_BIN_EXE_node");
const REGION: u64 = 64 << 10;
/// What a job of `node train` takes at its peak: 12 blocks of 24 to 288 KiB, and what it keeps.
const PEAK: u64 = 32;
const KEPT: u64 = 3;

/// A broker in a process of its own. Killed when it is dropped.
struct Broker {
    folder: PathBuf,
    process: Child,
    budget: u64,
}

impl Broker {
    fn new(name: &str, budget: u64) -> Self {
        Self::for_users(name, budget, &[])
    }

    fn for_users(name: &str, budget: u64, users: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("zico-{}-{name}", std::process::id()));
        let process = serve_users(&folder.join("socket"), budget, users);
        Self { folder, process, budget }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn train(&self, name: &str, iterations: u32, options: &[&str]) -> Trainer {
        self.train_by(Command::new(NODE), name, iterations, options)
    }

    fn train_by(
        &self,
        mut node: Command,
        name: &str,
        iterations: u32,
        options: &[&str],
    ) -> Trainer {
        let seed = fastrand::u32(..).to_string();
        let mut child = node
            .args(["train", self.socket().to_str().unwrap(), name, &iterations.to_string(), &seed])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Trainer { child, out }
    }

    fn books(&self) -> Snapshot {
        Observer::connect(&self.socket()).unwrap().snapshot().unwrap()
    }

    /// The bytes of regions that the kernel says the broker holds: all files in memory it has open.
    fn held_by_the_kernel(&self) -> u64 {
        let folder = format!("/proc/{}/fd", self.process.id());
        let (mut held, mut seen) = (0, HashSet::new());
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let is_region = std::fs::read_link(entry.path())
                .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:zico ("));
            if is_region && let Ok(meta) = std::fs::metadata(entry.path()) {
                // A descriptor that is being sent is a second one of its region.
                held += if seen.insert(meta.ino()) { meta.blocks() * 512 } else { 0 };
            }
        }
        held
    }

    /// The memory of its own and the descriptors that the broker has, when all connections have
    /// gone.
    fn own(&self) -> (u64, usize) {
        // Those of connections go a little later.
        std::thread::sleep(Duration::from_millis(300));
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        // Not what it shares: the regions are files, which are mapped nowhere.
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        (kib << 10, descriptors.count())
    }

    /// Waits until a job has nothing any more and is forgotten. How long that took.
    fn until_gone(&self, job: &str) -> Duration {
        let began = Instant::now();
        loop {
            let books = self.books();
            if books.jobs.iter().all(|other| &*other.name != job) {
                return began.elapsed();
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{books}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Waits until all jobs are gone, and everything is back.
    fn until_all_is_back(&self) {
        let names: Vec<String> = self.books().jobs.iter().map(|job| job.name.to_string()).collect();
        for name in names {
            self.until_gone(&name);
        }
        let books = self.books();
        assert_eq!((books.jobs.len(), books.free), (0, books.held), "{books}");
    }
}

fn serve(socket: &Path, budget: u64) -> Child {
    serve_users(socket, budget, &[])
}

fn serve_users(socket: &Path, budget: u64, users: &[&str]) -> Child {
    let mut process = Command::new(NODE)
        .args(["serve", socket.to_str().unwrap(), &budget.to_string()])
        .args(users)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "serves\n");
    process
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A job in a process of its own. Killed when it is dropped.
struct Trainer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Trainer {
    /// Waits for a line that begins so. The rest of it; none if the process has ended before.
    fn until(&mut self, start: &str) -> Option<String> {
        let mut line = String::new();
        while self.out.read_line(&mut line).unwrap() > 0 {
            if let Some(rest) = line.strip_prefix(start) {
                return Some(rest.trim().to_owned());
            }
            line.clear();
        }
        None
    }

    /// Waits for its end, which has to be good. How many messages it has sent.
    fn finish(mut self) -> u64 {
        let messages = self.until("messages ");
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut said).unwrap();
        assert!(status.success(), "{status}: {said}");
        messages.unwrap().parse().unwrap()
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn processes_share_a_budget_that_the_kernel_sees_kept() {
    for (jobs, quarters) in [(2, 4), (2, 1), (4, 2), (8, 1)] {
        let least = PEAK + (jobs - 1) * KEPT;
        let budget = least + (jobs * PEAK - least) * quarters / 4;
        let broker = Broker::new(&format!("shares-{jobs}-{quarters}"), budget);
        let names: Vec<String> = (0..jobs).map(|job| format!("job-{job}")).collect();
        let trainers: Vec<Trainer> =
            names.iter().map(|name| broker.train(name, 40, &["--hold", "1"])).collect();
        let mut most = 0;
        for trainer in trainers {
            // While the first ones are waited for the others go on.
            most = most.max(broker.held_by_the_kernel());
            let messages = trainer.finish();
            assert!(messages > 40);
            most = most.max(broker.held_by_the_kernel());
        }
        assert!(most <= broker.budget * REGION, "{most} of {} regions", broker.budget);
        let books = broker.books();
        assert!(books.jobs.is_empty(), "{books}");
        println!(
            "{jobs} jobs at {quarters}/4: held {most} of {}, {} leases of {} regions",
            broker.budget * REGION,
            books.counts.leases,
            books.counts.leased
        );
    }
}

/// A process dies before each of its messages in turn, while another trains.
#[test]
fn a_process_that_dies_at_any_message_harms_nobody() {
    let broker = Broker::new("dies", PEAK + KEPT + 8);
    let whole = broker.train("whole", 3, &[]).finish();
    // By what it was about to send: how often, and the longest time until its memory was back.
    let mut deaths: BTreeMap<String, (u32, Duration)> = BTreeMap::new();
    for message in (1..=whole).step_by(step()) {
        let other = broker.train("other", 4, &[]);
        let mut dying = broker.train("dying", 3, &["--die-at", &message.to_string()]);
        let step = dying.until("dies before ");
        let status = dying.child.wait().unwrap();
        assert_eq!(status.success(), step.is_none(), "{status}");
        let back = broker.until_gone("dying");
        if let Some(step) = step {
            let (count, longest) = deaths.entry(step).or_default();
            (*count, *longest) = (*count + 1, back.max(*longest));
        }
        // Nothing is lost: the other one ends as it should, and all memory is nobody's.
        other.finish();
        broker.until_all_is_back();
        assert!(broker.held_by_the_kernel() <= broker.budget * REGION);
    }
    println!("dies before   times  lost  back within");
    for (step, (count, longest)) in &deaths {
        println!("{step:<12} {count:>6}     0  {:>8.1} ms", longest.as_secs_f64() * 1e3);
    }
    assert!(deaths.values().map(|(count, _)| count).sum::<u32>() > 5);
}

/// Each message in a long run, every few of them otherwise.
fn step() -> usize {
    if is_long() { 1 } else { 5 }
}

fn is_long() -> bool {
    std::env::var_os("ZICO_LONG").is_some()
}

/// Three train at any time. One of them is killed, again and again; the others never see a wrong
/// byte.
#[test]
fn processes_that_are_killed_at_random_harm_nobody() {
    let broker = Broker::new("random", PEAK + 2 * KEPT + 12);
    let start = || broker.train("trains", 1_000_000, &[]);
    let mut trainers: Vec<Trainer> = (0..3).map(|_| start()).collect();
    let descriptors =
        || std::fs::read_dir(format!("/proc/{}/fd", broker.process.id())).unwrap().count();
    let (kills, before) = (if is_long() { 1000 } else { 60 }, descriptors());
    for _ in 0..kills {
        std::thread::sleep(Duration::from_micros(fastrand::u64(..30_000)));
        let killed = fastrand::usize(..trainers.len());
        // Dropped, and so killed, before the next one starts.
        drop(trainers.swap_remove(killed));
        for other in &mut trainers {
            let ended = other.child.try_wait().unwrap();
            assert_eq!(ended, None, "a job has ended that nobody has killed");
        }
        trainers.push(start());
        assert!(broker.held_by_the_kernel() <= broker.budget * REGION);
    }
    let iterations: u64 = broker.books().jobs.iter().map(|job| job.iterations).sum();
    trainers.iter_mut().for_each(|trainer| assert!(trainer.until("iteration ").is_some()));
    trainers.clear();
    broker.until_all_is_back();
    // Those of connections go a little later.
    let most = before + usize::try_from(broker.budget).unwrap();
    let began = Instant::now();
    while descriptors() > most && began.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let after = descriptors();
    println!(
        "{kills} kills; {before} descriptors at first, {after} at the end; {iterations} iterations by the last"
    );
    assert!(after <= most, "{before} descriptors, then {after}");
}

/// Jobs join, leave and die at random, many at a time: what the broker takes itself does not grow.
#[test]
fn jobs_that_come_and_go_leave_nothing_with_the_broker() {
    let (jobs, time) = if is_long() { (24, 30 * 60) } else { (8, 4) };
    let broker = Broker::new("storm", PEAK + jobs * KEPT + 24);
    // The first ones make what stays: the memory of all regions, and room in the broker's tables.
    storm(&broker, jobs, Duration::from_secs(2));
    let before = broker.own();
    let (ended, killed) = storm(&broker, jobs, Duration::from_secs(time));
    let after = broker.own();
    println!(
        "{time} s, {jobs} at a time: {ended} have left, {killed} were killed; the broker had {before:?} (bytes, \
         descriptors) and has {after:?}"
    );
    assert!(ended > 0 && killed > 0);
    assert!(
        after.0 <= before.0 + (2 << 20) && after.1 <= before.1 + 1,
        "{before:?}, then {after:?}"
    );
}

/// So many at a time for so long. How many have left, and how many were killed.
fn storm(broker: &Broker, jobs: u64, time: Duration) -> (u32, u32) {
    let (mut trainers, began) = (Vec::new(), Instant::now());
    let (mut ended, mut killed, mut started) = (0, 0, 0);
    while began.elapsed() < time {
        if trainers.len() < usize::try_from(jobs).unwrap() && fastrand::u8(..4) > 0 {
            let (name, iterations) = (format!("job-{started}"), fastrand::u32(1..30));
            let hold = fastrand::u32(..10).to_string();
            trainers.push(broker.train(&name, iterations, &["--hold", &hold]));
            started += 1;
        } else if fastrand::u8(..4) == 0 && !trainers.is_empty() {
            drop(trainers.swap_remove(fastrand::usize(..trainers.len())));
            killed += 1;
        }
        trainers.retain_mut(|trainer| match trainer.child.try_wait().unwrap() {
            None => true,
            Some(status) => {
                assert!(status.success(), "a job that nobody has killed");
                ended += 1;
                false
            }
        });
        assert!(broker.held_by_the_kernel() <= broker.budget * REGION);
        std::thread::sleep(Duration::from_millis(fastrand::u64(..10)));
    }
    trainers.clear();
    broker.until_all_is_back();
    (ended, killed)
}

/// What one user's job has written no other user's reads, though they share the budget; nor does
/// another user change it.
#[test]
fn memory_that_goes_to_another_user_is_made_anew() {
    const STRANGER: &str = "65534";
    if !rustix::process::geteuid().is_root() {
        return println!("not tested: only root can be two users");
    }
    let broker = Broker::for_users("users", PEAK + KEPT + 4, &[STRANGER]);
    let node = broker.folder.join("node");
    std::fs::copy(NODE, &node).unwrap();
    let strange = || {
        let mut command = Command::new(&node);
        command.uid(STRANGER.parse().unwrap()).gid(STRANGER.parse().unwrap());
        command
    };
    // One after the other: all memory is the first one's.
    broker.train("own", 5, &["--expect", "clear"]).finish();
    broker.train_by(strange(), "strange", 5, &["--expect", "clear"]).finish();
    let between = broker.books().counts;
    assert!(between.destroys > 0, "{between:?}");
    // Of the same user it is handed over.
    broker.train_by(strange(), "strange", 5, &[]).finish();
    let after = broker.books().counts;
    assert_eq!((between.creates, between.destroys), (after.creates, after.destroys));
    // Both at once, in too little memory for both.
    let both = [
        broker.train("own", 30, &["--hold", "1"]),
        broker.train_by(strange(), "strange", 30, &["--hold", "1"]),
    ];
    let mut most = 0;
    for trainer in both {
        most = most.max(broker.held_by_the_kernel());
        trainer.finish();
    }
    assert!(most <= broker.budget * REGION);
    broker.until_all_is_back();
    let refused = strange().args(["budget", broker.socket().to_str().unwrap(), "64"]).output();
    let said = String::from_utf8_lossy(&refused.unwrap().stderr).into_owned();
    assert!(said.contains("only the user who runs the broker"), "{said}");
    let third = Command::new(&node)
        .args(["books", broker.socket().to_str().unwrap()])
        .uid(65533)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&third.stderr);
    assert!(!third.status.success() && said.contains("65533"), "{said}");
}

#[test]
fn a_process_that_is_stopped_keeps_what_it_has_and_goes_on() {
    let broker = Broker::new("stops", PEAK + KEPT + 4);
    let mut stopped = broker.train("stopped", 30, &["--hold", "5"]);
    stopped.until("iteration 3");
    let pid = rustix::process::Pid::from_child(&stopped.child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let other = broker.train("other", 10, &[]);
    std::thread::sleep(Duration::from_millis(300));
    let books = broker.books();
    let kept = books.jobs.iter().find(|job| &*job.name == "stopped").unwrap();
    assert!(kept.held.total().value() >= KEPT * REGION, "{books}");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    other.finish();
    stopped.finish();
    broker.until_all_is_back();
}

/// The broker is killed again and again, and started anew: jobs go on with what they hold.
#[test]
fn jobs_go_on_when_the_broker_is_killed_and_started_anew() {
    let mut broker = Broker::new("restarts", PEAK + 2 * KEPT + 12);
    let trainers: Vec<Trainer> =
        ["a", "b", "c"].into_iter().map(|name| broker.train(name, 150, &["--hold", "1"])).collect();
    let kills = if is_long() { 100 } else { 10 };
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(fastrand::u64(10..60)));
        broker.process.kill().unwrap();
        broker.process.wait().unwrap();
        std::thread::sleep(Duration::from_millis(fastrand::u64(..20)));
        broker.process = serve(&broker.socket(), broker.budget);
        assert!(broker.held_by_the_kernel() <= broker.budget * REGION);
    }
    let mut most = 0;
    for trainer in trainers {
        most = most.max(broker.held_by_the_kernel());
        trainer.finish();
    }
    assert!(most <= broker.budget * REGION);
    broker.until_all_is_back();
}

/// Of two jobs one is killed while there is no broker: the next one waits for neither of them for
/// ever.
#[test]
fn a_job_that_dies_while_there_is_no_broker_is_not_waited_for() {
    let mut broker = Broker::new("orphans", PEAK + KEPT + 4);
    let mut dies = broker.train("dies", 1000, &["--hold", "2"]);
    let mut lives = broker.train("lives", 30, &["--hold", "2"]);
    dies.until("iteration 2").unwrap();
    lives.until("iteration 2").unwrap();
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    drop(dies);
    // With less than the jobs hold it does not start, and says so.
    let less = Command::new(NODE)
        .args(["serve", broker.socket().to_str().unwrap(), "4"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&less.stderr);
    assert!(!less.status.success() && said.contains("still run"), "{said}");
    broker.process = serve(&broker.socket(), broker.budget);
    lives.finish();
    broker.until_all_is_back();
}

#[test]
fn a_socket_is_one_brokers_and_a_file_that_is_left_over_is_no_obstacle() {
    let mut broker = Broker::new("one", 8);
    let second = Command::new(NODE)
        .args(["serve", broker.socket().to_str().unwrap(), "8"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("another broker serves at"), "{said}");
    assert_eq!(broker.books().jobs.len(), 0, "the first one goes on");
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    assert!(broker.socket().exists(), "left over");
    broker.process = serve(&broker.socket(), 8);
    assert_eq!(broker.books().jobs.len(), 0);
}
