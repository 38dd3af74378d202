//! Processes that die, at each step or at random.

use super::*;

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
    if zico_tests::is_long() { 1 } else { 5 }
}

/// Three train at any time. One of them is killed, again and again; the others never see a wrong
/// byte.
#[test]
fn processes_that_are_killed_at_random_harm_nobody() {
    let broker = Broker::new("random", PEAK + 2 * KEPT + 12);
    // What the broker opens once is open when a first job has gone.
    broker.train("first", 2, &[]).finish();
    broker.until_all_is_back();
    // But for one a region.
    let descriptors = || {
        let all = std::fs::read_dir(format!("/proc/{}/fd", broker.process.id())).unwrap().count();
        all - usize::try_from(broker.held_by_the_kernel() / REGION).unwrap()
    };
    let before = settled(descriptors, 0, Duration::from_millis(300));
    let start = || broker.train("trains", 1_000_000, &[]);
    let mut trainers: Vec<Trainer> = (0..3).map(|_| start()).collect();
    let kills = if zico_tests::is_long() { 1000 } else { 60 };
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
    let after = settled(descriptors, before, Duration::from_secs(5));
    println!(
        "{kills} kills; {before} descriptors at first, {after} at the end; {iterations} iterations by the last"
    );
    assert!(after <= before, "{before} descriptors, then {after}");
}

/// A process that can take in no more memory says so; what it had comes back.
#[test]
fn a_process_with_no_room_for_descriptors_harms_nobody() {
    let broker = Broker::new("descriptors", PEAK + KEPT + 4);
    for most in [10, 14, 20, 30] {
        let mut full = Command::new("sh");
        full.args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\""), NODE]);
        let mut full = broker.train_by(full, "full", 3, &[]);
        let other = broker.train("other", 6, &[]);
        assert!(full.until("messages ").is_none());
        let mut said = String::new();
        std::io::Read::read_to_string(full.child.stderr.as_mut().unwrap(), &mut said).unwrap();
        assert!(!full.child.wait().unwrap().success(), "{said}");
        assert!(said.contains("Too many open files"), "{said}");
        other.finish();
        broker.until_all_is_back();
    }
}
