//! Jobs of several processes that go to the host and come back: the books are at a broker, and the
//! copies are made by each process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use zico_core::{
    AllocError, Begin, BrokerError, Bytes, Device, Lifetime, PoolConfig, Request, Resume,
    ResumeError, SuspendError, Ticks,
};

use zico_mock::{MockBroker, MockClient, MockConfig, MockDevice, bundled};
use zico_tests::owned::{Tenant, nothing_is_left, play, takes_all_room};
use zico_tests::waves::{REGION, regions};

fn serve(budget: Bytes, region: Bytes) -> (MockDevice, MockBroker) {
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    let config = PoolConfig::new(budget).region_size(region);
    (device.clone(), MockBroker::new(device, config).unwrap())
}

/// The device has passed everything, and all processes have told so.
fn settle(device: &MockDevice, clients: &[&MockClient]) {
    for _ in 0..3 {
        device.run_until_idle();
        for client in clients {
            client.serve();
            client.pool().poll().unwrap();
        }
    }
}

fn settles_without_violation(device: &MockDevice, broker: &MockBroker, clients: &[&MockClient]) {
    settle(device, clients);
    assert_eq!((broker.violations(), device.violations()), (Vec::new(), Vec::new()));
}

/// A job of one process, and one of another.
struct Apart {
    device: MockDevice,
    broker: MockBroker,
    one: MockClient,
    two: MockClient,
    job: Tenant<MockDevice>,
    other: Tenant<MockDevice>,
}

impl Apart {
    fn under(budget: u64) -> Self {
        let (device, broker) = serve(regions(budget), REGION);
        let (one, two) = (broker.connect().unwrap(), broker.connect().unwrap());
        let job = Tenant::join(&device, one.pool(), 1);
        let other = Tenant::join(&device, two.pool(), 2);
        Self { device, broker, one, two, job, other }
    }
}

/// A recorded job goes and comes back after each of its iterations, while one of another process
/// uses all the room that there is. While an answer is on its way, the other thread of its process
/// polls.
#[test]
fn recorded_jobs_go_and_come_back_bit_for_bit() {
    for name in ["dlrm", "resnet50", "gnmt", "whisper-tiny"] {
        let trace = bundled::open(name).unwrap();
        let total: u64 = trace.blocks().iter().map(|block| block.bytes.value()).sum();
        let budget = Bytes::new(total.next_multiple_of(1 << 30) + (1 << 30));
        let (device, broker) = serve(budget, Bytes::mib(2));
        let clients = [broker.connect().unwrap(), broker.connect().unwrap()];
        let [one, two] = &clients;
        one.hear_while_asking(|| true);
        let mut job = Tenant::join(&device, one.pool(), 1);
        let mut other = Tenant::join(&device, two.pool(), 2);
        trace.setup().iter().for_each(|step| play(&mut job, step));
        for iteration in trace.iterations() {
            assert_eq!(job.job.begin(None).unwrap(), Begin::Started);
            iteration.steps().iter().for_each(|step| play(&mut job, step));
            job.job.end().unwrap();
            let bytes = job.suspend().unwrap();
            assert!(!bytes.is_zero());
            settle(&device, &[one, two]);
            assert_eq!(job.job.held().total(), Bytes::ZERO);
            takes_all_room(&mut other, two.pool());
            settle(&device, &[one, two]);
            let began = device.now();
            assert_eq!(job.resume().unwrap(), Resume::Done, "{name}");
            device.run_until_idle();
            let took = device.now().saturating_sub(began);
            let least = device.host().unwrap().link().unwrap().time_back(bytes);
            assert!(took <= least.saturating_add(Ticks::new(least.value() / 1000 + 1000)));
        }
        job.leave();
        other.leave();
        settle(&device, &[one, two]);
        assert_eq!(broker.violations(), []);
        for client in clients {
            client.bury().unwrap();
        }
        broker.trim(Bytes::ZERO);
        nothing_is_left(&device);
    }
}

