//! Jobs of several processes that take turns on the device: the broker says who gives way, and each
//! process makes its own copies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::{Bytes, Device, JobConfig, JoinError, PoolConfig, Ticks};
use zico_mock::{MockBroker, MockClient, MockConfig, MockDevice};
use zico_tests::owned::nothing_is_left;
use zico_tests::taker::{SLICE, Step, Tenant};
use zico_tests::waves::{REGION, regions};

fn serve(budget: u64, patience: Ticks) -> (MockDevice, MockBroker) {
    let device = MockDevice::new(MockConfig::new(regions(budget)).budget(regions(budget))).unwrap();
    let config = PoolConfig::new(regions(budget)).region_size(REGION).patience(patience);
    (device.clone(), MockBroker::new(device, config).unwrap())
}

/// A process with one job.
struct Process {
    client: MockClient,
    job: Tenant<MockDevice>,
    /// It is stopped: it hears nothing and does nothing.
    is_stopped: bool,
}

impl Process {
    fn new(device: &MockDevice, broker: &MockBroker, owner: u32, keeps: u64) -> Self {
        let client = broker.connect().unwrap();
        let job = Tenant::join(device, client.pool(), owner, (keeps, 3));
        Self { client, job, is_stopped: false }
    }

    /// Its job goes on, unless it has done enough, and the thread that hears the broker does.
    fn step(&mut self, enough: u64) -> bool {
        self.client.serve();
        let is_on = self.job.iterations < enough && self.job.step() == Step::On;
        let _ = self.client.pool().poll();
        is_on
    }
}

/// They go on in turn, in virtual time, until each that is not stopped has done so many iterations.
fn run(device: &MockDevice, broker: &MockBroker, all: &mut [Process], iterations: u64) {
    let mut vain = 0;
    let is_behind = |one: &Process| !one.is_stopped && one.job.iterations < iterations;
    while all.iter().any(is_behind) {
        let running = all.iter_mut().filter(|one| !one.is_stopped);
        let moved = running.map(|one| one.step(iterations * 4)).fold(false, |any, on| any | on);
        let soon = device.now().saturating_add(Ticks::millis(1));
        let at = device.next_completion().filter(|at| moved || *at < soon).unwrap_or(soon);
        device.advance_to(at.at_least(device.now()));
        broker.look();
        vain = if moved { 0 } else { vain + 1 };
        assert!(vain < 10_000, "{}", broker.snapshot());
    }
    assert_eq!((device.violations(), broker.violations()), (Vec::new(), Vec::new()));
}

fn all_end(device: &MockDevice, broker: &MockBroker, all: Vec<Process>) {
    let clients: Vec<MockClient> = all.into_iter().map(|Process { client, .. }| client).collect();
    for client in clients {
        device.run_until_idle();
        client.bury().unwrap();
    }
    broker.trim(Bytes::ZERO);
    nothing_is_left(device);
}

/// Eight processes whose jobs keep twice as much as there is. None has to lose patience with
/// another one, though each may be called upon while its own iteration is about to end.
#[test]
fn processes_that_keep_twice_the_budget_all_go_on() {
    let (device, broker) = serve(20, Ticks::millis(1_000_000));
    let kept = [2, 5, 8, 3, 7, 5, 4, 6];
    let processes = (1..).zip(kept).map(|(n, kept)| Process::new(&device, &broker, n, kept));
    let mut processes: Vec<_> = processes.collect();
    for process in &processes {
        process.client.hear_while_asking(|| true);
    }
    run(&device, &broker, &mut processes, 20);
    all_end(&device, &broker, processes);
}

/// One that is to give way and does not is waited for no longer than others have patience, and it
/// goes on when it does again.
#[test]
fn a_process_that_is_stopped_keeps_what_it_has_and_no_one_else_waits_for_it() {
    let (device, broker) = serve(20, Ticks::millis(100));
    let mut processes: Vec<_> =
        (1..).zip([6, 7, 7]).map(|(n, kept)| Process::new(&device, &broker, n, kept)).collect();
    run(&device, &broker, &mut processes, 3);
    while processes[0].job.is_inside()
        || processes[0].client.pool().snapshot().jobs[0].held.total() < regions(6)
    {
        let all = processes.iter_mut().map(|one| one.step(u64::MAX)).count();
        assert_eq!(all, 3);
        let soon = device.now().saturating_add(Ticks::millis(1));
        device.advance_to(soon);
        broker.look();
    }
    processes[0].is_stopped = true;
    let done = processes[1].job.iterations;
    run(&device, &broker, &mut processes, done + 10);
    processes[0].is_stopped = false;
    let done = processes[0].job.iterations;
    run(&device, &broker, &mut processes, done + 10);
    all_end(&device, &broker, processes);
}

#[test]
fn without_a_host_tier_no_process_is_preempted() {
    let device = MockDevice::new(MockConfig::new(regions(8)).link(None)).unwrap();
    let config = PoolConfig::new(regions(8)).region_size(REGION);
    let broker = MockBroker::new(device.clone(), config).unwrap();
    let client = broker.connect().unwrap();
    let config = JobConfig::new("job").preemptible(SLICE);
    let joined = client.pool().join(config, device.add_stream());
    assert!(matches!(joined, Err(JoinError::NotPreemptible)));
    assert!(device.host().is_none());
}
