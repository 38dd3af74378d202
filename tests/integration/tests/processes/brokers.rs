//! Brokers that are killed, and their sockets.

use super::*;

/// The broker is killed again and again, and started anew: jobs go on with what they hold.
#[test]
fn jobs_go_on_when_the_broker_is_killed_and_started_anew() {
    goes_on_without_a_broker("restarts", PEAK + 2 * KEPT + 12, &["--hold", "1"]);
}

/// Jobs that keep more than the budget in all: some are on the host meanwhile, or on their way.
#[test]
fn jobs_take_turns_though_the_broker_is_killed_and_started_anew() {
    let each = ["--keep", "2048", "--slice", "10", "--hold", "1"];
    goes_on_without_a_broker("turns-restart", 2 * (KEPT + 32) + PEAK, &each);
}

fn goes_on_without_a_broker(name: &str, budget: u64, options: &[&str]) {
    let mut broker = Broker::new(name, budget);
    let trainers: Vec<Trainer> =
        ["a", "b", "c"].into_iter().map(|name| broker.train(name, 150, options)).collect();
    let kills = if zico_tests::is_long() { 100 } else { 10 };
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