fn fill(job: &mut Tenant<MockDevice>) {
    for (id, kib, lifetime) in [
        (1, 3000, Lifetime::Persistent),
        (2, 100, Lifetime::Persistent),
        (3, 5000, Lifetime::Iteration),
    ] {
        job.alloc(id, Request::new(Bytes::kib(kib), lifetime)).unwrap();
    }
}

/// What becomes of a process that dies before its `n`th message from when it goes on. Whether it
/// came to that one.
fn dies_after(n: u64) -> bool {
    let Apart { device, broker, one, two, mut job, mut other } = Apart::under(8);
    fill(&mut job);
    one.die_after(n);
    job.let_go();
    let gone = job.job.suspend();
    device.run_until_idle();
    one.serve();
    let _ = one.pool().poll();
    let back = job.job.resume();
    let died = one.is_dead();
    if !died {
        assert_eq!((gone.is_ok(), back.unwrap()), (true, Resume::Done));
    } else if let Err(error) = gone {
        assert!(matches!(error, SuspendError::Broker(BrokerError::Unreachable)), "{error}");
    }
    job.leave();
    one.bury().unwrap();
    // Nothing of it is in anybody's way.
    device.run_until_idle();
    takes_all_room(&mut other, two.pool());
    for id in 0..8 {
        other.alloc(id, Request::new(REGION, Lifetime::Persistent)).unwrap();
    }
    other.leave();
    settles_without_violation(&device, &broker, &[&two]);
    two.bury().unwrap();
    died
}

#[test]
fn a_process_that_dies_on_the_way_is_in_nobodys_way() {
    let messages = (0..).take_while(|&n| dies_after(n)).count();
    assert!(messages > 6, "{messages} messages");
}

/// A process whose host has no room for its job keeps it on the device, as it was.
#[test]
fn a_host_that_is_full_changes_nothing() {
    let config = MockConfig::new(regions(8)).budget(regions(8)).host(REGION);
    let device = MockDevice::new(config).unwrap();
    let config = PoolConfig::new(regions(8)).region_size(REGION);
    let broker = MockBroker::new(device.clone(), config).unwrap();
    let one = broker.connect().unwrap();
    let mut job = Tenant::join(&device, one.pool(), 1);
    job.alloc(1, Request::new(REGION, Lifetime::Persistent)).unwrap();
    job.alloc(2, Request::new(REGION, Lifetime::Iteration)).unwrap();
    assert!(matches!(job.suspend(), Err(SuspendError::Device(_))));
    settle(&device, &[&one]);
    assert_eq!(job.job.held().total(), regions(2), "they are leased as they were");
    assert_eq!(device.host_usage().0, Bytes::ZERO);
    job.alloc(3, Request::new(REGION, Lifetime::Persistent)).unwrap();
    job.free(2);
    job.free(3);
    settle(&device, &[&one]);
    assert_eq!(job.suspend().unwrap(), REGION);
    settles_without_violation(&device, &broker, &[&one]);
}

/// The ticket holds against jobs of other processes, and nothing is asked of the books while the
/// job is away.
#[test]
fn who_grows_in_another_process_is_refused() {
    let Apart { device, broker, one, two, mut job, mut other } = Apart::under(10);
    for id in 0..6 {
        job.alloc(id, Request::new(REGION, Lifetime::Persistent)).unwrap();
    }
    job.suspend().unwrap();
    settle(&device, &[&one, &two]);
    assert!(matches!(job.job.suspend(), Err(SuspendError::Suspended)));
    let more = Request::new(REGION, Lifetime::Persistent);
    assert!(matches!(job.alloc(9, more), Err(AllocError::Suspended)));
    for id in 0..4 {
        other.alloc(id, Request::new(REGION, Lifetime::Persistent)).unwrap();
    }
    match other.alloc(4, Request::new(REGION, Lifetime::Persistent)) {
        Err(AllocError::OutOfMemory(why)) => assert_eq!(why.shortage.suspended, regions(6)),
        done => panic!("{done:?}"),
    }
    // It frees there, and that comes back with the rest.
    job.free(5);
    assert_eq!(job.resume().unwrap(), Resume::Done);
    settle(&device, &[&one, &two]);
    assert_eq!(job.job.held().total(), regions(5));
    other.alloc(4, Request::new(REGION, Lifetime::Persistent)).unwrap();
    match job.suspend() {
        Ok(bytes) => assert_eq!(bytes, regions(5)),
        Err(error) => panic!("{error}"),
    }
    settles_without_violation(&device, &broker, &[&one, &two]);
}

