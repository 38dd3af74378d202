//! Processes that train together, come, stop, and leave.

use super::*;

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

/// Jobs join, leave and die at random, many at a time: what the broker takes itself does not grow.
#[test]
fn jobs_that_come_and_go_leave_nothing_with_the_broker() {
    let (jobs, time) = if zico_tests::is_long() { (24, 30 * 60) } else { (8, 4) };
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

/// Jobs that keep more than the budget in all take turns. One that is killed, wherever it is, is in
/// nobody's way.
#[test]
fn processes_that_keep_more_than_the_budget_take_turns() {
    // Each keeps 32 regions more.
    let each = ["--keep", "2048", "--slice", "20", "--hold", "1"];
    let broker = Broker::new("turns", 2 * (KEPT + 32) + PEAK);
    let mut trainers: Vec<Trainer> =
        (0..4).map(|job| broker.train(&format!("job-{job}"), 60, &each)).collect();
    let mut killed = broker.train("killed", u32::MAX, &each);
    killed.until("iteration 3");
    let is_away = |job: &JobSnapshot| job.activity == Activity::Suspended;
    let began = Instant::now();
    while !broker.books().jobs.iter().any(is_away) {
        assert!(began.elapsed() < Duration::from_secs(10), "{}", broker.books());
    }
    drop(killed);
    let mut most = 0;
    for trainer in trainers.drain(..) {
        most = most.max(broker.held_by_the_kernel());
        trainer.finish();
    }
    assert!(most <= broker.budget * REGION, "{most} of {} regions", broker.budget);
    broker.until_all_is_back();
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