/// A job that waits for its room asks again, and comes when an iteration of another process ends.
#[test]
fn a_job_waits_to_come_back_for_an_iteration_of_another_process() {
    let Apart { device, broker, one, two, mut job, mut other } = Apart::under(8);
    fill(&mut job);
    job.suspend().unwrap();
    settle(&device, &[&one, &two]);
    assert_eq!(other.job.begin(None).unwrap(), Begin::Started);
    for id in 0..8 {
        other.alloc(id, Request::new(REGION, Lifetime::Iteration)).unwrap();
    }
    let waits = |resumed: Result<Resume, ResumeError<_>>| matches!(resumed, Ok(Resume::Wait));
    assert!(waits(job.resume()));
    let waiting = one.pool().waits();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    (0..8).for_each(|id| other.free(id));
    other.job.end().unwrap();
    settle(&device, &[&one, &two]);
    assert_eq!(job.resume().unwrap(), Resume::Done);
    settles_without_violation(&device, &broker, &[&one, &two]);
}

/// What was freed before the job goes is not fenced before the copies of the rest are enqueued,
/// though another thread of its process polls meanwhile: nobody gets what is still to be copied.
#[test]
fn nothing_is_fenced_before_it_is_copied() {
    let Apart { device, broker, one, two, mut job, mut other } = Apart::under(8);
    fill(&mut job);
    job.alloc(4, Request::new(REGION, Lifetime::Persistent)).unwrap();
    settle(&device, &[&one, &two]);
    job.free(4);
    one.hear_while_asking(|| true);
    assert!(!job.suspend().unwrap().is_zero());
    // What has been enqueued before the copies has passed, and they have not.
    one.serve();
    one.pool().poll().unwrap();
    takes_all_room(&mut other, two.pool());
    settle(&device, &[&one, &two]);
    assert_eq!(job.resume().unwrap(), Resume::Done);
    settles_without_violation(&device, &broker, &[&one, &two]);
}

/// A second thread asks while the first one is at it: it is to wait, and is told when to ask again.
#[test]
fn who_waits_for_a_job_that_another_thread_brings_back_is_told() {
    let (device, broker) = serve(regions(8), REGION);
    let client = broker.connect().unwrap();
    let pool = client.pool().clone();
    let job = Arc::new(pool.join("job", device.add_stream()).unwrap());
    let block = job.alloc(Request::new(regions(2), Lifetime::Persistent)).unwrap();
    assert_eq!(job.suspend().unwrap(), regions(2));
    settle(&device, &[&client]);
    let seen = Arc::new(AtomicU32::new(0));
    let (second, at) = (job.clone(), seen.clone());
    let books = pool.clone();
    client.hear_while_asking(move || {
        if second.resume() == Ok(Resume::Wait) {
            at.store(books.generation(), Ordering::Relaxed);
        }
        false
    });
    let before = pool.generation();
    assert_eq!(job.resume().unwrap(), Resume::Done);
    let seen = seen.load(Ordering::Relaxed);
    assert!(seen >= before && pool.generation() > seen, "{before} {seen} {}", pool.generation());
    client.hear_while_asking(|| true);
    job.free(block).unwrap();
    settles_without_violation(&device, &broker, &[&client]);
}
